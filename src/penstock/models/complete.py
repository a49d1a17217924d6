"""A language model behind an address: `POST {url}/chat/completions`, as OpenAI, Azure, LiteLLM, Ollama and vLLM take it.

    completer = Completer("main", settings.llms["main"])
    done = await completer.complete(Request([{"role": "user", "content": "…"}], schema={…}))

A call has a deadline and takes no more than so many bytes. With a schema the answer is checked here, whatever the server
promised; one that does not fit is told what is wrong and asked once more. What goes wrong is told in the words of the engine
(reply.py). Prompts and answers are in no log line, no error and no metric; the key is in the header of the request only.
"""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any
from urllib.parse import quote

from penstock.models.endpoint import Endpoint
from penstock.models.reply import Reply, check_ending, failure, read_reply, read_value, unfit
from penstock.models.schema import is_strict
from penstock.settings.llm import LlmSettings
from penstock.settings.values import format_size
from penstock.telemetry import counter

SHOWN_MAX = 20_000  # characters of an unfit answer that the model is shown again

tokens = counter("penstock_llm_tokens", "Tokens of language models", ("llm", "direction"))
cost = counter("penstock_llm_cost", "What they cost by the prices of the settings", ("llm",))
repairs = counter("penstock_llm_repairs", "Answers that did not fit their schema and were asked for again", ("llm",))

Message = dict[str, str]


@dataclass(frozen=True)
class Request:
    """What is asked."""

    messages: Sequence[Message]
    schema: dict[str, Any] | None = None
    max_tokens: int | None = None
    temperature: float | None = None


@dataclass(frozen=True)
class Completion:
    """What came of it: a text, or with a schema the value. Tokens and cost are of all turns together."""

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

    async def _call(self, messages: list[Message], request: Request) -> Reply:
        content = await self._ask(self._body(messages, request))
        reply = await asyncio.to_thread(read_reply, self.name, content)  # off the loop: it may be megabytes
        tokens.labels(self.name, "in").inc(reply.tokens_in)
        tokens.labels(self.name, "out").inc(reply.tokens_out)
        cost.labels(self.name).inc(self._price(reply))
        check_ending(self.name, reply, whole=request.schema is not None)
        return reply

    async def _ask(self, body: dict[str, Any]) -> bytes:
        most = self._settings.answer_bytes
        answered = await self._endpoint.post(
            self._url(),
            body,
            self._headers(),
            most=most,
            too_much=f"The language model {self.name} answered with more than {format_size(most)}. Ask for less, lower "
            f"llms.{self.name}.max_tokens, or raise llms.{self.name}.answer_bytes.",
        )
        if answered.status != 200:
            keyed = bool(self._endpoint.secret)
            raise failure(self.name, answered.status, answered.headers, answered.content, keyed=keyed)
        return answered.content

    # -- what is sent ---------------------------------------------------------------------------------------------

    def _instructed(self, request: Request) -> list[Message]:
        """Servers that take no schema are told it by the first message; a second system message is not for all of them."""
        messages = [dict(message) for message in request.messages]
        if request.schema is None or self._settings.answers == "schema":
            return messages
        told = (
            "Answer with one JSON value that fits this JSON Schema, and with nothing else:\n"
            f"{json.dumps(request.schema, ensure_ascii=False)}"
        )
        if messages[0]["role"] == "system":
            messages[0]["content"] += f"\n\n{told}"
            return messages
        return [{"role": "system", "content": told}, *messages]

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

    def _price(self, reply: Reply) -> float:
        return (reply.tokens_in * self._settings.price_in + reply.tokens_out * self._settings.price_out) / 1e6


def _repair(text: str, problems: list[str]) -> list[Message]:
    """The second turn: what was said, and what is wrong with it."""
    wrong = "\n".join(f"- {problem}" for problem in problems)
    return [
        {"role": "assistant", "content": text[:SHOWN_MAX]},
        {
            "role": "user",
            "content": f"This does not fit the schema:\n{wrong}\nAnswer again, with the corrected JSON and nothing else.",
        },
    ]
