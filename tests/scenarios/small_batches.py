"""A worker of the product that writes four chunks or facts at a time: `python -m tests.scenarios.small_batches`.

So a short document has several batches that are written before anybody may see them.
"""

from penstock.cli import processes

if __name__ == "__main__":
    from penstock.pipelines import assembly, document

    document.BATCH = 4
    assembly.FACTS_BATCH = 4
    processes.worker(sources="none")
