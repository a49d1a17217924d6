"""A language model at an address: `POST {url}/chat/completions`, as OpenAI, Azure, LiteLLM, Ollama and vLLM accept it.

    completer = Completer("main", settings.llms["main"])
    done = await completer.complete(Request([{"role": "user", "content": "…"}], schema={…}))

A call has a deadline and a limit of bytes. With a schema the answer is validated here, whatever the server promised; for one
that does not fit, the model gets the errors and is asked once more. Errors become those of the engine (`failure`). Prompts
and answers are in no log line, error or metric; the key is only in the header of the request.
"""

import asyncio
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any
from urllib.parse import quote

from penstock.errors import BadAnswer, JobFailure, Permanent, RateLimited, Transient, Unavailable
from penstock.models.endpoint import Endpoint
from penstock.models.remote import seconds
from penstock.models.schema import is_strict, misfits
from penstock.settings import LlmSettings, format_size
from penstock.telemetry import counter
from penstock.text import storable

MANY = 10**9  # tokens; no answer has more
SHOWN_MAX = 20_000  # characters of an unfit answer that the model is shown again
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,59}")
_FENCE = re.compile(r"```(?:json)?\s*\n(.*?)\n?\s*```", re.DOTALL)
_THOUGHTS = re.compile(r"\s*<think>.*?</think>", re.DOTALL)


# -- answers ----------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class CompletionReply:
    text: str
    finish: str  # stop, length, content_filter …
    model: str
    tokens_in: int
    tokens_out: int
    refused: bool = False
    calls: bool = False  # of tools, which were not offered


def read_reply(name: str, content: bytes) -> CompletionReply:
    """The first choice of an answer; anything else is `Transient`, because servers and proxies cut answers off."""
    try:
        answer = json.loads(content)
    except (ValueError, RecursionError):
        raise Transient(f"The language model {name} sent an answer that is incomplete, or is not JSON.") from None
    try:
        choice = answer["choices"][0]
        message = choice["message"]
        text = _text(message.get("content"))
        usage = answer.get("usage") or {}
        return CompletionReply(
            text=text,
            finish=str(choice.get("finish_reason") or "stop")[:40],
            model=str(answer.get("model") or "")[:200],
            tokens_in=_count(usage.get("prompt_tokens")),
            tokens_out=_count(usage.get("completion_tokens")),
            refused=bool(message.get("refusal")),
            calls=bool(message.get("tool_calls") or message.get("function_call")),
        )
    except (KeyError, IndexError, TypeError, AttributeError):
        raise Transient(f"The language model {name} answered without a message.") from None


def _text(content: Any) -> str:
    """The content as text; some servers send it in parts. Without characters that PostgreSQL cannot store."""
    if isinstance(content, list):
        content = "".join(part.get("text") or "" for part in content)
    if not isinstance(content, str | None):
        raise TypeError("content")
    return storable(content or "", "")


def _count(number: object) -> int:
    return number if isinstance(number, int) and not isinstance(number, bool) and 0 <= number <= MANY else 0


def check_ending(name: str, reply: CompletionReply, *, whole: bool) -> None:
    """Raise for an answer that ended too early; `whole` when a part of it is of no use."""
    if reply.refused:
        raise Permanent(f"The language model {name} refuses to answer this request.")
    if reply.calls:  # the author of the text may have asked for it
        raise BadAnswer(
            f"The language model {name} wants to call a tool. It was offered none, and none was called. The text that "
            "it was given may tell it to: check it with `penstock dead show`, and discard the job."
        )
    if reply.finish == "content_filter":
        raise Permanent(f"The content filter of the language model {name} blocks the answer.")
    if reply.finish == "length" and whole:
        raise Permanent(
            f"The answer of the language model {name} was cut off at {reply.tokens_out} tokens: ask for less, or raise "
            f"llms.{name}.max_tokens."
        )
    if not reply.text.strip():
        raise Transient(f"The language model {name} sent an empty answer ({_named(reply.finish)}).")


def read_value(schema: dict[str, Any], text: str) -> tuple[Any, list[str]]:
    """The value in the text, and the places where it does not fit the schema."""
    text = _THOUGHTS.sub("", text, count=1).strip()
    if (fenced := _FENCE.search(text)) and not text.startswith(("{", "[")):
        text = fenced[1]
    try:
        value = json.loads(text, parse_constant=_no_number)
        json.dumps(value, ensure_ascii=False).encode()  # half of a character cannot be stored
    except (ValueError, RecursionError):
        return None, ["the answer is not JSON"]
    if "\\u0000" in json.dumps(value):
        return None, ["the answer has a NUL character, which cannot be stored"]
    return value, misfits(schema, value)


