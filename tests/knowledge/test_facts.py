"""Facts as people and programs see them: written in savepoints, found by words and meaning, by command, API and client."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from penstock.access import create_key
from penstock.client import AsyncClient, NotFound, Unavailable
from penstock.documents import create_collection, delete_document
from penstock.knowledge.facts import facts, runs
from penstock.knowledge.facts.entities import list_entities
from penstock.knowledge.facts.facts import Question, find_facts
from penstock.knowledge.facts.runs import FactSource
from penstock.knowledge.facts.validate import Fact, Place, Thing
from penstock.operations import examine
from penstock.search import CollectionRef
from penstock.search.row_vectors import RowVectors
from penstock.settings import DatabaseUrl
from penstock.web import make_app
from tests.knowledge.conftest import FactsReading, studying
from tests.knowledge.facts_model import LETTER, reads
from tests.models.chat import Chat, answers
from tests.polling import until
from tests.processes import start
from tests.web.api_server import serving


def made(number: int, **other: Any) -> Fact:
    place = Place(1, 0, 9, LETTER[:9])
    thing = Thing(f"Thing {number}", "product", f"thing {number}")
    usual: dict[str, Any] = {"statement": f"Statement {number}.", "place": place, "kind": "statement"}
    return Fact(**(usual | {"confidence": 0.5, "things": [(thing, "about")]} | other))


async def test_what_cannot_be_written_takes_nothing_with_it(study: FactsReading) -> None:
    """Three windows in one transaction, the second of which the database refuses."""
    document = await study.add("letter.txt", LETTER)
    vectors = await study.product.models.open("static").embed(["a statement"])
    await RowVectors("facts", "static").prepare(study.product.app.database, vectors.shape[1])
    [row] = await study.rows("select live_id, collection_id from penstock.documents")
    source = FactSource(document.id, row["live_id"], "default", row["collection_id"], "english", "static")
    batches = [
        facts.Batch(0, 0, [made(1)], vectors),
        facts.Batch(1, 1, [made(2, statement="x" * 1001)], vectors),
        facts.Batch(2, 2, [made(3)], vectors),
        facts.Batch(3, 3, [made(4, statement="nul \0")], vectors),
    ]
    async with study.product.app.database.pool.transaction() as tx:
        number = await runs.begin(tx, source, "plan", "main", 1)
        assert number is not None
        refused = await facts.stage(tx, source, number, batches)
    assert refused == {1: "CheckViolationError", 3: "CharacterNotInRepertoireError"}
    kept = await study.rows("select statement from penstock.facts order by id")
    assert [row["statement"] for row in kept] == ["Statement 1.", "Statement 3."]
    assert [row["name"] for row in await study.rows("select name from penstock.entities order by 1")] == [
        "Thing 1",
        "Thing 3",
    ]
    assert await study.count('"facts_near_static"') == 2
    assert await study.facts(document.id) == [], "nobody sees what is staged"
    assert (await study.find("Statement")).hits == []
    await study.tidy()  # the job that staged it is not there
    assert [await study.count(table) for table in ("facts", "entities", "extractions")] == [0, 0, 0]


async def test_no_connection_is_held_while_the_model_thinks(
    database_url: DatabaseUrl, tmp_path: Path, chat: Chat
) -> None:
    """Questions are under way for a second, and the pool counts for how long its connections were in use meanwhile."""
    text = "\n\n".join(f"The gate number {n} is {n} m wide, and stands beside the others." * 8 for n in range(20))
    let = asyncio.Event()

    async def held(request: Any, asked: dict[str, Any]) -> Any:
        await let.wait()
        return await reads(request, asked)

    async with studying(database_url, tmp_path, chat, knowledge={"window": 500}) as study:
        await study.add("long.txt", text)
        chat.usual = held
        pool = study.product.app.database.pool
        reading = asyncio.create_task(study.extract())
        await until(lambda: chat.inside >= 1 and pool.state.used == 0 and pool.state.waiting == 0)
        before = pool.used_seconds
        await asyncio.sleep(1)  # the time of the model: this is what is measured
        used = pool.used_seconds - before
        assert chat.inside >= 1
        let.set()
        [done] = await reading
    assert used < 0.5, (
        "connection seconds of the claim, the heartbeat and this test; a held one would be a whole second"
    )
    assert done["windows"] >= 20
    assert len(chat.asked) == done["windows"]


async def test_many_at_once_share_their_entities(study: FactsReading) -> None:
    """Twelve documents about the same three things are read together, and four of them deleted meanwhile."""
    names = ("Ada Byron", "Grace Hopper", "Orchard Turbine Works")
    texts = [
        f"{names[n % 2]} works for the {names[2]}. Page {n} tells of {names[(n + 1) % 2]} as well." for n in range(12)
    ]
    documents = await asyncio.gather(*(study.add(f"{n}.txt", text) for n, text in enumerate(texts)))
    collection = await study.collection()
    jobs = await study.product.facts.ask(collection)
    for document in documents[:4]:
        await delete_document(study.product.app, document.id, now=True)
    for job in jobs:
        await study.product.app.result(job, timeout="60s")
    async with asyncio.timeout(30):
        while await study.count("receipts") < 4 or await study.count("removals"):  # noqa: ASYNC110  another task removes them
            await asyncio.sleep(0.05)
    await study.tidy()
    found = await study.product.app.database.pool.repeat(list_entities, collection.id)
    assert sorted(each.name for each in found) == sorted(names)
    assert sum(each.facts for each in found) == await study.count("mentions")
    assert await study.count("extractions") == 8
    failed = await study.rows("select id, attempts from penstock.job_history where failures > 0")
    assert failed == []


async def test_both_words_and_meaning_find_and_pages_fit_together(study: FactsReading) -> None:
    text = " ".join(f"The gate number {n} is {n} m wide." for n in range(30)) + " The turbine turns slowly."
    await study.add("gates.txt", text)
    await study.extract()
    first, second = (
        await study.find("how wide is a gate", k=10),
        await study.find("how wide is a gate", k=10, offset=10),
    )
    assert first.more
    ids = [hit.id for hit in [*first.hits, *second.hits]]
    assert len(set(ids)) == 20
    assert [hit.score for hit in first.hits] == sorted((hit.score for hit in first.hits), reverse=True)
    assert (await study.find("turbines that turned")).hits[0].statement == "The turbine turns slowly.", "endings"
    for nothing in ("", "  ", "\u200b", "&|!:*()<->"):
        await study.find(nothing)  # and is no error
    assert (await study.find("what does the rotor do")).hits, "a word that is not there still has a meaning"


async def test_each_tenant_and_collection_has_its_own(study: FactsReading) -> None:
    await study.add("letter.txt", LETTER)
    await study.extract()
    app = study.product.app
    other = await create_collection(app, "papers", tenant="rival")
    ref = CollectionRef(other.id, other.model, other.search_language)
    assert (await find_facts(app.database, study.product.models, Question("runner", [ref]))).hits == []
    async with serving(make_app(study.product)) as port:
        key = await create_key(app.database, name="r", tenant="rival", scopes=["admin"])
        assert key.key is not None
        async with AsyncClient(f"http://127.0.0.1:{port}", key=key.key.text) as rival:
            assert (await rival.facts.search("runner")).hits == []
            assert [each async for each in rival.facts.entities("papers")] == []
            [row] = await study.rows("select id from penstock.documents")
            with pytest.raises(NotFound):
                await anext(aiter(rival.facts.list(row["id"])))


async def test_by_the_api_and_its_client(study: FactsReading) -> None:
    document = await study.add("letter.txt", LETTER)
    async with (
        serving(make_app(study.product)) as port,
        AsyncClient(f"http://127.0.0.1:{port}", tries=1) as client,
    ):
        asked = await client.facts.extract("papers", keep=True)
        assert (asked.asked, asked.keeps, asked.documents) == (1, True, 1)
        await study.extract()
        status = await client.facts.status("papers")
        assert (status.extracted, status.partial, status.keeps, status.rejected) == (1, 0, True, 1)
        found = await client.facts.search("when was the runner replaced", collection="papers", k=3)
        hit = found.hits[0]
        assert (hit.statement, hit.name) == ("The runner was replaced in 2019.", "letter.txt")
        assert hit.quote in hit.passage
        assert hit.score > 0
        listed = [fact async for fact in client.facts.list(document.id, page=2)]
        assert len(listed) == status.facts
        names = {entity.name async for entity in client.facts.entities("papers", type="person")}
        assert names == {"Ada Byron"}
        with pytest.raises(NotFound):
            await client.facts.extract("nothing")


async def test_without_a_model_the_api_says_503(database_url: DatabaseUrl, tmp_path: Path) -> None:
    async with (
        studying(database_url, tmp_path, None) as poor,
        serving(make_app(poor.product)) as port,
        AsyncClient(f"http://127.0.0.1:{port}", tries=1) as client,
    ):
        with pytest.raises(Unavailable, match="No language model is configured"):
            await client.facts.extract("papers")
        assert (await client.facts.search("anything")).hits == []
        assert (await client.facts.status("papers")).documents == 0


async def command(study: FactsReading, *arguments: str, code: int = 0) -> str:
    settings = study.product.settings
    assert settings.database_url is not None
    environ = {"PENSTOCK_DATABASE_URL": settings.database_url.reveal(), "PENSTOCK_HOME": str(settings.home)}
    for name, llm in settings.llms.items():
        environ |= {f"PENSTOCK_LLMS__{name.upper()}__URL": llm.url, f"PENSTOCK_LLMS__{name.upper()}__MODEL": llm.model}
    async with start("-m", "penstock", *arguments, environ=environ) as program:
        assert await program.end(40) == code, program.printed
        return program.printed


@pytest.mark.slow
async def test_by_command(study: FactsReading) -> None:
    await study.add("letter.txt", LETTER)
    study.chat.next.append(answers("not JSON"))
    study.chat.next.append(answers("not JSON either"))
    said = await command(study, "extract", "papers", code=1)
    assert "0 of 1 document done: 0 facts from 0 windows, 0 rejected." in said
    assert "1 document failed: `penstock dead list` shows the reasons." in said
    said = await command(study, "extract", "papers")
    assert "1 of 1 document done" in said
    assert "1 rejected" in said
    assert "The runner was replaced in 2019." in await command(study, "facts", "list", "letter.txt")
    said = await command(study, "search", "--facts", "when was the runner replaced")
    assert said.startswith("1. The runner was replaced in 2019.")
    assert "letter.txt, page 1" in said
    told = json.loads(await command(study, "search", "--facts", "--json", "-k", "1", "runner"))
    assert told["hits"][0]["quote"] == "The runner was replaced in 2019."
    told = json.loads(await command(study, "extract", "papers", "--again", "--no-wait", "--json"))
    assert told["asked"] == 1
    assert "No fact was found" in await command(study, "search", "--facts", "-c", "papers", " ")


async def test_the_doctor_tells_of_documents_that_were_read_in_part(
    database_url: DatabaseUrl, tmp_path: Path, chat: Chat
) -> None:
    async def partly(request: Any, asked: dict[str, Any]) -> Any:
        wrong = "part 3" in asked["messages"][1]["content"]
        return await (answers("no") if wrong else reads)(request, asked)

    chat.usual = partly
    async with studying(database_url, tmp_path, chat, knowledge={"window": 500}) as study:
        await study.add("a.txt", "\n\n".join(f"This is part {n}. {'It is long. ' * 35}" for n in range(6)))
        await study.extract()
        [finding] = [each for each in await examine(study.product.settings) if each.name == "facts-partial"]
        assert finding.sentence.startswith("1 document of the collection papers has incomplete facts")
        assert finding.command == "penstock extract papers"
