"""No secret comes out: canaries in every secret of the settings, and everything made to fail that could show one.

All is done by real processes, with all logs on. Whatever they print, answer, leave in the home folder or write into the
database is searched for the canaries. Each test also looks for the text around them: it would have shown them otherwise.
"""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import aiohttp
import asyncpg
import pytest
from aiohttp import web

from penstock.settings import DatabaseUrl
from penstock.settings.settings import FIELDS, TABLES
from tests.application import Application, address_of, application, fetch
from tests.models.endpoint import Server, serve
from tests.processes import penstock, start

__all__ = ["application"]

PASSWORD = "cAnArY/pass:word@1"
MODEL_KEY = "cAnArY-model-key"
BUCKET_SECRET = "cAnArY+bucket/secret=="
API_KEY = "pk_7m2kq4xw_" + "cAnArY" * 7 + "x"
LINK = "v1.k1.1794819600." + "cAnArY" * 7 + "x"
COOKIE = "Cookie: penstock=cAnArY-cookie; theme=cAnArY"
CANARY = "canary"
TABLES_OF_OURS = "select format('%I.%I', schemaname, tablename) as name from pg_tables where schemaname = 'penstock'"

NOWHERE = f"postgresql://mill:{quote(PASSWORD, safe='')}@127.0.0.1:9/penstock"
# Each setting that holds a secret, by its variable. A new one fails in test_every_secret_setting_has_a_canary until it is here.
ENVIRON = {
    "PENSTOCK_DATABASE_URL": NOWHERE,
    "PENSTOCK_DATABASE_DIRECT_URL": f"postgresql://mill@127.0.0.1:9/penstock?password={quote(PASSWORD, safe='')}",
    "PENSTOCK_DATABASE_OWNER_URL": NOWHERE,
    "PENSTOCK_BLOBS__OPTIONS": f"access_key_id=AKIA7 secret_access_key={BUCKET_SECRET} region=us-east-1",
    "PENSTOCK_MODELS__FAR__KEY": MODEL_KEY,
    "PENSTOCK_LLMS__FAR__KEY": MODEL_KEY,
    "PENSTOCK_SOURCES__FAR__URL": f"postgresql://mill:{quote(PASSWORD, safe='')}@127.0.0.1:9/erp",
    "PENSTOCK_SOURCES__FAR__SECRET": MODEL_KEY,
    "PENSTOCK_SOURCES__FAR__OPTIONS": f"secret_access_key={BUCKET_SECRET}",
    "PENSTOCK_SOURCES__FAR__BLOBS_OPTIONS": f"secret_access_key={BUCKET_SECRET}",
    "PENSTOCK_QDRANT__KEY": MODEL_KEY,
    "PENSTOCK_BUS__URL": f"amqp://mill:{quote(PASSWORD, safe='')}@127.0.0.1:9/",
}
FAR = {
    "PENSTOCK_MODELS__FAR__URL": "http://127.0.0.1:9/v1",
    "PENSTOCK_MODELS__FAR__MODEL": "bge",
    "PENSTOCK_MODELS__FAR__DIMENSIONS": "3",
    "PENSTOCK_LLMS__FAR__URL": "http://127.0.0.1:9/v1",
    "PENSTOCK_LLMS__FAR__MODEL": "gpt",
    "PENSTOCK_SOURCES__FAR__FOLDER": "/nowhere",
}

LEAKY = """
import logging, os, threading

from penstock import Penstock, Permanent
from penstock.telemetry import log

app = Penstock()
SECRETS = os.environ["LEAKS"].splitlines()


class Torn:
    def __del__(self):
        raise ValueError(f"ended by {SECRETS}")


def fall(text):
    raise RuntimeError(f"fell over {text}")


@app.job()
async def leak(ctx, n=0):
    secret = SECRETS[n]
    try:
        fall(secret)
    except RuntimeError as error:
        log.warning("it leaks", what=SECRETS, nested={"deep": [secret, secret.encode()]}, exc_info=True)
        logging.getLogger("other").error("others leak %s", SECRETS, extra={"more": secret})
        thread = threading.Thread(target=fall, args=[secret])
        thread.start()
        thread.join()
        Torn()
        raise Permanent(f"died of {secret}") from error
"""


def assert_silent(text: str, *expected: str, also: tuple[str, ...] = ()) -> None:
    """Nothing of a canary is in it, in any case; what has to be there shows that it is the text that was meant."""
    for secret in (CANARY, *also):
        found = text.lower().find(secret.lower())
        assert found < 0, f"a secret came out: …{text[max(0, found - 300) : found + 60]}…"
    for part in expected:
        assert part in text, text[-3000:]


def files_of(folder: Path) -> str:
    """The names and contents of everything that Penstock has left there, but for what is a secret's own place."""
    paths = [path for path in folder.rglob("*") if path.is_file() and path.name != "leaky.py"]
    return "\n".join(f"{path}\n{path.read_bytes().decode(errors='replace')}" for path in paths)


