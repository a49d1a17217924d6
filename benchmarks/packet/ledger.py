"""A worker that writes down each use of the pool by a message's jobs: `python -m benchmarks.packet.ledger FILE`.

Which job it is for is told by the stack. One line for each use: the handler, what for, whether it was a transaction, seconds.
"""

import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from types import FrameType

import typer

from penstock.cli import server
from penstock.database import Session
from penstock.database.pool import Pool

HANDLERS = ("take_message", "prepare_packet", "ocr_pages")
# In which function of the engine the pool is used: what the use is for.
USES = {
    "Context.finish": "finish",
    "Context.write": "write",
    "Steps.keep": "step",
    "_suspend": "map",
    "receive": "receive",
}
WATCHED = {"transaction": Pool.transaction, "session": Pool.session}


def _purpose() -> tuple[str, str]:
    frame: FrameType | None = sys._getframe(2)
    use, handler = "", ""
    while frame is not None and not handler:
        name = frame.f_code.co_qualname.partition(".<locals>")[0]
        use = use or USES.get(name, "")
        if frame.f_code.co_name in HANDLERS:
            handler = frame.f_code.co_name
        frame = frame.f_back
    return handler, use


def watch(path: Path) -> None:
    log = path.open("a", buffering=1)

    @asynccontextmanager
    async def transaction(pool: Pool) -> AsyncIterator[Session]:
        handler, use = _purpose()
        async with WATCHED["transaction"](pool) as session:
            began = time.monotonic()
            yield session
        if handler:
            log.write(f"{handler}\t{use or 'other'}\ttransaction\t{time.monotonic() - began:.4f}\n")

    @asynccontextmanager
    async def session(pool: Pool) -> AsyncIterator[Session]:
        handler, use = _purpose()
        async with WATCHED["session"](pool) as found:
            began = time.monotonic()
            yield found
        if handler:
            log.write(f"{handler}\t{use or 'look'}\tstatement\t{time.monotonic() - began:.4f}\n")

    setattr(Pool, "transaction", transaction)  # noqa: B010  it is watched, not replaced
    setattr(Pool, "session", session)  # noqa: B010


if __name__ == "__main__":
    watch(Path(sys.argv.pop()))
    with suppress(typer.Exit):
        server.worker(sources="none")
