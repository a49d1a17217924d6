"""After replacements: a worker that completes them, and the check that nothing of old versions is left."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from penstock.documents import clear_old_versions
from penstock.documents.deletion.purge import remove_deleted
from penstock.search import Index
from tests.product_with_worker import running_worker
from tests.scenarios.product_processes import ProductProcesses

# What is in the tables of search and belongs to no live version.
LEFT = """
with live as (select live_id from penstock.documents where live_id is not null),
  found as (
    select 'chunks' as place, version_id from penstock.chunks union all
    select 'pages', version_id from penstock.pages union all
    select 'vectors', version_id from penstock.vectors_static union all
    select 'folded vectors', version_id from penstock.folded_vectors_static union all
    select 'postings', version_id from penstock.postings union all
    select 'batches', version_id from penstock.indexed_batches union all
    select 'hidden', version_id from penstock.hidden_versions
  )
select distinct place from found where version_id not in (select live_id from live)
"""


@asynccontextmanager
async def worker_in_this_process(product_processes: ProductProcesses) -> AsyncIterator[None]:
    """A worker that is never killed; at the end no document is under way."""
    async with running_worker(product_processes.product, drain="5s"):
        yield
        await product_processes.until_over()


async def only_live_versions_are_left(product_processes: ProductProcesses) -> None:
    """After what upkeep does with old versions, and with members that were deleted."""
    database = product_processes.product.app.database
    await clear_old_versions(database, Index().clear)
    await remove_deleted(database, product_processes.product.store)
    assert [row["place"] for row in await product_processes.connection.fetch(LEFT)] == []
    assert await product_processes.violations() == []