async def rows_of(url: DatabaseUrl) -> str:
    """Every row of every table."""
    session = await asyncpg.connect(url.reveal())
    try:
        tables = await session.fetch(TABLES_OF_OURS)
        assert len(tables) > 10
        rows = [str(row[0]) for each in tables for row in await session.fetch(f"select t::text from {each['name']} t")]
        return "\n".join(rows)
    finally:
        await session.close()


def test_every_secret_setting_has_a_canary() -> None:
    fields = dict(FIELDS)
    for table, kind in TABLES.items():
        fields |= {f"{table}.far.{name}": info for name, info in kind.model_fields.items()}
    secret = {key for key, info in fields.items() if re.search(r"\b(SecretStr|DatabaseUrl)\b", str(info.annotation))}
    assert {"PENSTOCK_" + key.upper().replace(".", "__") for key in secret} == ENVIRON.keys()


@pytest.mark.parametrize(
    ("command", "code", "expected"),
    [
        (("config", "--json"), 0, "blobs.options"),
        (("config",), 0, "database_owner_url"),
        (("models", "list", "--json"), 0, "bge at http://127.0.0.1:9/v1"),
        (("status",), 2, "127.0.0.1:9"),
        (("doctor", "--json"), 2, "127.0.0.1:9"),
        (("why", "1"), 2, "127.0.0.1:9"),
        (("dead", "show", "1", "--json"), 2, "127.0.0.1:9"),
        (("search", "gate"), 2, "127.0.0.1:9"),
        (("db", "migrate"), 2, "127.0.0.1:9"),
        (("up", "--port", "0"), 2, "127.0.0.1:9"),
        (("worker",), 2, "127.0.0.1:9"),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
async def test_a_database_that_cannot_be_reached(
    tmp_path: Path, command: tuple[str, ...], code: int, expected: str
) -> None:
    environ = ENVIRON | FAR | {"PENSTOCK_HOME": str(tmp_path), "PENSTOCK_LOG__LEVEL": "debug"}
    answered, said = await penstock(*command, **environ)
    assert answered == code, said
    assert_silent(said + files_of(tmp_path), expected)


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("PENSTOCK_DATABASE_URL", f"postgresql://mill:{PASSWORD}@127.0.0.1:x/d"),
        ("PENSTOCK_DATABASE_URL", f"mysql://mill:{MODEL_KEY}@127.0.0.1/d"),
        ("PENSTOCK_BLOBS__OPTIONS", f"{MODEL_KEY} region=x"),
        ("PENSTOCK_BLOBS__ENDPOINT", f"http://a:{MODEL_KEY}@127.0.0.1:9"),
        ("PENSTOCK_BLOBS__URL", f"s3://a:{MODEL_KEY}@bucket"),
        ("PENSTOCK_MODELS__FAR__KEY", f"{MODEL_KEY} with a space"),
        ("PENSTOCK_MODELS__FAR__URL", f"http://a:{MODEL_KEY}@127.0.0.1:9/v1"),
        ("PENSTOCK_MODELS__FAR__PASSWORD", MODEL_KEY),
    ],
)
async def test_a_secret_that_is_written_wrongly(tmp_path: Path, variable: str, value: str) -> None:
    code, said = await penstock("config", **(FAR | {"PENSTOCK_HOME": str(tmp_path), variable: value}))
    assert code == 2, said
    assert_silent(said, variable)


async def test_a_program_that_cannot_be_imported(tmp_path: Path) -> None:
    (tmp_path / "leaky.py").write_text(f'raise ValueError("it says {MODEL_KEY} and {BUCKET_SECRET} and {API_KEY}")')
    environ = ENVIRON | FAR | {"PENSTOCK_HOME": str(tmp_path)}
    async with start("-m", "penstock", "worker", "leaky:app", environ=environ, cwd=tmp_path) as worker:
        assert await worker.end() == 2
        assert_silent(worker.printed, "it says *** and *** and pk_7m2kq4xw_***")


async def test_jobs_that_die_of_secrets(application: Application, database_url: DatabaseUrl) -> None:
    """The password is the server's real one: it is looked for, too."""
    password = database_url.password or ""
    leaks = [database_url.reveal(), password, MODEL_KEY, BUCKET_SECRET, API_KEY, LINK, COOKIE]
    leaks.append(f"Authorization: Bearer {API_KEY}")
    application.environ |= {name: ENVIRON[name] for name in ("PENSTOCK_BLOBS__OPTIONS", "PENSTOCK_MODELS__FAR__KEY")}
    application.environ |= FAR | {"LEAKS": "\n".join(leaks), "PENSTOCK_LOG__LEVEL": "debug"}
    (application.folder / "leaky.py").write_text(LEAKY)
    worker = await application.worker("--port", "0", place="leaky:app")
    jobs = [await application.enqueue("leak", n=number) for number in range(len(leaks))]
    for job in jobs:
        await application.until_state(job, "dead")
    answers = [await fetch(address_of(worker), path) for path in ("/metrics", "/health/ready")]
    assert [status for status, _ in answers] == [200, 200]
    said = [text for _, text in answers]
    for command in (
        *(("dead", "show", str(job), "--json") for job in jobs[:3]),
        ("dead", "show", str(jobs[0])),
        ("dead", "list"),
        ("dead", "list", "--kind", "leak", "--json"),
        ("jobs", "show", str(jobs[-1])),
        ("why", str(jobs[0])),
        ("doctor", "--json"),
        ("status", "--json"),
        ("fleet",),
    ):
        code, text = await application.penstock(*command)
        assert code in {0, 1}, text
        said.append(text)
    worker.process.kill()
    await worker.end()
    for text in (worker.printed, *said, await rows_of(database_url), files_of(application.folder)):
        assert_silent(text, also=(password,))
    assert_silent(worker.printed, "it leaks", "others leak", "fell over ***", "Ignored in", "ended by")
    assert_silent("\n".join(said), "died of ***", "died of postgresql://")


