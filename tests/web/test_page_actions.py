"""What people do on the pages on their first day: find a passage, upload, retry, delete, browse jobs, read the reference."""

import io
import re
from urllib.parse import urlsplit

import aiohttp
import pytest
from PIL import Image, ImageChops

from tests.extraction.sample_pdfs import text_pdf
from tests.web.conftest import Api
from tests.web.page_reader import HTML, Seen, check, get, send

LINES = [
    (50, 700, 12, "The wheel turns in the mill race all day long."),
    (50, 680, 12, "The quokka repaired the weir in March."),
    (50, 660, 12, "Nobody has seen the miller since then."),
]


def marked(page: Seen) -> list[dict[str, str]]:
    return [given for tag, given in page.tags if tag == "mark"]


def text_of(document: Seen) -> str:
    return " ".join(document.text.split())


async def add_many(api: Api, **contents: bytes) -> dict[str, int]:
    """The ids of documents, prepared as far as possible; `_` in a name stands for a dot."""
    names = {name.replace("_", "."): content for name, content in contents.items()}
    ids = {name: (await api.put(name, content)).json["id"] for name, content in names.items()}
    async with api.working():
        for each in ids.values():
            await api.over(each)
    return ids


# -- a passage ----------------------------------------------------------------------------------------------------------


async def test_the_passage_of_a_hit_is_marked_in_the_text_and_on_the_page(api: Api) -> None:
    await api.make("mill")
    [number] = (await add_many(api, log_pdf=text_pdf(LINES))).values()
    hits = check(await get(api, "/search?q=weir"))
    [link] = {each for each in hits.links if each.startswith(f"/documents/{number}?")}
    page = check(await get(api, link.partition("#")[0]))
    [mark] = marked(page)
    assert mark["id"] == "passage"
    assert not marked(check(await get(api, f"/documents/{number}")))
    assert not marked(check(await get(api, f"/documents/{number}?passage=99")))
    [image] = [given["src"] for tag, given in page.tags if "data-sheet" in given]
    assert "passage=0" in image
    plain, with_mark = await draw(api, image.replace("passage=0&", "")), await draw(api, image)
    left, top, right, bottom = ImageChops.difference(plain, with_mark).getbbox() or (0, 0, 0, 0)
    lines = plain.convert("L").point(lambda value: 255 if value < 128 else 0).getbbox()
    assert lines is not None
    assert left <= lines[0] + 3 and right >= lines[2] - 3, "the lines are marked"
    assert top <= lines[1] and bottom >= lines[3], "all of them, and"
    assert bottom - top < plain.height / 4, "not the rest of the page"
    assert ImageChops.difference(plain, await draw(api, image.replace("passage=0", "passage=7"))).getbbox() is None


async def draw(api: Api, address: str) -> Image.Image:
    answer = await api.get(address)
    assert answer.status == 200, answer.body
    return Image.open(io.BytesIO(answer.body)).convert("RGB")


async def test_a_passage_is_text_and_never_markup(api: Api) -> None:
    await api.make("mill")
    [number] = (await add_many(api, log_md=b"# Weir\n\nThe weir <script>alert(1)</script> holds.\n")).values()
    page = check(await get(api, f"/documents/{number}?passage=0"))
    assert len(marked(page)) == 1
    assert "<script>alert(1)</script>" in page.text


# -- uploads ------------------------------------------------------------------------------------------------------------


def target(page: Seen) -> str:
    """The collection that the upload form has chosen."""
    tags = page.tags[next(place for place, (tag, given) in enumerate(page.tags) if "data-drop" in given) :]
    inside = tags[: next(place for place, (tag, _) in enumerate(tags) if tag == "button")]
    assert [given for tag, given in inside if tag == "option" and "selected" in given], "one is chosen"
    return re.search(r"<option selected>([^<]*)", page.source.partition("data-drop")[2])[1]  # type: ignore[index]


async def test_an_upload_goes_to_the_collection_that_is_shown_or_to_default(api: Api) -> None:
    assert target(check(await get(api, "/documents"))) == "default", "before it exists"
    await api.make("attic")
    assert target(check(await get(api, "/documents"))) == "default", "not the first by name"
    assert target(check(await get(api, "/documents?collection=attic"))) == "attic"
    form = aiohttp.FormData(default_to_multipart=True)
    form.add_field("collection", "default")
    form.add_field("file", b"hello", filename="a.txt")
    sent = await api.ask("POST", "/documents/upload", data=form, headers=HTML, allow_redirects=False)
    assert sent.headers["Location"] == "/documents?collection=default&did=uploaded"
    assert target(check(await get(api, "/documents"))) == "default"
    assert (await send(api, "/collections/default")).status == 204, "again, which changes nothing"
    assert [each["name"] for each in (await api.get("/api/collections")).json["items"]] == ["attic", "default"]


