"""What a language model's server answered: its text with what it cost, or the error that its refusal is for a job.

Nothing of a prompt gets into a sentence. Servers like to quote what they were sent, so that of their own words only the
names of an error (`code`, `type`, `param`) are told.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from penstock.errors import BadAnswer, JobFailure, Permanent, RateLimited, Transient, Unavailable
from penstock.models.answer import seconds
from penstock.models.schema import misfits

MANY = 10**9  # tokens; no answer has more
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,59}")
_FENCE = re.compile(r"```(?:json)?\s*\n(.*?)\n?\s*```", re.DOTALL)
_THOUGHTS = re.compile(r"\s*<think>.*?</think>", re.DOTALL)


@dataclass(frozen=True)
class Reply:
    """One answer as it came."""

    text: str
    finish: str  # stop, length, content_filter …
    model: str
    tokens_in: int
    tokens_out: int
    refused: bool = False
    calls: bool = False  # of tools, which nobody has offered


def read_reply(name: str, content: bytes) -> Reply:
    """The first choice of an answer; what is no answer is `Transient`, because servers and proxies break off."""
    try:
        answer = json.loads(content)
    except (ValueError, RecursionError):
        raise Transient(f"The language model {name} answered with something that is no JSON, or broke off.") from None
    try:
        choice = answer["choices"][0]
        message = choice["message"]
        text = _text(message.get("content"))
        usage = answer.get("usage") or {}
        return Reply(
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
    """As text, or in parts as some servers have it; without what PostgreSQL cannot keep."""
    if isinstance(content, list):
        content = "".join(part.get("text") or "" for part in content)
    if not isinstance(content, str | None):
        raise TypeError("content")
    return (content or "").replace("\0", "").encode("utf-8", "replace").decode("utf-8")


def _count(number: object) -> int:
    return number if isinstance(number, int) and not isinstance(number, bool) and 0 <= number <= MANY else 0


def check_ending(name: str, reply: Reply, *, whole: bool) -> None:
    """An answer that ended before it was one: `whole` when a part of it is of no use."""
    if reply.refused:
        raise Permanent(f"The language model {name} refuses to answer this request.")
    if reply.calls:  # whoever wrote the text may have asked for it
        raise BadAnswer(
            f"The language model {name} wants to call a tool. It was offered none, and none was called. The text that "
            "it was given may tell it to: look at it with `penstock dead show`, and discard the job."
        )
    if reply.finish == "content_filter":
        raise Permanent(f"The content filter of the language model {name} does not let the answer through.")
    if reply.finish == "length" and whole:
        raise Permanent(
            f"The answer of the language model {name} was cut at {reply.tokens_out} tokens. Ask for less, or raise "
            f"llms.{name}.max_tokens."
        )
    if not reply.text.strip():
        raise Transient(f"The language model {name} answered without a word ({_named(reply.finish)}).")


def read_value(schema: dict[str, Any], text: str) -> tuple[Any, list[str]]:
    """The value that the text says, and what of it does not fit."""
    text = _THOUGHTS.sub("", text, count=1).strip()
    if (fenced := _FENCE.search(text)) and not text.startswith(("{", "[")):
        text = fenced[1]
    try:
        value = json.loads(text, parse_constant=_no_number)
        json.dumps(value, ensure_ascii=False).encode()  # half of a character cannot be kept
    except (ValueError, RecursionError):
        return None, ["the answer is no JSON"]
    if "\\u0000" in json.dumps(value):
        return None, ["the answer has a NUL character, which cannot be kept"]
    return value, misfits(schema, value)


def _no_number(text: str) -> None:
    raise ValueError(text)


def unfit(name: str, problems: list[str]) -> BadAnswer:
    """After the second try."""
    return BadAnswer(
        f"The language model {name} does not answer in the form that was asked for, also when told so: "
        f"{'; '.join(problems[:3])}. Simplify the schema, or use another model, and redrive the job."
    )


def failure(name: str, status: int, headers: Mapping[str, str], content: bytes, *, keyed: bool) -> JobFailure:
    """What a refusal means for the job."""
    if status in (401, 403):
        what = "refuses the key" if keyed else "wants a key"
        return Permanent(f"The language model {name} {what} ({status}). Set llms.{name}.key to one that it takes.")
    named = _names(content)
    told = f"({', '.join([str(status), *named])})"
    rest = _rest(headers)
    if status == 429 or (status == 503 and rest is not None):
        return RateLimited(f"The language model {name} asks for patience {told}.", retry_after=rest)
    if status >= 500:
        return Unavailable(f"The language model {name} failed {told}.")
    if status in (408, 409, 425):
        return Transient(f"The language model {name} failed {told}.")
    return Permanent(f"The language model {name} does not take the request {told}. {_advice(name, status, named)}")


def _advice(name: str, status: int, named: list[str]) -> str:
    if 300 <= status < 400:
        return f"It has moved: set llms.{name}.url to where it is now."
    if status == 404:
        return f"Check llms.{name}.url and llms.{name}.model."
    if status == 413 or "context_length_exceeded" in named:
        return "The prompt is too long for it: send less at a time."
    if "content_filter" in named:
        return "Its content filter does not let the prompt through."
    if "response_format" in named or "json_schema" in " ".join(named):
        return f"Set llms.{name}.answers to json or text, if it does not understand schemas."
    return f"Check llms.{name}.model, tokens_field, temperature and answers against what this server takes."


def _rest(headers: Mapping[str, str]) -> float | None:
    """Azure says it in milliseconds, too, which is the more exact one."""
    exact = headers.get("retry-after-ms", "")
    if re.fullmatch(r"\d{1,8}(\.\d+)?", exact):
        return seconds(str(float(exact) / 1000))
    return seconds(headers.get("Retry-After"))


def _names(content: bytes) -> list[str]:
    """The names of an error without the words around them, which may quote the prompt."""
    try:
        answer = json.loads(content)
        error = answer.get("error", answer)
        found = [error.get(key) for key in ("code", "type", "param")]
    except (ValueError, RecursionError, AttributeError):
        return []
    return list(dict.fromkeys(name for name in found if isinstance(name, str) and _NAME.fullmatch(name)))


def _named(text: str) -> str:
    return text if _NAME.fullmatch(text) else "for no reason that it names"
