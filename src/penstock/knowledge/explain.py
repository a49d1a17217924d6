"""Why a crawl is where it is: how many pages it has taken, which wait, what the host asks for, and what its job waits for."""

from functools import partial
from typing import Any

from penstock.engine import Penstock
from penstock.engine.explain import Explanation, explain
from penstock.engine.wording import counted, span
from penstock.errors import NotFound
from penstock.knowledge.canonical import origin_of
from penstock.knowledge.crawl import Crawl, list_crawl_pages, show_crawl, sql

LARGEST = 2**63 - 1
SHOWN = 3  # pages that failed


async def explain_crawl(app: Penstock, crawl: int, *, tenant: str = "default") -> Explanation:
    """NotFound if there is no such crawl."""
    if not 0 < crawl <= LARGEST:
        raise NotFound(f"There is no crawl {crawl}.")
    found = await show_crawl(app, crawl, tenant=tenant)
    evidence: dict[str, Any] = {"crawl": found.answer()}
    failed = await list_crawl_pages(app, crawl, state="failed", most=SHOWN, tenant=tenant)
    evidence["failed"] = [f"{page.url}: {page.reason}" for page in failed]
    if found.is_over:
        because, said = found.state, _tell_over(found)
    else:
        because, said = await _tell_running(app, found, evidence)
    return Explanation(f"Crawl {crawl} ({found.url}) {said}", found.state, evidence, because)


async def _tell_running(app: Penstock, crawl: Crawl, evidence: dict[str, Any]) -> tuple[str, str]:
    job = await app.database.pool.repeat(lambda session: explain(session, crawl.job_id))
    evidence["job"] = vars(job)
    wait = await app.database.pool.repeat(partial(sql.find_next_turn.value, origin=origin_of(crawl.url)))
    turn = ""
    if wait is not None and wait.total_seconds() > 1:
        turn = f" {origin_of(crawl.url)} may be asked again in {span(wait)}."
    said = job.sentence.removeprefix(f"Job {crawl.job_id} ").replace(
        "`penstock worker module:app`", "`penstock worker` or `penstock up`"
    )
    return job.because, f"is running: {tell_counts(crawl)}.{turn} Its job {said}"


def _tell_over(crawl: Crawl) -> str:
    if crawl.state == "done":
        full = ""
        if crawl.left_out:
            full = f" {counted(crawl.left_out, 'link')} had no room in {crawl.max_pages:,} pages: raise --max-pages for more."
        return f"is done: {tell_counts(crawl)}.{full}"
    reason = crawl.reason.rstrip(". ") or "no reason was kept"
    if crawl.state == "stopped":
        return (
            f"was stopped ({reason}): {tell_counts(crawl)}. Begin it again to go on: what is unchanged stays as it is."
        )
    return f"has failed: {reason}. When the cause is mended: `penstock dead redrive {crawl.job_id} --force`, or begin it again."


def tell_counts(crawl: Crawl) -> str:
    """`12 pages kept, 3 skipped, 1 failed, 4 waiting`."""
    parts = [f"{counted(crawl.kept, 'page')} kept", f"{crawl.skipped:,} skipped", f"{crawl.failed:,} failed"]
    parts += [f"{crawl.waiting:,} waiting"] if crawl.waiting else []
    return ", ".join(parts)
