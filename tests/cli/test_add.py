"""`penstock add` and what follows it, as a person and as a program use it: real processes, a real worker or none."""

import asyncio
import json
import os
import signal
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.application import Application
from tests.processes import Started, start

BROKEN = b"%PDF-1.7\n1 0 obj\n<< /Type /Catalog /Pages 2 0 R >>\nendobj\n"
JOINED = "select from penstock.workers where gone_at is null and 'prepare_document' = any (kinds) and load ? 'code'"


def plant(folder: Path, **texts: str) -> Path:
    folder.mkdir(exist_ok=True)
    for name, text in texts.items():
        (folder / f"{name}.txt").write_text(text)
    return folder


async def add(application: Application, *arguments: object, code: int = 0) -> dict[str, Any]:
    """What it says as JSON; a sentence on stderr may be before it."""
    ended, said = await application.penstock("add", *map(str, arguments), "--json")
    assert ended == code, said
    answer: dict[str, Any] = json.loads(said[said.index("{\n") :])
    return answer


async def worker(application: Application) -> Started:
    started = await application.worker(place="")
    await application.until(JOINED)
    return started


def counts(answer: dict[str, Any]) -> tuple[int, ...]:
    return tuple(answer[key] for key in ("accepted", "skipped", "ready", "failed"))


async def test_without_a_worker_it_works_itself(application: Application, tmp_path: Path) -> None:
    """Added, looked at, searched: with no other process than the command."""
    folder = plant(tmp_path / "in", gate="The sluice gate is made of oak.", mill="The mill grinds rye.")
    (folder / "drawing.pdf").write_bytes(BROKEN)
    (folder / ".hidden").write_text("not for you")

    code, said = await application.penstock("add", str(folder), "--metadata", '{"year": 1931}')
    assert code == 1, said
    assert "No worker is running: working here until it is done." in said
    assert "Accepted 3 documents" in said
    assert "2 ready, 1 failed" in said
    assert "drawing.pdf" in said
    assert "(hidden)" in said

    documents = {each["name"]: each for each in (await application.ask("documents", "list"))["documents"]}
    assert {name: each["status"] for name, each in documents.items()} == {
        "gate.txt": "ready",
        "mill.txt": "ready",
        "drawing.pdf": "failed",
    }
    assert documents["gate.txt"]["metadata"] == {"year": 1931}
    assert (await application.run("select from penstock.workers where gone_at is null")) == [], "it has left the fleet"

    code, said = await application.penstock("search", "oak gates")
    assert (code, "gate.txt" in said, "sluice gate" in said) == (0, True, True), said
    found = await application.ask("search", "rye", "-k", "1", "--mode", "words", "--collection", "default")
    [hit] = found["hits"]
    assert (hit["name"], hit["text"][slice(*hit["highlights"][0])]) == ("mill.txt", "rye")

    code, said = await application.penstock("why", "drawing.pdf")
    assert (code, "drawing.pdf" in said) == (0, True), said
    number = documents["drawing.pdf"]["id"]
    assert (await application.ask("why", str(number)))["state"] == "failed"
    assert await application.penstock("documents", "text", "default/gate.txt") == (
        0,
        "The sluice gate is made of oak.\n",
    )
    code, said = await application.penstock("documents", "show", "gate.txt")
    assert (code, "text/plain" in said) == (0, True), said


@pytest.mark.slow
async def test_many_files_are_worked_on_by_two_processes(application: Application, tmp_path: Path) -> None:
    """Both end with the command, and no file is there twice, whoever accepted and whoever prepared it."""
    files = {f"note-{number}": f"Note {number} tells of gate {number % 7}." for number in range(150)}
    answer = await add(application, plant(tmp_path / "in", **files))
    assert counts(answer) == (150, 0, 150, 0)
    workers = await application.run("select pid, gone_at is not null as gone from penstock.workers")
    assert len({row["pid"] for row in workers}) == 2
    assert all(row["gone"] for row in workers)
    [found] = await application.run(
        "select count(*) as chunks, count(distinct version_id) as versions from penstock.chunks"
    )
    assert (found["chunks"], found["versions"]) == (150, 150)


