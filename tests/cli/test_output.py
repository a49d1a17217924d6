"""What is printed arrives as a whole."""

import subprocess
import sys
import time

import pytest

LONG = """
import asyncio, uvloop
from penstock.cli.commands import write_whole
uvloop.run(asyncio.sleep(0.01))  # the end of its io_uring interrupts the next write
write_whole()
print("x" * 200_000)
"""


@pytest.mark.slow
def test_a_long_answer_to_a_slow_reader_is_whole_without_a_buffer() -> None:
    command = (sys.executable, "-u", "-c", LONG)
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        time.sleep(1.5)  # its first write fills the pipe meanwhile
        assert len(process.stdout.read()) == 200_001
