"""`penstock keys`, and which addresses are served without one."""

import json
from pathlib import Path

import aiohttp
import pytest

from penstock.access import create_key
from penstock.database import Database
from penstock.settings import DatabaseUrl
from tests.processes import penstock, start


@pytest.fixture
def environ(database_url: DatabaseUrl, home: Path) -> dict[str, str]:
    return {"PENSTOCK_DATABASE_URL": database_url.reveal(), "PENSTOCK_HOME": str(home), "PENSTOCK_LOG__FORMAT": "json"}


async def test_create_list_and_revoke(environ: dict[str, str]) -> None:
    code, said = await penstock(
        "keys", "create", "ann", "--scope", "read", "--scope", "write", "--expires", "90d", **environ
    )
    assert code == 0, said
    key = next(line for line in said.splitlines() if line.startswith("pk_"))
    assert "not shown again" in said
    assert "read, write in the tenant default, until 20" in said
    code, said = await penstock("keys", "create", "importer", "--tenant", "mill", "--json", **environ)
    made = json.loads(said)
    assert (code, made["tenant"], made["scopes"], made["key"][:3]) == (0, "mill", ["read"], "pk_")
    code, said = await penstock("keys", "list", **environ)
    assert code == 0
    assert "ann" in said
    assert "importer" in said
    assert key[12:] not in said
    code, said = await penstock("keys", "list", "--tenant", "mill", "--json", **environ)
    assert [each["name"] for each in json.loads(said)] == ["importer"]
    assert "digest" not in said
    code, said = await penstock("keys", "revoke", key[:11], **environ)
    assert (code, "Revoked key 1" in said) == (0, True), said
    code, said = await penstock("keys", "list", "--json", **environ)
    assert [each["usable"] for each in json.loads(said)] == [False, True]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("create", "ann", "--scope", "root"), "read, write and admin"),
        (("create", ""), "needs a name"),
        (("create", "ann", "--tenant", "Mill!"), "cannot be called"),
        (("create", "ann", "--collection", "nowhere"), "Collection nowhere does not exist"),
        (("create", "ann", "--expires", "never"), "--expires"),
        (("revoke", "4711"), "Key 4711 does not exist"),
    ],
)
async def test_what_cannot_be(environ: dict[str, str], arguments: tuple[str, ...], words: str) -> None:
    code, said = await penstock("keys", *arguments, **environ)
    assert code != 0
    assert words in said
    assert "Traceback" not in said


@pytest.mark.parametrize("how", ["flag", "setting"])
@pytest.mark.parametrize("command", ["api", "up"])
async def test_other_machines_need_a_key(environ: dict[str, str], command: str, how: str) -> None:
    flags = ("--host", "0.0.0.0") if how == "flag" else ()
    extra = {} if flags else {"PENSTOCK_API__HOST": "0.0.0.0"}
    code, said = await penstock(command, "--port", "0", *flags, **environ, **extra)
    assert code == 2, said
    assert "penstock keys create" in said
    assert "Traceback" not in said


@pytest.mark.parametrize("command", ["api", "up"])
async def test_with_a_key_other_machines_may_ask(environ: dict[str, str], database: Database, command: str) -> None:
    """And this one has to ask with it, too."""
    made = await create_key(database, "ann", scopes=["read"])
    assert made.key is not None
    async with start("-m", "penstock", command, "--port", "0", "--host", "0.0.0.0", environ=environ) as started:
        said = await started.until('"listening"' if command == "api" else "http://0.0.0.0")
        port = int(said.rpartition("http://0.0.0.0:")[2].split('"')[0].split()[0])
        async with aiohttp.ClientSession() as http:
            url = f"http://127.0.0.1:{port}/api/collections"
            async with http.get(url) as answer:
                assert answer.status == 401
            async with http.get(url, headers={"Authorization": f"Bearer {made.key.text}"}) as answer:
                assert answer.status == 200
            body = {"key": made.key.text}
            async with http.post(f"http://127.0.0.1:{port}/api/session", json=body) as answer:
                assert "secure" in answer.headers["Set-Cookie"].lower(), "over HTTPS alone"