@pytest.mark.slow
async def test_many_files_beside_a_worker(application: Application, tmp_path: Path) -> None:
    """The other process is not needed, and goes without having worked."""
    await worker(application)
    files = {f"note-{number}": f"Note {number} tells of gate {number % 7}." for number in range(120)}
    answer = await add(application, plant(tmp_path / "in", **files), "--wait")
    assert counts(answer) == (120, 0, 120, 0)
    assert len(await application.run("select from penstock.workers")) == 1


@pytest.mark.slow
async def test_the_other_process_ends_with_a_killed_command(application: Application, tmp_path: Path) -> None:
    """However the command ends: nobody is left at work without anybody who waits for it."""
    files = {f"note-{number}": f"Note {number} tells of gate {number % 7}." for number in range(400)}
    folder = plant(tmp_path / "in", **files)
    async with start(
        "-m", "penstock", "add", str(folder), environ=application.environ, cwd=application.folder
    ) as adding:
        await application.until("select from penstock.workers where load ? 'code' offset 1")
        processes = [row["pid"] for row in await application.run("select pid from penstock.workers")]
        os.kill(adding.pid, signal.SIGKILL)
        async with asyncio.timeout(20):
            while any(psutil.pid_exists(process) for process in processes if process != adding.pid):  # noqa: ASYNC110
                await asyncio.sleep(0.05)
    assert len(processes) == 2


@pytest.mark.slow
async def test_adding_again(application: Application, tmp_path: Path) -> None:
    """What is there is left alone, replaced or tried again, as it was asked for."""
    folder = plant(tmp_path / "in", gate="The sluice gate is made of oak.", mill="The mill grinds rye.")
    (folder / "drawing.pdf").write_bytes(BROKEN)
    first = await add(application, folder, code=1)
    assert counts(first) == (3, 0, 2, 1)
    mill = next(each["id"] for each in first["documents"] if each["name"] == "mill.txt")

    again = await add(application, folder, code=1)
    assert counts(again) == (0, 3, 2, 1)
    workers = await application.run("select from penstock.workers")
    assert len(workers) == 1, "the second time there was nothing to work on"
    assert "failed before" in next(each["reason"] for each in again["documents"] if each["name"] == "drawing.pdf")

    plant(folder, gate="The sluice gate is made of steel.")
    refused = await add(application, folder / "gate.txt", code=1)
    assert counts(refused) == (0, 0, 0, 1)
    assert "--replace" in refused["documents"][0]["reason"]
    assert counts(await add(application, folder / "gate.txt", "--replace")) == (1, 0, 1, 0)
    assert (await application.ask("documents", "show", "gate.txt"))["version"] == 2
    assert "steel" in (await application.penstock("documents", "text", "gate.txt"))[1]
    events = [each["event"] for each in (await application.ask("documents", "history", "gate.txt"))["events"]]
    assert events == ["accepted", "attempt", "ready", "replaced", "attempt", "ready"]

    tried = await add(application, folder / "drawing.pdf", "--replace", code=1)
    assert counts(tried) == (0, 1, 0, 1), "the same content that had failed is tried again"
    assert "failed before" not in tried["documents"][0]["reason"]

    assert (await application.ask("delete", "mill.txt"))["deleted"] == [mill]
    assert (await application.ask("search", "rye", "--mode", "words"))["hits"] == []


@pytest.mark.slow
async def test_a_mail_is_added_with_what_is_in_it(application: Application, tmp_path: Path) -> None:
    (tmp_path / "order.eml").write_bytes(
        b"From: a@example.org\r\nSubject: bearing\r\nMIME-Version: 1.0\r\n"
        b'Content-Type: multipart/mixed; boundary="x"\r\n\r\n--x\r\nContent-Type: text/plain\r\n\r\nPlease send one.\r\n'
        b'--x\r\nContent-Type: text/plain; name="offer.txt"\r\nContent-Disposition: attachment; filename="offer.txt"\r\n\r\n'
        b"Fourteen crowns.\r\n--x--\r\n"
    )
    answer = await add(application, tmp_path / "order.eml")
    assert counts(answer) == (1, 0, 2, 0)
    assert [(each["name"], each["added"], each["status"]) for each in answer["documents"]] == [
        ("order.eml", "accepted", "ready"),
        ("order.eml!/offer.txt", "member", "ready"),
    ]


