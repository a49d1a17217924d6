"""schemathesis asks the API everything that its OpenAPI document allows, and what it forbids: nothing may end in a 5xx.

The program has a venv of its own, which `./dev test --real` makes. It has a minute, and asks the same each time, so that a
change is to blame for what it finds; PENSTOCK_TEST_SCHEMATHESIS_SECONDS gives it more time, and PENSTOCK_TEST_SCHEMATHESIS_SEED
other questions. There is content, and a worker: what is found is not only how nothing is answered.
"""

import asyncio
import os
import re
from pathlib import Path

import pytest

from penstock.access import create_key
from tests.real.conftest import missing
from tests.web.conftest import Api

SECONDS = int(os.environ.get("PENSTOCK_TEST_SCHEMATHESIS_SECONDS", "60"))
SEED = os.environ.get("PENSTOCK_TEST_SCHEMATHESIS_SEED", "1")
CONTENT = {
    "gate.txt": b"The gate is made of oak.",
    "wheel.md": b"# The wheel\n\nIt turns.",
    "broken.pdf": b"%PDF-1.7 no",
}

pytestmark = [pytest.mark.real, pytest.mark.timeout(SECONDS + 120)]


async def test_nothing_that_is_asked_ends_in_a_5xx(api: Api, tmp_path: Path) -> None:
    program = os.environ.get("PENSTOCK_TEST_SCHEMATHESIS", "")
    if not program:
        missing("schemathesis", "use ./dev test --real")
    await api.make("mill")
    async with api.working():
        added = [await api.put(name, content) for name, content in CONTENT.items()]
        over = [await api.over(each.json["id"]) for each in added]
        assert [each["status"] for each in over] == ["ready", "ready", "failed"]
        # It makes keys, and from the first one on nobody is let in without: it has its own.
        made = await create_key(api.product.app.database, "schemathesis", scopes=["read", "write", "admin"])
        assert made.key is not None
        code, said = await ask_all(program, api.port, made.key.text, tmp_path)
    assert code == 0, said
    assert "Authentication failed" not in said, said  # a 401 for everything would be no 5xx either
    assert "Unresolvable" not in said, said  # what it cannot read in the document it does not try
    cases = re.search(r"([\d,]+) generated", said)
    assert cases is not None, said
    assert int(cases[1].replace(",", "")) > 200, said  # else it has asked nothing


async def ask_all(program: str, port: int, key: str, folder: Path) -> tuple[int | None, str]:
    """Its exit code, and what it says at its end. Left out: events, which never end, ending its key, what is signed, and
    what says 503 of a busy machine, or because there is no language model.
    """
    address = f"http://127.0.0.1:{port}/api/openapi.json"
    options = ["--checks", "not_a_server_error", "--max-time", str(SECONDS), "--request-timeout", "20", "--no-color"]
    options += ["--continue-on-failure", "--exclude-path", "/api/events", "--exclude-path", "/api/keys/{key}"]
    options += ["--exclude-path", "/api/inbox/{source}", "--exclude-path", "/health/ready"]
    options += ["--exclude-path", "/api/collections/{collection}/extract"]
    options += ["--seed", SEED, "--header", f"Authorization: Bearer {key}"]
    process = await asyncio.create_subprocess_exec(
        program, "run", address, *options, cwd=folder, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    try:
        output, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
    return process.returncode, output.decode()