@pytest.fixture
async def far_model() -> AsyncIterator[Server]:
    """It refuses the key, and quotes it; the words of a 401 go no further anyway."""

    async def refuse(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        said = f"Wrong key {request.headers['Authorization']}, which is {MODEL_KEY} or {quote(MODEL_KEY)}"
        return web.json_response({"error": {"message": said}}, status=401 if "oak?" in body["input"] else 400)

    async with serve() as server:
        server.reply = refuse
        yield server


@pytest.mark.slow
async def test_everything_up_with_a_model_that_quotes_the_key(
    database_url: DatabaseUrl, tmp_path: Path, far_model: Server
) -> None:
    environ = {
        "PENSTOCK_HOME": str(tmp_path),
        "PENSTOCK_DATABASE_URL": database_url.reveal(),
        "PENSTOCK_LOG__LEVEL": "debug",
        "PENSTOCK_EXTRACTION__CHILDREN": "1",
        "PENSTOCK_MODELS__FAR__KEY": MODEL_KEY,
        **FAR,
        "PENSTOCK_MODELS__FAR__URL": f"http://127.0.0.1:{far_model.port}/v1",
    }
    async with start("-m", "penstock", "up", "--port", "0", environ=environ) as up:
        printed = await up.until("Penstock is up", within=60)
        said = await ask_everything(re.findall(r"http://127\.0\.0\.1:\d+", printed)[-1])
        code, text = await penstock("doctor", "--json", **environ)
        assert code == 1, text
        up.process.terminate()
        await up.end()
    assert far_model.keys[0] == f"Bearer {MODEL_KEY}"
    password = database_url.password or ""
    for each in (up.printed, text, *said, await rows_of(database_url), files_of(tmp_path)):
        assert_silent(each, also=(password,))
    assert_silent("\n".join(said), "Wrong key", "model far")
    assert_silent(up.printed, "attempt failed", "Wrong key Bearer ***")


async def ask_everything(address: str) -> list[str]:
    """What the API answers: to a document that fails, to questions that cannot be answered, and to secrets in requests."""
    headers = {"Authorization": f"Bearer {API_KEY}", "Cookie": COOKIE.removeprefix("Cookie: ")}
    said = []
    async with aiohttp.ClientSession(address) as client:

        async def ask(method: str, path: str, **options: Any) -> Any:
            async with client.request(method, path, **options) as answer:
                said.append(await answer.text())
                return json.loads(said[-1]) if "json" in answer.content_type else None

        await ask("POST", "/api/collections", json={"name": "mill", "model": "far"})
        made = await ask("PUT", "/api/collections/mill/documents/gate.txt", data=b"The gate is made of oak.")
        number = made["id"]
        async with asyncio.timeout(40):
            while True:
                if (await ask("GET", f"/api/documents/{number}"))["status"] == "failed":
                    break
                await asyncio.sleep(0.1)
        for path in (
            f"/api/documents/{number}/why",
            f"/api/documents/{number}/content?token={LINK}",
            "/api/search?q=oak%3F",
            "/api/search?q=oak&collection=mill",
            f"/api/{API_KEY}",
            f"/api/documents/{LINK}",
            f"/api/documents?limit={API_KEY}",
            "/api/status",
            "/health/ready",
            "/metrics",
        ):
            await ask("GET", path)
            await ask("GET", path, headers=headers)
    return said


async def test_a_bucket_that_cannot_be_reached(database_url: DatabaseUrl, tmp_path: Path) -> None:
    (tmp_path / "gate.txt").write_text("The gate is made of oak.")
    environ = {
        "PENSTOCK_HOME": str(tmp_path / "home"),
        "PENSTOCK_DATABASE_URL": database_url.reveal(),
        "PENSTOCK_BLOBS__URL": "s3://mill",
        "PENSTOCK_BLOBS__ENDPOINT": "http://127.0.0.1:9",
        "PENSTOCK_BLOBS__OPTIONS": ENVIRON["PENSTOCK_BLOBS__OPTIONS"],
        "RUST_LOG": "debug",
    }
    for command in (("add", str(tmp_path / "gate.txt")), ("doctor", "--json")):
        code, said = await penstock(*command, **environ)
        assert code in {1, 2}, said
        assert_silent(said + await rows_of(database_url), "s3://mill", also=(database_url.password or "",))