def _no_number(text: str) -> None:
    raise ValueError(text)


def unfit(name: str, problems: list[str]) -> BadAnswer:
    """The error after the second attempt."""
    return BadAnswer(
        f"The language model {name} does not answer in the form that was asked for, even on the second attempt: "
        f"{'; '.join(problems[:3])}. Simplify the schema, or use another model, and redrive the job."
    )


def failure(name: str, status: int, headers: Mapping[str, str], content: bytes, *, keyed: bool) -> JobFailure:
    """The error of a job for an answer with this status."""
    if status in (401, 403):
        what = "refuses the key" if keyed else "needs a key"
        return Permanent(f"The language model {name} {what} ({status}): set llms.{name}.key to a valid one.")
    named = _names(content)
    detail = f"({', '.join([str(status), *named])})"
    rest = _rest(headers)
    if status == 429 or (status == 503 and rest is not None):
        return RateLimited(f"The language model {name} limits the rate of requests {detail}.", retry_after=rest)
    if status >= 500:
        return Unavailable(f"The language model {name} failed {detail}.")
    if status in (408, 409, 425):
        return Transient(f"The language model {name} failed {detail}.")
    return Permanent(f"The language model {name} rejects the request {detail}. {_advice(name, status, named)}")


def _advice(name: str, status: int, named: list[str]) -> str:
    if 300 <= status < 400:
        return f"The server has moved: set llms.{name}.url to its new address."
    if status == 404:
        return f"Check llms.{name}.url and llms.{name}.model."
    if status == 413 or "context_length_exceeded" in named:
        return "The prompt is too long for the model: send less at a time."
    if "content_filter" in named:
        return "The content filter of the model blocks the prompt."
    if "response_format" in named or "json_schema" in " ".join(named):
        return f"Set llms.{name}.answers to json or text, if the server does not support schemas."
    return f"Check llms.{name}.model, tokens_field, temperature and answers against what this server accepts."


def _rest(headers: Mapping[str, str]) -> float | None:
    """The time to wait; Azure also sends it in milliseconds, which is more exact."""
    exact = headers.get("retry-after-ms", "")
    if re.fullmatch(r"\d{1,8}(\.\d+)?", exact):
        return seconds(str(float(exact) / 1000))
    return seconds(headers.get("Retry-After"))


def _names(content: bytes) -> list[str]:
    """The codes of an error without its message, which may quote the prompt."""
    try:
        answer = json.loads(content)
        error = answer.get("error", answer)
        found = [error.get(key) for key in ("code", "type", "param")]
    except (ValueError, RecursionError, AttributeError):
        return []
    return list(dict.fromkeys(name for name in found if isinstance(name, str) and _NAME.fullmatch(name)))


def _named(text: str) -> str:
    return text if _NAME.fullmatch(text) else "no reason given"


# -- calls ------------------------------------------------------------------------------------------------------------------

tokens = counter("penstock_llm_tokens", "Tokens of language models", ("llm", "direction"))
cost = counter("penstock_llm_cost", "Cost of language models, by the prices of the settings", ("llm",))
repairs = counter("penstock_llm_repairs", "Answers that did not fit their schema and were asked for again", ("llm",))

Message = dict[str, str]


@dataclass(frozen=True)
class Request:
    """A prompt, with the schema and the limits of its answer."""

    messages: Sequence[Message]
    schema: dict[str, Any] | None = None
    max_tokens: int | None = None
    temperature: float | None = None


@dataclass(frozen=True)
class Completion:
    """The result of a call: a text, or with a schema the value. Tokens and cost are those of all turns."""

    llm: str
    model: str
    text: str | None
    value: Any
    finish: str
    tokens_in: int
    tokens_out: int
    cost: float
    turns: int

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