async def test_the_list_of_uploads_can_follow_documents(api: Api) -> None:
    await api.make("mill")
    ids = await add_many(api, good_txt=b"hello", broken_pdf=b"%PDF-1.7 broken")
    wanted = ",".join(str(each) for each in (*ids.values(), 99_999))
    states = (await api.get(f"/documents/states?ids={wanted},nonsense")).json
    assert [(each["status"], bool(each["reason"])) for each in states] == [("ready", False), ("failed", True)]


# -- retry --------------------------------------------------------------------------------------------------------------


async def test_a_retry_that_cannot_help_is_answered_on_the_page(api: Api) -> None:
    await api.make("mill")
    broken = (await api.put("a.pdf", b"%PDF-1.7 broken")).json["id"]
    async with api.working():
        job = (await api.over(broken))["job"]
        [cause] = (await api.get("/api/dead")).json
        refused = await send(api, "/jobs/redrive", fingerprint=cause["fingerprint"])
        address = refused.headers["Location"]
        assert (urlsplit(address).path, refused.status) == ("/jobs", 303)
        page = check(await get(api, address))
        assert "nothing was deployed since" in text_of(page).lower()
        assert "force" not in text_of(page)
        forced = {"fingerprint": cause["fingerprint"], "force": "true"}
        assert ("/jobs/redrive", forced) in page.forms
        assert "Retry all the same" in page.text
        one = await send(api, f"/jobs/{job}/redrive")
        assert one.headers["Location"] == f"/jobs/{job}?did=unchanged"
        assert (f"/jobs/{job}/redrive", {"force": "true"}) in check(await get(api, one.headers["Location"])).forms
        assert (await send(api, "/jobs/redrive", **forced)).headers["Location"].endswith("?did=redriven")


async def test_a_refused_action_leaves_its_sentence_on_the_page_of_the_document(api: Api) -> None:
    await api.make("mill")
    [ready] = (await add_many(api, a_txt=b"hello")).values()
    answer = await send(api, f"/documents/{ready}/retry")
    page = Seen(answer)
    assert answer.status == 409
    assert f"Document {ready} (a.txt) is ready" in page.text
    assert "Details" in page.text, "all of the document is there"


async def test_a_document_that_could_not_be_read_is_dismissed(api: Api) -> None:
    await api.make("mill")
    async with api.working():
        torn = (await api.put("torn.pdf", b"%PDF-1.7 torn")).json["id"]
        assert (await api.over(torn))["status"] == "failed"
    dismiss: tuple[str, dict[str, str]] = (f"/documents/{torn}/dismiss", {})
    assert dismiss in check(await get(api, f"/documents/{torn}")).forms
    assert (await send(api, dismiss[0])).headers["Location"] == f"/documents/{torn}?did=dismissed"
    assert dismiss not in check(await get(api, f"/documents/{torn}")).forms
    assert (await api.get("/api/status")).json["unread_count"] == 0


async def test_the_overview_lists_documents_that_could_not_be_read(api: Api) -> None:
    await api.make("mill")
    async with api.working():
        torn, other = [
            (await api.put(name, b"%PDF-1.7 torn " + name.encode())).json["id"] for name in ("a.pdf", "b.pdf")
        ]
        for each in (torn, other):
            assert (await api.over(each))["status"] == "failed"
    page = check(await get(api, "/"))
    reason = (await api.get(f"/api/documents/{torn}")).json["error"]["message"]
    section = listed_unread(page)
    assert section.count(reason) == 2 and "a.pdf" in section
    assert "failed" not in section, "it is not red"
    assert "dead-jobs" not in [fields.get("finding") for _, fields in page.forms], "not a problem of operation"

    address = f"/documents/{torn}#replace"
    assert address in page.links
    [unfolded] = [
        given for _, given in check(await get(api, f"/documents/{torn}")).tags if given.get("id") == "replace"
    ]
    assert "open" in unfolded

    dismiss = (f"/documents/{torn}/dismiss", {"came_from": "/"})
    assert dismiss in page.forms
    assert (await send(api, dismiss[0], **dismiss[1])).headers["Location"] == "/?did=dismissed"
    page = check(await get(api, "/?did=dismissed"))
    assert dismiss not in page.forms
    assert "b.pdf" in listed_unread(page) and "a.pdf" not in listed_unread(page)
    await send(api, f"/documents/{other}/dismiss", came_from="/")
    assert not listed_unread(check(await get(api, "/")))


def listed_unread(page: Seen) -> str:
    """The source of the section on the overview."""
    return page.source.partition("Documents that could not be read")[2].partition("</section>")[0]


