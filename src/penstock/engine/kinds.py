"""The kinds of jobs that an application declares: a name, a handler, and how long and how often it may try.

`Kind[P, R]` has the handler's parameters after the context and its result: a type checker checks the arguments of a call,
and `Call[R]` carries the type of the result to `app.result` and `ctx.map`.
"""

import inspect
import json
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cached_property
from string import Formatter
from typing import TYPE_CHECKING, Any, Concatenate, Generic

from typing_extensions import ParamSpec, TypeVar

from penstock.errors import BadJob, BadStep

if TYPE_CHECKING:
    from penstock.engine.context import Context

ARGS_MAX = 1_000_000
SCOPE_MAX = 500
NAME = re.compile(r"[a-z0-9][a-z0-9_.-]{0,62}", re.IGNORECASE)

NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")  # an escape, and not a backslash before u0000

P = ParamSpec("P", default=...)
R = TypeVar("R", default=Any)
R_co = TypeVar("R_co", covariant=True, default=Any)

Handler = Callable[Concatenate["Context", P], Awaitable[R]]
Scope = str | Callable[..., str]  # a text with arguments in braces, or a function of them
_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode


@dataclass(frozen=True, slots=True)
class Call(Generic[R_co]):
    """A description of a job: which kind, with which arguments. Making one runs nothing."""

    kind: "Kind[..., R_co]"
    args: str  # JSON, checked when the call was made


@dataclass(frozen=True)
class Kind(Generic[P, R_co]):
    """A declared handler. Calling it makes a `Call`."""

    name: str
    handler: Handler[P, R_co] = field(repr=False)
    queue: str = "default"
    timeout: timedelta | None = None
    stall_after: timedelta | None = None
    retries: int = 3
    scope: Scope | None = field(default=None, repr=False)
    max_queue_size: int | None = None  # of each of its lanes: how many jobs may wait in it
    uses: Mapping[str, int] = field(default_factory=dict, hash=False)  # permits of limits, while one of its jobs runs

    def __post_init__(self) -> None:
        check_name("kind", self.name)
        check_name("queue", self.queue)
        if not inspect.iscoroutinefunction(self.handler):
            raise BadJob(
                f"The handler of {self.name} must be `async def`: work that blocks belongs in asyncio.to_thread."
            )
        parameters = list(self.signature.parameters.values())
        if not parameters or parameters[0].kind not in (
            inspect.Parameter.POSITIONAL_ONLY,
            inspect.Parameter.POSITIONAL_OR_KEYWORD,
        ):
            raise BadJob(f"The handler of {self.name} must take the context first: async def {self.name}(ctx, …).")
        for parameter in parameters[1:]:
            if parameter.kind in (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.VAR_POSITIONAL):
                raise BadJob(
                    f"The handler of {self.name} takes {parameter} by position only: arguments are kept by their names."
                )
        if self.retries < 0:
            raise BadJob(f"retries of {self.name} is {self.retries}: use 0 for a single try.")
        if isinstance(self.scope, str):
            self._check_scope(self.scope)
        if self.max_queue_size is not None and not is_count(self.max_queue_size):
            raise BadJob(
                f"The maximum queue size of {self.name} is {self.max_queue_size!r}: use an integer of at least 1."
            )
        for limit, amount in self.uses.items():
            if not is_count(amount):
                raise BadJob(f"{self.name} uses {amount!r} permits of {limit}: use an integer of at least 1.")

    def _check_scope(self, scope: str) -> None:
        parameters = set(list(self.signature.parameters)[1:])
        try:
            named = {name for _, name, _, _ in Formatter().parse(scope) if name is not None}
        except ValueError as error:
            raise BadJob(f"The scope of {self.name} is {scope!r}, which cannot be read: {error}.") from None
        if not named or not named <= parameters:
            raise BadJob(
                f"The scope of {self.name} is {scope!r}: name arguments of the handler in it, as in "
                f'"{{{next(iter(sorted(parameters)), "document")}}}"; otherwise all its jobs would share their steps.'
            )

    def scope_of(self, args: str) -> str | None:
        """The scope under which steps of a job with these arguments are kept; None: the job itself."""
        if self.scope is None:
            return None
        named = {name: parameter.default for name, parameter in self.signature.parameters.items()} | json.loads(args)
        text: object = self.scope.format(**named) if isinstance(self.scope, str) else self.scope(**json.loads(args))
        if not isinstance(text, str) or not 0 < len(text.encode()) <= SCOPE_MAX or "\0" in text:
            raise BadStep(
                f"The scope of {self.name} must be a text of 1 to {SCOPE_MAX} bytes, and is {str(text)[:50]!r}."
            )
        return f"{self.name} {text}"

    @cached_property
    def signature(self) -> inspect.Signature:
        return inspect.signature(self.handler)

    def __call__(self, *unnamed: P.args, **args: P.kwargs) -> Call[R_co]:
        named = self._named(unnamed, args) if unnamed else args
        required, allowed = self._names
        if not required <= named.keys() <= allowed:  # bind takes ten times as long, and has the better words
            self._bind(**named)
        return Call(self, encode_args(self.name, named))

    def _named(self, unnamed: tuple[object, ...], args: Mapping[str, object]) -> dict[str, object]:
        """Arguments that were given by position, under the names by which they are kept."""
        self._bind(*unnamed, **args)
        return dict(zip(list(self.signature.parameters)[1:], unnamed, strict=False)) | dict(args)

    def _bind(self, *unnamed: object, **args: object) -> inspect.BoundArguments:
        try:
            return self.signature.bind(None, *unnamed, **args)
        except TypeError as error:
            raise BadJob(f"{self.name} cannot be called like this: {error}.") from None

    @cached_property
    def _names(self) -> tuple[frozenset[str], frozenset[str]]:
        """The parameters after the context: those that a call must give, and those that it may."""
        given = [
            parameter
            for parameter in list(self.signature.parameters.values())[1:]
            if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
        ]
        required = frozenset(parameter.name for parameter in given if parameter.default is parameter.empty)
        return required, frozenset(parameter.name for parameter in given)