@pytest.mark.slow
async def test_beside_a_worker_it_ends_when_everything_is_accepted(application: Application, tmp_path: Path) -> None:
    started = await worker(application)
    await application.penstock("pause", "--queue", "documents")
    folder = plant(tmp_path / "in", one="first", two="second")
    code, said = await application.penstock("add", str(folder), "--collection", "mill", "--create")
    assert (code, "Accepted 2 documents" in said, "`penstock status`" in said) == (0, True, True), said

    status = await application.ask("status", "--collection", "mill")
    assert status["documents"] == {"queued": 2, "processing": 0, "ready": 0, "failed": 0, "deleted": 0}
    assert status["jobs"]["ready"] == {"count": 2, "leased": 0, "attempted": 0}
    [member] = status["workers"]
    assert (member["pid"], member["status"], member["serves_documents"]) == (started.pid, "alive", True)
    [finding] = status["findings"]
    assert finding["sentence"].startswith("The queue documents has been paused since")

    await application.penstock("resume", "--queue", "documents")
    assert counts(await add(application, folder, "--collection", "mill", "--wait")) == (0, 2, 2, 0)
    status = await application.ask("status")
    assert (status["documents"]["ready"], status["findings"]) == (2, [])
    code, said = await application.penstock("status")
    assert (code, said.endswith("\nNo problems found.\n")) == (0, True), said


@pytest.mark.slow
async def test_when_the_worker_is_lost_it_takes_over(application: Application, tmp_path: Path) -> None:
    started = await worker(application)
    await application.penstock("pause", "--queue", "documents")
    arguments = ("-m", "penstock", "add", str(plant(tmp_path / "in", one="first")), "--wait")
    async with start(*arguments, environ=application.environ, cwd=application.folder) as adding:
        await application.until("select from penstock.documents")
        os.kill(started.pid, signal.SIGKILL)
        await application.run("update penstock.test_clock set shift = '1 minute'")  # its lease is over
        await adding.until("No worker is running: working here")
        await application.penstock("resume", "--queue", "documents")
        assert await adding.end() == 0
        assert "1 ready, 0 failed" in adding.printed


@pytest.mark.slow
async def test_an_interrupted_add_says_what_was_accepted_and_goes_on_later(
    application: Application, tmp_path: Path
) -> None:
    await application.penstock("pause", "--queue", "documents")
    folder = plant(tmp_path / "in", one="first", two="second")
    async with start(
        "-m", "penstock", "add", str(folder), environ=application.environ, cwd=application.folder
    ) as adding:
        await application.until("select from penstock.documents having count(*) = 2")
        os.kill(adding.pid, signal.SIGINT)
        assert await adding.end() == 130
        assert "Interrupted" in adding.printed
        assert "Accepted 2 documents" in adding.printed
        assert "Traceback" not in adding.printed
    await application.penstock("resume", "--queue", "documents")
    assert counts(await add(application, folder)) == (0, 2, 2, 0), "what was left open is done by the next one"


async def test_a_file_that_cannot_be_read_is_reported(application: Application, tmp_path: Path) -> None:
    folder = plant(tmp_path / "in", open="read me")
    (folder / "torn.txt").symlink_to("/proc/self/mem")  # opens like a file, and then gives an error, even to root
    answer = await add(application, folder, code=1)
    assert counts(answer) == (1, 0, 1, 1)
    [torn] = [each for each in answer["documents"] if each["added"] == "refused"]
    assert (torn["name"], torn["reason"]) == ("torn.txt", "it cannot be read: input/output error")


