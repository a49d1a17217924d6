"""The database of an exploration, on the test's own database."""

from collections.abc import AsyncIterator

import pytest

from penstock.database import Database
from tests.engine.conftest import JobQueue
from tests.proofs.explore import ProofDatabase


@pytest.fixture
async def proof_database(database: Database) -> AsyncIterator[ProofDatabase]:
    job_queue = JobQueue(database)
    proof_database = ProofDatabase(job_queue)
    await proof_database.open()
    try:
        yield proof_database
    finally:
        await proof_database.close()
        job_queue.close()
