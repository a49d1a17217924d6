"""Requests to language models as jobs: the answer is the result of the job.

    call = product.llm.call("What is in it? …", schema=Receipt.model_json_schema())
    answers = await ctx.map("read", [call, …])                 # in a handler: woken when the last one is there
    job = await product.llm.ask("…"); await app.result(job, timeout="1m")

Each model of the settings has a kind of its own, `llm.complete.NAME`, which uses the limit `llm-NAME`: when its breaker is
open or its permits are in use, its lanes are closed, nothing is claimed and no try is spent, while other models go on. The
handler holds no connection. A job that dies keeps its whole request in its arguments; an answer that comes after its asker
has gone is kept like any result.
"""

from collections.abc import Sequence
from typing import Any

from penstock.engine import Call, Context, Handler, JobId, Penstock
from penstock.errors import BadJob, NoModel
from penstock.models import Completer, Completion, Message, Request, check_schema

LLM_QUEUE = "llm"
KIND = "llm.complete"
DEFAULT = "default"  # the model that is asked when there are several and none is named
ROLES = ("system", "user", "assistant")
RETRY_AFTER = 60.0  # seconds until a job checks again whether there is a model
SLACK = 30.0  # seconds in addition to the two turns of a request
SLOTS_MAX = 500


class LlmRequests:
    def __init__(self, app: Penstock) -> None:
        self._app = app
        self._completers: dict[str, Completer] = {}
        for name, chosen in sorted(app.settings.llms.items()):
            self._completers[name] = Completer(name, chosen)
            app.limit(llm_limit(name), chosen.permits)
            app.job(
                name=llm_kind(name),
                queue=LLM_QUEUE,
                timeout=2 * chosen.timeout.total_seconds() + SLACK,
                retries=chosen.retries,
                max_queue_size=chosen.waiting,
                uses={llm_limit(name): 1},
            )(_handler(self._completers[name]))

    @property
    def slots(self) -> int:
        """Of a worker: permits are fewer, or shared with other workers, and a call is little more than waiting."""
        return min(sum(chosen.permits for chosen in self._app.settings.llms.values()), SLOTS_MAX)

    def choose(self, llm: str | None = None) -> str:
        """The model of this name, or the one that needs no name; `NoModel` with what to do when there is none."""
        names = sorted(self._completers)
        chosen = llm or (names[0] if len(names) == 1 else DEFAULT)
        if chosen in self._completers:
            return chosen
        if not names:
            said = "No language model is configured: add a table [llms.NAME] with url and model to the settings"
        elif llm:
            said = f"Language model {llm[:50]!r} is not configured: use one of {', '.join(names)}, or add [llms.NAME]"
        else:
            said = f"There are several language models ({', '.join(names)}): name one, or call one of them {DEFAULT}"
        raise NoModel(f"{said}.", retry_after=RETRY_AFTER)

    def call(
        self,
        messages: str | Sequence[Message],
        *,
        llm: str | None = None,
        schema: dict[str, Any] | None = None,
        max_tokens: int | None = None,
        temperature: float | None = None,
    ) -> Call:
        """A request, for `enqueue` and `ctx.map`; its result is a `Completion` as JSON. What cannot be asked is refused."""
        name = self.choose(llm)
        several = [{"role": "user", "content": messages}] if isinstance(messages, str) else list(messages)
        _check(several)
        given = {"schema": check_schema(schema) if schema is not None else None}
        options = given | {"max_tokens": max_tokens, "temperature": temperature}
        kept = {key: value for key, value in options.items() if value is not None}
        return self._app.kinds[llm_kind(name)](messages=several, **kept)

    async def ask(
        self,
        messages: str | Sequence[Message],
        *,
        llm: str | None = None,
        schema: dict[str, Any] | None = None,
        max_tokens: int | None = None,
        temperature: float | None = None,
        **options: Any,
    ) -> JobId:
        """Enqueue a request, with the options of `enqueue`; `QueueFull` when too many wait."""
        call = self.call(messages, llm=llm, schema=schema, max_tokens=max_tokens, temperature=temperature)
        return await self._app.enqueue(call, **options)

    async def complete(self, request: Request, *, llm: str | None = None) -> Completion:
        """Ask within another job, whose kind uses `llm_limit(name)` by itself, and whose arguments are not the prompt."""
        return await self._completers[self.choose(llm)].complete(request)

    async def aclose(self) -> None:
        for completer in self._completers.values():
            await completer.aclose()


def _handler(completer: Completer) -> Handler:
    async def complete(
        ctx: Context,
        messages: list[Message],
        schema: dict[str, Any] | None = None,
        max_tokens: int | None = None,
        temperature: float | None = None,
    ) -> dict[str, Any]:
        done = await completer.complete(Request(messages, schema, max_tokens, temperature))
        return done.as_json()

    return complete


def _check(messages: list[Any]) -> None:
    """A message is a role and a text; the sentence quotes neither."""
    for message in messages:
        if (
            not isinstance(message, dict)
            or message.keys() != {"role", "content"}
            or message["role"] not in ROLES
            or not isinstance(message["content"], str)
        ):
            raise BadJob(
                f"A message is a dict of role and content: a role is {', '.join(ROLES)}, and content is a text."
            )
    if not any(message["content"].strip() for message in messages):
        raise BadJob("There is nothing to ask: give at least one message with a text.")


def llm_limit(name: str) -> str:
    return f"llm-{name}"


def llm_kind(name: str) -> str:
    return f"{KIND}.{name}"