# -- delete -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("setting_overrides", "sentence"),
    [
        ({"documents__restore_within": "7d"}, "It can be restored until"),
        ({"documents__restore_within": ""}, "This cannot be undone."),
    ],
)
async def test_deleting_says_whether_it_can_be_undone(api: Api, sentence: str) -> None:
    await api.make("mill")
    number = (await api.put("a.txt")).json["id"]
    question = check(await send(api, f"/documents/{number}/delete"))
    assert sentence in text_of(question)
    assert [tag for tag, _ in question.tags].count("button") >= 1
    assert "Cancel" in question.text
    [(address, fields)] = [form for form in question.forms if form[1].get("confirmed")]
    await send(api, address, **fields)
    page = check(await get(api, f"/documents/{number}"))
    assert ("can be restored until" in text_of(page)) is sentence.startswith("It can")
    assert (f"/documents/{number}/restore" in [form[0] for form in page.forms]) is sentence.startswith("It can")


# -- the list of documents ----------------------------------------------------------------------------------------------


def names(page: Seen) -> list[str]:
    """The documents of the list, in its order."""
    return re.findall(r'class="name" href="/documents/\d+">([^<]+)', page.source)


async def test_the_list_is_sorted_and_counted(api: Api) -> None:
    await api.make("mill")
    await add_many(api, b_txt=b"x" * 300, a_txt=b"x" * 20, c_pdf=b"%PDF-1.7 broken")
    orders = {
        "newest": ["c.pdf", "a.txt", "b.txt"],
        "oldest": ["b.txt", "a.txt", "c.pdf"],
        "name": ["a.txt", "b.txt", "c.pdf"],
        "size": ["b.txt", "a.txt", "c.pdf"],
    }
    for order, wanted in orders.items():
        assert names(check(await get(api, f"/documents?sort={order}"))) == wanted, order
    page = check(await get(api, "/documents?sort=name&collection=mill"))
    assert "All 3 Queued 0 Processing 0 Ready 2 Failed 1 Deleted 0" in re.sub(
        r"(\D)(\d)", r"\1 \2", text_of(page)
    ).replace("  ", " ")
    assert names(check(await get(api, "/documents?sort=name&status=failed"))) == ["c.pdf"]
    found = check(await get(api, "/documents?name=TXT"))
    assert names(found) == ["a.txt", "b.txt"]
    assert "2 documents match" in text_of(found)
    assert (await get(api, "/documents?sort=colour")).status == 422


async def test_first_pages_are_shown_in_the_list(api: Api) -> None:
    await api.make("mill")
    ids = await add_many(api, a_pdf=text_pdf(LINES), b_txt=b"hello")
    [image] = [given for _, given in check(await get(api, "/documents")).tags if "data-thumb" in given]
    assert image["loading"] == "lazy"
    assert image["src"].startswith(f"/api/documents/{ids['a.pdf']}/pages/1/image?")
    assert (await draw(api, image["src"])).width == 96


async def test_an_action_on_all_that_match(api: Api) -> None:
    await api.make("mill")
    await api.make("attic")
    ids = await add_many(api, a_txt=b"1", b_txt=b"2", a_pdf=b"%PDF-1.7 broken", b_pdf=b"%PDF-1.7 as well")
    await api.put("c.txt", collection="attic")
    listed = "/documents?collection=mill&name=txt"
    question = check(await send(api, "/documents/bulk", action="delete-all", came_from=listed))
    assert "Delete 2 documents?" in text_of(question)
    [(address, fields)] = [form for form in question.forms if form[1].get("confirmed")]
    assert "ids" not in fields
    later = (await api.put("later.txt")).json["id"]
    assert (await send(api, address, **fields)).headers["Location"] == f"{listed}&did=bulk-deleted"
    assert sorted(await api.names()) == ["a.pdf", "b.pdf", "c.txt", "later.txt"], "what came later was not meant"
    assert (await api.get(f"/api/documents/{later}")).json["status"] == "queued"

    question = check(await send(api, "/documents/bulk", action="retry-all", came_from="/documents?collection=mill"))
    assert "Retry 2 documents?" in text_of(question), "those that have failed"
    [(address, fields)] = [form for form in question.forms if form[1].get("confirmed")]
    assert (await send(api, address, **fields)).headers["Location"].endswith("did=bulk-retried")
    for name in ("a.pdf", "b.pdf"):
        assert (await api.get(f"/api/documents/{ids[name]}")).json["status"] in {"queued", "processing"}
    nothing = await send(api, "/documents/bulk", action="retry-all", came_from="/documents?status=ready")
    assert nothing.headers["Location"] == "/documents?status=ready&did=nothing"


# -- jobs ---------------------------------------------------------------------------------------------------------------


