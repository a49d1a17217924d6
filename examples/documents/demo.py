"""`./dev demo`: from an empty folder to an answer, in a temporary home.

It runs the commands that a person would type, prints them with their output, and checks the results: exit code 1 when a
document ended in another status than expected, or a search missed a document. Two of the documents fail on purpose.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "mill"
UNREADABLE = {"insurance.pdf", "gate-drawing.pdf"}
MEMBER = "new-bearing.eml!/offer-2207.txt"
# A question, and a document that must be among the answers.
SEARCHES = (
    ("why did the turbine stop in March?", "maintenance-log.pdf"),
    ("who inspected the sluice gate", "gate-inspection.docx"),
)
START_WITHIN = 60.0
STOP_WITHIN = 30.0
DETAILS = """
What to do next:
  ./dev up                            start Penstock on this machine, on http://127.0.0.1:8080
  ./dev run add ~/Documents           add your own files, in another terminal
  ./dev run search "your question"    and ask
  docs/command-line.md                every command; docs/api.md the same by HTTP
"""


class Unexpected(Exception):
    """A result differs from what the demo promises."""


def main() -> int:
    began = time.monotonic()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the folder is removed
    with temporary_home() as home:
        environ = {key: value for key, value in os.environ.items() if not key.startswith("PENSTOCK_")}
        environ |= {"PENSTOCK_HOME": str(home), "PENSTOCK_LOG__LEVEL": "error", "PYTHONUNBUFFERED": "1"}
        if sys.stdout.isatty():  # the commands write into a pipe, and should look as on the terminal
            environ |= {"FORCE_COLOR": "1", "COLUMNS": str(shutil.get_terminal_size().columns)}
        with running_penstock(environ):
            show(environ)
    print(f"\nThe demo took {time.monotonic() - began:.0f} s. Its folder is removed.")
    print(DETAILS, end="")
    return 0


def show(environ: dict[str, str]) -> None:
    """The tour."""
    say("Ten files of ten kinds; two of them cannot be read, on purpose.")
    code = subprocess.call(command("add", str(FOLDER), "--wait"), env=environ, cwd=environ["PENSTOCK_HOME"])
    check(code == 1, f"add exited with {code}, expected 1: two documents fail")
    check_documents(json.loads(ask(environ, "documents", "list", "--json", "--limit", "100"))["documents"])
    for question, expected in SEARCHES:
        say("")
        found = ask(environ, "search", question, "-k", "3")
        print(found, end="")
        check(expected in found, f"{expected} is not among the answers")
    for name in sorted(UNREADABLE):
        say("")
        reason = ask(environ, "why", name)
        print(reason, end="")
        check(name in reason, f"why does not mention {name}")


def check_documents(documents: list[dict[str, Any]]) -> None:
    status = {document["name"]: document["status"] for document in documents}
    wanted = {path.name: "ready" for path in FOLDER.iterdir()} | {MEMBER: "ready"} | dict.fromkeys(UNREADABLE, "failed")
    wrong = [f"{name} is {status.get(name, 'missing')}" for name in wanted if status.get(name) != wanted[name]]
    wrong += [f"{name} was not expected" for name in status.keys() - wanted.keys()]
    check(not wrong, "; ".join(wrong))


def check(as_promised: bool, otherwise: str) -> None:
    if not as_promised:
        raise Unexpected(otherwise)


# -- running the command --------------------------------------------------------------------------------------------


def command(*arguments: str) -> list[str]:
    """The command to start; printed first, unless it is for a program."""
    if "--json" not in arguments:
        shown = " ".join(f'"{argument}"' if " " in argument else argument for argument in arguments)
        say(f"$ penstock {shown.replace(str(FOLDER), 'examples/documents/mill')}")
    return [sys.executable, "-m", "penstock", *arguments]


def ask(environ: dict[str, str], *arguments: str) -> str:
    """The output of a command, which must succeed."""
    done = subprocess.run(
        command(*arguments),
        env=environ,
        cwd=environ["PENSTOCK_HOME"],
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    check(done.returncode == 0, f"penstock {' '.join(arguments)} ended with {done.returncode}")
    return done.stdout


def say(sentence: str) -> None:
    bold = sentence.startswith("$ ") and sys.stdout.isatty()
    print(f"\033[1m{sentence}\033[0m" if bold else sentence, flush=True)


@contextmanager
def temporary_home() -> Iterator[Path]:
    home = Path(tempfile.mkdtemp(prefix="penstock-demo-"))
    home.chmod(0o711)  # for root: the server runs as another user, and needs access
    try:
        yield home
    finally:
        shutil.rmtree(home, ignore_errors=True)


@contextmanager
def running_penstock(environ: dict[str, str]) -> Iterator[None]:
    """`penstock up` in a session of its own: Ctrl-C reaches it only through this process, at the end."""
    arguments = command("up", "--port", "0")
    up = subprocess.Popen(
        arguments, env=environ, cwd=environ["PENSTOCK_HOME"], stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    late = threading.Timer(START_WITHIN, up.kill)
    late.start()
    try:
        for line in up.stdout or ():
            if "Ctrl-C" not in line:
                print(line, end="", flush=True)
                continue
            print(line.replace(" Ctrl-C stops it.", ""), flush=True)
            break
        else:
            raise Unexpected("Penstock did not start; the reason is above")
        late.cancel()
        yield
    finally:
        late.cancel()
        stop(up)


def stop(up: "subprocess.Popen[str]") -> None:
    up.send_signal(signal.SIGINT)
    try:
        up.wait(STOP_WITHIN)
    except subprocess.TimeoutExpired:
        up.kill()
        up.wait()


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        print("\nInterrupted; the demo's folder is removed.")
        sys.exit(130)
    except Unexpected as error:
        sys.exit(f"The demo failed: {error}.")
