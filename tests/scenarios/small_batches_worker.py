"""A worker of the product that writes four chunks or facts at a time: `python -m tests.scenarios.small_batches_worker`.

So a short document has several batches that are written before anybody may see them.
"""

from penstock.cli import server

if __name__ == "__main__":
    from penstock.pipelines import facts, prepare

    prepare.BATCH = 4
    facts.FACTS_BATCH = 4
    server.worker(sources="none")