class Completer:
    """One session per process, opened with the first call; `aclose` ends it."""

    def __init__(self, name: str, settings: LlmSettings) -> None:
        self.name = name
        self._settings = settings
        self._endpoint = Endpoint(f"language model {name}", settings)

    async def complete(self, request: Request) -> Completion:
        """One call, or two when the first answer does not fit."""
        messages = self._instructed(request)
        replies = [await self._call(messages, request)]
        value = None
        if request.schema is not None:
            value, problems = await asyncio.to_thread(read_value, request.schema, replies[0].text)
            if problems:
                repairs.labels(self.name).inc()
                replies.append(await self._call([*messages, *_repair(replies[0].text, problems)], request))
                value, problems = await asyncio.to_thread(read_value, request.schema, replies[1].text)
            if problems:
                raise unfit(self.name, problems)
        return Completion(
            llm=self.name,
            model=replies[-1].model or self._settings.model,
            text=replies[-1].text if request.schema is None else None,
            value=value,
            finish=replies[-1].finish,
            tokens_in=sum(reply.tokens_in for reply in replies),
            tokens_out=sum(reply.tokens_out for reply in replies),
            cost=round(sum(self._price(reply) for reply in replies), 9),
            turns=len(replies),
        )

    async def aclose(self) -> None:
        await self._endpoint.aclose()

    # -- one call -------------------------------------------------------------------------------------------------

    async def _call(self, messages: list[Message], request: Request) -> CompletionReply:
        content = await self._ask(self._body(messages, request))
        reply = await asyncio.to_thread(read_reply, self.name, content)  # off the loop: it may be megabytes
        tokens.labels(self.name, "in").inc(reply.tokens_in)
        tokens.labels(self.name, "out").inc(reply.tokens_out)
        cost.labels(self.name).inc(self._price(reply))
        check_ending(self.name, reply, whole=request.schema is not None)
        return reply

    async def _ask(self, body: dict[str, Any]) -> bytes:
        most = self._settings.answer_bytes
        response = await self._endpoint.post(
            self._url(),
            body,
            self._headers(),
            most=most,
            too_much=f"The language model {self.name} answered with more than {format_size(most)}: ask for less, lower "
            f"llms.{self.name}.max_tokens, or raise llms.{self.name}.answer_bytes.",
        )
        if response.status != 200:
            keyed = bool(self._endpoint.secret)
            raise failure(self.name, response.status, response.headers, response.content, keyed=keyed)
        return response.content

    # -- what is sent ---------------------------------------------------------------------------------------------

    def _instructed(self, request: Request) -> list[Message]:
        """Add the schema to the first message for servers without schemas; not all of them accept a second system message."""
        messages = [dict(message) for message in request.messages]
        if request.schema is None or self._settings.answers == "schema":
            return messages
        instruction = (
            "Answer with one JSON value that fits this JSON Schema, and with nothing else:\n"
            f"{json.dumps(request.schema, ensure_ascii=False)}"
        )
        if messages[0]["role"] == "system":
            messages[0]["content"] += f"\n\n{instruction}"
            return messages
        return [{"role": "system", "content": instruction}, *messages]

    def _body(self, messages: list[Message], request: Request) -> dict[str, Any]:
        chosen = self._settings
        body: dict[str, Any] = {"model": chosen.model, "messages": messages}
        body[chosen.tokens_field] = request.max_tokens or chosen.max_tokens
        temperature = chosen.temperature if request.temperature is None else request.temperature
        if temperature is not None:
            body["temperature"] = temperature
        if request.schema is not None and chosen.answers == "schema":
            form = {"name": "answer", "schema": request.schema, "strict": is_strict(request.schema)}
            body["response_format"] = {"type": "json_schema", "json_schema": form}
        elif request.schema is not None and chosen.answers == "json":
            body["response_format"] = {"type": "json_object"}
        return body

    def _url(self) -> str:
        chosen, url = self._settings, self._settings.url.rstrip("/")
        if chosen.kind == "azure":
            url = url.removesuffix("/openai")
            deployment = quote(chosen.model, safe="")
            return f"{url}/openai/deployments/{deployment}/chat/completions?api-version={chosen.api_version}"
        return f"{url}/chat/completions"

    def _headers(self) -> dict[str, str]:
        if not (secret := self._endpoint.secret):
            return {}
        return {"api-key": secret} if self._settings.kind == "azure" else {"Authorization": f"Bearer {secret}"}

    def _price(self, reply: CompletionReply) -> float:
        return (reply.tokens_in * self._settings.price_in + reply.tokens_out * self._settings.price_out) / 1e6


def _repair(text: str, problems: list[str]) -> list[Message]:
    """The messages of the second turn: the answer, and what is wrong with it."""
    wrong = "\n".join(f"- {problem}" for problem in problems)
    return [
        {"role": "assistant", "content": text[:SHOWN_MAX]},
        {
            "role": "user",
            "content": f"This does not fit the schema:\n{wrong}\nAnswer again, with the corrected JSON and nothing else.",
        },
    ]
