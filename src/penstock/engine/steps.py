"""Steps: named parts of a handler whose results are kept, so that a later attempt continues where the last one stopped.

A result is kept under (scope, step, version, digest of the input). The scope is the job, or the one of `@app.job(scope=…)`;
then another job of the same scope continues with it, too. Nothing else is part of the key: a deploy discards nothing,
and a change of what a step computes needs a higher `version`. Keeping is one statement that shows the fence, with no
connection held while the step runs. A scope's results go with the job that completes it.
"""

import asyncio
import hashlib
import inspect
import json
import time
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from penstock.database import Pool, Session, statements
from penstock.engine.failpoint import reach
from penstock.engine.job import Job
from penstock.engine.kinds import is_count
from penstock.errors import BadStep, LeaseLost

sql = statements(__file__)

MOST = 8 * 2**20  # bytes of a result, before it is compressed
CHEAP = 0.05  # seconds: a pure step below this is computed again rather than kept, as is one with too large a result
LARGE = 2**18  # bytes that are worth a thread to compress them
NAME_MAX = 200

Key = tuple[str, int, bytes]  # step, version, digest of the input


@dataclass
class Steps:
    """The steps of one attempt."""

    pool: Pool
    worker_id: int
    job: Job
    scope: str
    own: bool  # the scope is this job, and ends with it
    _kept: set[Key] | None = None  # by earlier attempts
    _used: dict[str, tuple[int, bytes]] = field(default_factory=dict)  # in this attempt, by name

    async def run(
        self, name: str, function: Callable[..., Any], arguments: Sequence[Any], version: int, *, pure: bool
    ) -> Any:
        """The kept result, or what the function returns, as it will be read back: a tuple comes as a list."""
        key = (name, version, digest_input(name, arguments))
        self._use(key)
        found, value = await self.find(key)
        if found:
            return value
        began = time.monotonic()
        if inspect.iscoroutinefunction(function):
            value = await function(*arguments)
        else:  # it may compute or block, and others share this loop
            value = await asyncio.to_thread(function, *arguments)
            if inspect.isawaitable(value):
                value = await value
        seconds = time.monotonic() - began
        form, raw = encode(name, value)
        if len(raw) > MOST and not pure:
            raise _too_large(name, len(raw))
        if not (pure and (seconds < CHEAP or len(raw) > MOST)):
            await self.keep(key, form, raw, seconds)
        return value if form == "bytes" else json.loads(raw)

    async def find(self, key: Key) -> tuple[bool, Any]:
        if self._kept is None:
            self._kept = await self._load()
        if key not in self._kept:
            return False, None
        step, version, digest = key
        row = await self.pool.repeat(
            sql.kept_content.first, scope=self.scope, step=step, version=version, digest=digest
        )
        if row is None:  # swept meanwhile
            return False, None
        self.job.scope = self.scope
        raw = await _aside(zlib.decompress, row["content"])
        return True, raw if row["format"] == "bytes" else json.loads(raw)

    async def _load(self) -> set[Key]:
        if self.own and self.job.attempt == 1:
            return set()  # no earlier attempt
        rows = await self.pool.repeat(lambda session: sql.kept_steps(session, scope=self.scope))
        return {(row["step"], row["version"], row["digest"]) for row in rows}

    async def keep(self, key: Key, form: str, raw: bytes, seconds: float) -> None:
        content = await _aside(partial(zlib.compress, level=1), raw)
        step, version, digest = key
        job = self.job

        async def write(session: Session) -> Any:
            reach("mid-checkpoint", session)
            return await sql.keep_checkpoint.value(
                session,
                id=job.id,
                attempt=job.attempt,
                worker_id=self.worker_id,
                scope=self.scope,
                step=step,
                version=version,
                digest=digest,
                own=self.own,
                format=form,
                content=content,
                seconds=seconds,
            )

        # Repeated after a lost answer: the same row once more is harmless, and the fence decides again.
        if await self.pool.repeat(write) is None:
            raise LeaseLost(f"Job {job.id} is not ours any more (attempt {job.attempt}); the step {step} was not kept.")
        job.scope = self.scope

    def _use(self, key: Key) -> None:
        name, version, digest = key
        check_step_name("step", name)
        if version != 0 and not is_count(version):
            raise BadStep(f"The version of the step {name} is {version!r}: use an integer, and raise it by one.")
        if self._used.setdefault(name, (version, digest)) != (version, digest):
            raise BadStep(
                f"The step {name} was used before in this attempt, with another input: give each its own name, for "
                f'example f"{name}-{{page}}".'
            )


async def forget_scopes(tx: Session, scopes: Sequence[str]) -> None:
    """Remove the results of scopes whose work is done."""
    await sql.forget_scopes.run(tx, scopes=list(scopes))


def check_step_name(what: str, name: object) -> None:
    if not isinstance(name, str) or not 0 < len(name.encode()) <= NAME_MAX or "\0" in name:
        raise BadStep(f"{str(name)[:50]!r} cannot be the name of a {what}: use a text of 1 to {NAME_MAX} bytes.")


async def _aside(work: Callable[[bytes], bytes], raw: bytes) -> bytes:
    """Compress or decompress here, or in a thread when it would block the event loop."""
    return work(raw) if len(raw) < LARGE else await asyncio.to_thread(work, raw)


def digest_input(name: str, arguments: Sequence[Any]) -> bytes:
    """A digest of the input, equal in every process."""
    try:
        text = json.dumps(arguments, sort_keys=True, ensure_ascii=False, allow_nan=False, default=_digest_bytes)
        return hashlib.sha256(text.encode()).digest()
    except (TypeError, ValueError, RecursionError) as error:
        raise BadStep(
            f"The input of the step {name} cannot be compared ({error}): pass text, bytes, numbers, lists and dicts."
        ) from None


def _digest_bytes(value: object) -> str:
    if isinstance(value, bytes | bytearray | memoryview):
        return "sha256:" + hashlib.sha256(value).hexdigest()
    raise TypeError(f"a {type(value).__name__} is not JSON")


def encode(name: str, value: Any) -> tuple[str, bytes]:
    """Format and bytes of a result. What cannot be kept is a permanent failure: the next attempt would make the same."""
    if isinstance(value, bytes | bytearray | memoryview):
        return "bytes", bytes(value)
    try:
        raw = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise BadStep(
            f"The result of the step {name} cannot be kept ({error}): return bytes or what JSON has."
        ) from None
    return "json", raw


def _too_large(name: str, size: int) -> BadStep:
    return BadStep(
        f"The step {name} returned {size:,} bytes, and at most {MOST:,} are kept: put it into a file or a blob store, and "
        "return its key."
    )
