"""A stand-in for a language model, for the examples: `.venv/bin/python examples/models/server.py --port 0 [--delay SECONDS]`.

It prints its address, and speaks the protocol of OpenAI on it: chat completions and embeddings. There is no model behind it.
Which of the two programs beside it answers, the asked JSON schema says: one with `facts` facts.py, one with `memos` or
`verdicts` memos.py, each by `answer(messages, schema)`. Without a schema the answer is an echo. Vectors are made of the words
of a text, so that texts with the same words are near to each other. The same question has the same answer each time.
"""

import argparse
import asyncio
import importlib
import json
import math
import re
import time
import zlib
from contextlib import suppress
from typing import Any

from aiohttp import web

MODEL = "stand-in"
DIMENSIONS = 64
BODY_MAX = 16 * 2**20
ANSWERS = {"facts": "facts", "memos": "memos", "verdicts": "memos"}  # property of the schema: module that answers
DELAY = web.AppKey("DELAY", float)

Message = dict[str, str]


class Refused(Exception):
    """A request that this stand-in cannot answer."""

    def __init__(self, status: int, code: str, said: str) -> None:
        super().__init__(said)
        self.status, self.code = status, code


@web.middleware
async def refusing(request: web.Request, handler: Any) -> web.StreamResponse:
    """Errors in the form that OpenAI gives them."""
    try:
        answer: web.StreamResponse = await handler(request)
    except Refused as refused:
        error = {"message": str(refused), "type": "stand_in_error", "code": refused.code}
        return web.json_response({"error": error}, status=refused.status)
    return answer


# -- chat completions ---------------------------------------------------------------------------------------------------


async def complete(request: web.Request) -> web.Response:
    asked = await read(request)
    messages = asked.get("messages")
    if not isinstance(messages, list) or not messages:
        raise Refused(400, "bad_request", "There are no messages.")
    schema = asked_schema(asked)
    content = echo(messages) if schema is None else json.dumps(answer(messages, schema), ensure_ascii=False)
    await asyncio.sleep(request.app[DELAY])
    message = {"role": "assistant", "content": content}
    tokens_in = sum(words(str(each.get("content", ""))) for each in messages)
    return web.json_response(
        {
            "id": f"chatcmpl-{zlib.crc32(content.encode()):08x}",
            "object": "chat.completion",
            "created": int(time.time()),
            "model": asked.get("model") or MODEL,
            "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
            "usage": usage(tokens_in, words(content)),
        }
    )


def asked_schema(asked: dict[str, Any]) -> dict[str, Any] | None:
    """The schema by which the answer is constrained, or the one that the system's message tells."""
    form = asked.get("response_format") or {}
    if form.get("type") == "json_schema":
        schema: dict[str, Any] = form["json_schema"]["schema"]
        return schema
    for message in asked["messages"]:
        if message.get("role") == "system" and (told := re.search(r"JSON Schema[^{]*(?=\{)", message["content"])):
            found: dict[str, Any] = json.JSONDecoder().raw_decode(message["content"], told.end())[0]
            return found
    if form.get("type") == "json_object":
        raise Refused(400, "bad_request", "JSON is asked for, but the system's message does not tell its JSON Schema.")
    return None


def answer(messages: list[Message], schema: dict[str, Any]) -> Any:
    """By the program that knows this form of answers."""
    known = [ANSWERS[name] for name in schema.get("properties", {}) if name in ANSWERS]
    if not known:
        raise Refused(501, "unknown_schema", f"This stand-in answers only schemas with one of {', '.join(ANSWERS)}.")
    try:
        module = importlib.import_module(known[0])
    except ModuleNotFoundError as error:
        raise Refused(501, "missing_answers", f"There is no {error.name}.py beside server.py to answer this.") from None
    return module.answer(messages, schema)


def echo(messages: list[Message]) -> str:
    asked = " ".join(str(messages[-1].get("content", "")).split())
    return f"This is a stand-in for a model. It was asked: {asked[:200]}"


# -- embeddings ---------------------------------------------------------------------------------------------------------


async def embed(request: web.Request) -> web.Response:
    asked = await read(request)
    texts = [asked["input"]] if isinstance(asked.get("input"), str) else asked.get("input")
    if not isinstance(texts, list) or not all(isinstance(text, str) and text.strip() for text in texts):
        raise Refused(400, "bad_request", "The input is a text or a list of texts, and none of them is blank.")
    dimensions = asked.get("dimensions") or DIMENSIONS
    entries = [
        {"object": "embedding", "index": index, "embedding": vector(text, dimensions)}
        for index, text in enumerate(texts)
    ]
    await asyncio.sleep(request.app[DELAY])
    tokens_in = sum(words(text) for text in texts)
    told = {"object": "list", "model": asked.get("model") or MODEL, "usage": usage(tokens_in, 0)}
    return web.json_response(told | {"data": entries})


def vector(text: str, dimensions: int) -> list[float]:
    """Each word adds to one place, chosen by its letters; of length 1."""
    places = [0.0] * dimensions
    for word in re.findall(r"\w+", text.lower()) or [text]:
        places[zlib.crc32(word.encode()) % dimensions] += 1.0
    length = math.sqrt(sum(place * place for place in places))
    return [round(place / length, 6) for place in places]


# -- both ---------------------------------------------------------------------------------------------------------------


async def read(request: web.Request) -> dict[str, Any]:
    try:
        asked = await request.json()
    except ValueError:
        raise Refused(400, "bad_request", "The request is no JSON.") from None
    if not isinstance(asked, dict):
        raise Refused(400, "bad_request", "The request is no JSON object.")
    return asked


def words(text: str) -> int:
    """What this stand-in calls tokens."""
    return len(text.split())


def usage(tokens_in: int, tokens_out: int) -> dict[str, int]:
    return {"prompt_tokens": tokens_in, "completion_tokens": tokens_out, "total_tokens": tokens_in + tokens_out}


async def serve(port: int, delay: float) -> None:
    application = web.Application(client_max_size=BODY_MAX, middlewares=[refusing])
    application[DELAY] = delay
    application.router.add_post("/v1/chat/completions", complete)
    application.router.add_post("/v1/embeddings", embed)
    runner = web.AppRunner(application, shutdown_timeout=1.0)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", port, backlog=1024).start()
        print(f"http://127.0.0.1:{runner.addresses[0][1]}/v1", flush=True)
        await asyncio.Event().wait()
    finally:
        await runner.cleanup()


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description="A stand-in for a language model, for the examples.")
    arguments.add_argument("--port", type=int, default=8080, help="0 takes a free one")
    arguments.add_argument("--delay", type=float, default=0.0, help="seconds until each answer")
    chosen = arguments.parse_args()
    with suppress(KeyboardInterrupt):
        asyncio.run(serve(chosen.port, chosen.delay))
