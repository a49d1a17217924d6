"""The `penstock` command.

Nothing is imported before `main` has replaced Python's handler of Ctrl-C, which would print a traceback out of the middle of
an import. The handler ends the process at once; while a command runs its event loop, Ctrl-C cancels the command instead
(session.py, server.py). A parent can block the signal, as `./dev` does, so that none reaches Python before it is replaced.
"""

import os
import signal
import sys
from typing import NoReturn

INTERRUPTED = 128 + signal.SIGINT


def main() -> None:
    """Run the command line and exit."""
    signal.signal(signal.SIGINT, leave)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    try:
        from penstock.cli.commands import run_command_line

        run_command_line()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


def leave(*_: object) -> NoReturn:
    """End without a word and without cleaning up, since nothing has been opened."""
    os._exit(INTERRUPTED)