async def test_names_that_cannot_be_kept_are_reported_and_the_rest_goes_on(
    application: Application, tmp_path: Path
) -> None:
    folder = plant(tmp_path / "in", fine="fine")
    Path(os.fsdecode(os.fsencode(folder) + b"/caf\xe9.txt")).write_text("not UTF-8")
    (folder / "back\\slash.txt").write_text("a backslash")
    (folder / "[bold]markup.txt").write_text("no markup")
    answer = await add(application, folder, code=1)
    assert counts(answer) == (2, 0, 2, 2)
    assert {each["name"] for each in answer["documents"] if each["added"] == "refused"} == {
        "caf\\udce9.txt",
        "back\\slash.txt",
    }


@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        (("add", "nothing.pdf"), "Cannot add nothing.pdf"),
        (("add", ".", "--metadata", "{"), "--metadata is not JSON"),
        (("add", ".", "--metadata", "[]"), "not a JSON object"),
        (("add", ".", "--collection", "a/b"), "without slashes"),
        (("why", "nothing.pdf"), "Document nothing.pdf does not exist"),
        (("why", "404"), "404 does not exist: no job, document or message has this id."),
        (("why", "9" * 30), "999 does not exist: no job"),
        (("documents", "show", "404"), "Document 404 does not exist. `penstock documents list` shows all."),
        (("documents", "retry", "404"), "Document 404 does not exist."),
        (("documents", "show", "a.pdf"), "Document a.pdf does not exist. `penstock documents list` shows all."),
        (("facts", "list", "a.pdf"), "Document a.pdf does not exist."),
        (("restore", "a.pdf"), "Deleted document a.pdf does not exist."),
        (("documents", "receipt", "a.pdf"), "Deleted document a.pdf does not exist."),
        (("documents", "list", "--parent", "a.pdf"), "Document a.pdf does not exist."),
        (("documents", "list", "--partial", "--status", "ready"), "--partial cannot be combined"),
        (("crawls", "show", "https://example.org/"), "Crawl https://example.org/ does not exist."),
        (("documents", "list", "--status", "lost"), "'lost' is not a status: use one of queued"),
        (("documents", "list", "--collection", "none"), "Collection none does not exist"),
        (("search", "x", "--collection", "none"), "Collection none does not exist"),
        (("status", "--collection", "none"), "Collection none does not exist"),
        (("collections", "rename", "none", "some"), "Collection none does not exist"),
        (("collections", "delete", "none", "--yes"), "Collection none does not exist"),
        (("collections", "create", "tiny", "--chunk-size", "1"), "chunk_size"),
    ],
    ids=" ".join,
)
async def test_what_cannot_be_done_is_one_sentence(
    application: Application, command: tuple[str, ...], sentence: str
) -> None:
    code, said = await application.penstock(*command)
    assert (code, sentence in said, "Traceback" in said) == (2, True, False), said


async def test_collections(application: Application) -> None:
    assert (await application.penstock("collections", "list"))[1].startswith("No collection exists")
    made = await application.ask("collections", "create", "mill", "--chunk-size", "500", "--chunk-overlap", "50")
    assert (made["name"], made["chunk_size"], made["chunk_overlap"]) == ("mill", 500, 50)
    code, said = await application.penstock("collections", "create", "mill")
    assert (code, "Collection mill exists already" in said) == (2, True), said
    assert (await application.ask("collections", "set", "mill", "--ocr-language", "de"))["ocr_language"] == "de"
    assert (await application.ask("collections", "set", "mill"))["chunk_size"] == 500
    assert (await application.ask("collections", "rename", "mill", "water mill"))["name"] == "water mill"
    assert [each["name"] for each in (await application.ask("collections", "list"))["collections"]] == ["water mill"]
    assert "water mill" in (await application.penstock("collections", "list"))[1]
    assert await application.penstock("search", "anything") == (0, "Nothing was found.\n"), (
        "in a database without any document"
    )
    assert await application.ask("collections", "delete", "water mill", "--now", "--yes") == {
        "collection": "water mill",
        "deleted": 0,
        "restorable_until": None,
    }
