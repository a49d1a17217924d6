"""A worker in a process of its own, beside the one in a command that has much to do: each has its own interpreter's lock.

It has the command's settings, because both read them from the same places, and ends with the command, however that ends:
its standard input closes then.
"""

import asyncio
import contextlib
import os
import signal
import sys

from penstock.errors import CannotStart

PATIENCE = 10.0  # seconds to give back what it has taken


async def work_beside(*, children: int) -> None:
    """Run it until this is cancelled; it reads so many documents at the same time."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "penstock", "worker", "--with-parent"),
        stdin=asyncio.subprocess.PIPE,
        # Lines of its log would tear the display.
        env={"PENSTOCK_LOG__LEVEL": "error", **os.environ, "PENSTOCK_EXTRACTION__CHILDREN": str(children)},
        start_new_session=True,
    )
    try:
        code = await process.wait()
    finally:
        if process.returncode is None:
            await asyncio.shield(_end(process))
    if code:
        raise CannotStart(f"The worker ended with exit code {code}: run `penstock worker` to see why.")


async def _end(process: asyncio.subprocess.Process) -> None:
    with contextlib.suppress(ProcessLookupError):
        process.send_signal(signal.SIGINT)
    try:
        async with asyncio.timeout(PATIENCE):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()