async def test_live_jobs_and_finished_ones(api: Api) -> None:
    await api.make("mill")
    ids = await add_many(api, a_txt=b"hello", b_pdf=b"%PDF-1.7 broken")
    done, dead = [(await api.get(f"/api/documents/{each}")).json["job"] for each in ids.values()]
    waiting = (await api.get(f"/api/documents/{(await api.put('c.txt')).json['id']}")).json["job"]

    def jobs(page: Seen) -> set[str]:
        return set(re.findall(r'class="name" href="/jobs/(\d+)"', page.source))

    live = jobs(check(await get(api, "/jobs")))
    assert str(waiting) in live
    assert not {str(done), str(dead)} & live
    assert jobs(check(await get(api, "/jobs?state=dead"))) == {str(dead)}
    assert not [each for each in (await api.get("/api/jobs?limit=1000")).json["items"] if each["state"] == "dead"]

    await send(api, f"/jobs/{waiting}/cancel")
    finished = check(await get(api, "/jobs/finished?kind=prepare_document"))
    assert jobs(finished) == {str(done), str(waiting)}
    assert f'{{"document": {ids["a.txt"]}, "version"' in finished.text
    assert jobs(check(await get(api, "/jobs/finished?outcome=cancelled"))) == {str(waiting)}
    assert jobs(check(await get(api, f"/jobs/finished?before={done}&kind=prepare_document"))) == set()
    page = check(await get(api, f"/jobs/{done}"))
    assert re.search(r"Waiting.*Attempt 1.*done", text_of(page))
    await send(api, f"/jobs/{dead}/discard", reason="the original is lost")
    assert jobs(check(await get(api, "/jobs/finished?outcome=discarded"))) == {str(dead)}


async def test_a_pause_of_something_unknown_is_refused_on_the_page(api: Api) -> None:
    await api.make("mill")
    answer = await send(api, "/jobs/pause", what="kind", name="prepare_documnt")
    assert answer.status == 422
    assert "prepare_document" in text_of(Seen(answer)).partition("Dead letters")[0]
    assert (await api.get("/api/pauses")).json == []


# -- problems -----------------------------------------------------------------------------------------------------------


async def test_a_problem_has_a_button(api: Api) -> None:
    await api.make("mill")
    held = {"what": "kind", "name": "prepare_document"}
    await send(api, "/jobs/pause", **held, reason="a test")
    resume = ("/jobs/resume", held | {"came_from": "/"})
    assert resume in check(await get(api, "/")).forms
    assert (await send(api, resume[0], **resume[1])).headers["Location"] == "/?did=resumed"
    assert (await api.get("/api/pauses")).json == []
    acknowledge = ("/fleet/acknowledge", {"finding": "no-worker"})
    assert acknowledge in check(await get(api, "/")).forms
    assert (await send(api, acknowledge[0], **acknowledge[1])).headers["Location"] == "/?did=acknowledged"
    assert (await api.get("/api/findings")).json[-1]["acknowledged_until"] is not None
    assert (await send(api, "/jobs/resume", **held, came_from="//evil.example")).status == 422
    assert resume not in check(await get(api, "/")).forms


async def test_an_acknowledged_problem_is_listed_apart(api: Api) -> None:
    page = check(await get(api, "/"))
    acknowledge = ("/fleet/acknowledge", {"finding": "no-worker"})
    assert acknowledge in page.forms
    names = [fields["finding"] for address, fields in page.forms if address == acknowledge[0]]
    assert names == [each["name"] for each in (await api.get("/api/findings")).json if each["severity"] != "note"]
    assert "<h2>Acknowledged</h2>" not in page.source
    assert (await send(api, acknowledge[0], **acknowledge[1])).headers["Location"] == "/?did=acknowledged"
    page = check(await get(api, "/?did=acknowledged"))
    assert acknowledge not in page.forms
    problems, _, apart = page.source.partition("<h2>Acknowledged</h2>")
    [finding] = [each for each in (await api.get("/api/findings")).json if each["name"] == "no-worker"]
    assert "Acknowledged until" in apart and finding["acknowledged_until"][:16] in apart
    assert "Acknowledged until" not in problems
    nothing = await send(api, acknowledge[0], finding="no-such-finding")
    assert nothing.headers["Location"] == "/?did=nothing"


# -- the reference ------------------------------------------------------------------------------------------------------


async def test_the_reference_shows_every_route(api: Api) -> None:
    page = check(await get(api, "/docs"))
    document = (await api.get("/api/openapi.json")).json
    said = text_of(page)
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            assert f"{method.upper()} {path} " in said, path
            for each in operation.get("parameters", ()):
                assert each["name"] in said
    anchors = {given.get("id") for _, given in page.tags}
    assert not [link for link in page.links if link.startswith("#") and link[1:] not in anchors]
    assert not [link for link in page.links if urlsplit(link).netloc], "nothing comes from another site"