class Kinds(dict[str, Kind]):
    """The kinds of one application, by name."""

    def declare(self, kind: Kind[P, R]) -> Kind[P, R]:
        if kind.name in self:
            raise BadJob(f"Kind {kind.name} has two handlers: give one of them another name with name=….")
        self[kind.name] = kind
        return kind


def encode_args(kind: str, args: dict[str, Any]) -> str:
    """Arguments as JSON; what cannot be kept is refused here and not in a worker."""
    try:
        text = _encode(args)
        size = len(text.encode())
    except (TypeError, ValueError, RecursionError) as error:
        raise BadJob(
            f"The arguments of {kind} cannot be kept as JSON ({error}): pass text, numbers, lists and dicts."
        ) from None
    if "\\u0000" in text and NUL.search(text):
        raise BadJob(f"The arguments of {kind} hold a NUL character, which PostgreSQL cannot keep: remove it.")
    if size > ARGS_MAX:
        raise BadJob(
            f"The arguments of {kind} take {size:,} bytes, more than {ARGS_MAX:,}: pass a key or a path instead."
        )
    return text


def check_name(what: str, name: str) -> str:
    """Check the name of a queue or kind: it appears in commands, metrics and channels."""
    if not NAME.fullmatch(name):
        raise BadJob(
            f"{name!r} cannot be the name of a {what}: use 1 to 63 letters, digits, dots, dashes and underscores."
        )
    return name


def is_count(number: object) -> bool:
    """Whether it is an integer of at least 1 that PostgreSQL can keep; True is not one."""
    return isinstance(number, int) and not isinstance(number, bool) and 1 <= number < 2**31


def check_fairness_key(name: object) -> str:
    """Check a fairness key: any short text, because it may be the name of a customer."""
    if isinstance(name, str) and name.isprintable() and 0 < len(name.encode()) <= 200:
        return name
    raise BadJob(f"{str(name)[:50]!r} cannot be a fairness key: use 1 to 200 bytes of printable text.")
