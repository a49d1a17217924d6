"""The table of all findings of `penstock doctor` in docs/explain.md. A test compares the names with the code."""

from penstock.operations.doctor.finding import SAFE, severity_of

# The name, when it is found, and the kind of command that it advises.
KNOWN: tuple[tuple[str, str, str], ...] = (
    ("schema-behind", "the database has fewer steps than this Penstock needs", "`penstock db migrate`"),
    (
        "schema-ahead",
        "the database has more than one step that this Penstock does not know",
        "install the newer release",
    ),
    ("database-away", "only `/health/ready`: the database does not answer within 2 s", "start it, or fix its address"),
    ("lease-lost", "only `/health/ready` of a worker: it has no lease, or could not renew it", "start a worker"),
    (
        "notifications",
        "a notification did not arrive within 2 s, or a worker reports that none do",
        "a direct address",
    ),
    ("unguarded", "row-level security does not separate tenants", "`select penstock.guard_all()`"),
    ("no-worker", "no worker is within its lease", "start one"),
    ("no-document-worker", "there are collections, and no running worker serves documents", "`penstock worker`"),
    (
        "silent-worker",
        "no heartbeat for half a lease: blocked, frozen, or cut off",
        "`kill -KILL`, or start another one",
    ),
    (
        "workers-lost",
        "more than 3 workers were lost within an hour",
        "fix the cause, then `penstock doctor acknowledge workers-lost`",
    ),
    ("pool-full", "all connections of a worker's pool are in use, and calls wait", "a larger `pool.size`"),
    ("unserved-kind", "ready jobs that no running worker serves", "start a worker that declares it"),
    ("old-job", "a ready job, not paused and served, is older than 5 minutes (`--old-after`)", "start another worker"),
    (
        "dead-jobs",
        "dead jobs, by cause; without documents that could not be read because of their content",
        "`penstock dead redrive`, or `discard`",
    ),
    ("paused", "a queue, kind or fairness key is paused, with the reason", "`penstock resume`"),
    ("schedule-overdue", "an active schedule should have fired a minute ago", "start a worker"),
    ("schedule-paused", "a schedule is paused", "`penstock schedules resume`"),
    ("schedule-retired", "no worker declares the schedule any more", "`penstock schedules remove`"),
    ("no-llm", "jobs wait for a language model that no worker has configured", "a worker with `[llms.NAME]`"),
    ("facts-partial", "documents with incomplete facts, by collection", "`penstock extract COLLECTION`"),
    ("breaker-open", "the breaker of a limit is open: jobs that need it wait", "`penstock limits close`"),
    (
        "limit-full",
        "all permits of a limit are in use, and calls wait",
        "`penstock limits set`, if it can handle more",
    ),
    ("source-trouble", "a source does not answer", "fix it, then `penstock sources check SOURCE`"),
    ("source-late", "no worker reads a source", "`penstock worker`"),
    ("source-unserved", "messages of a source that no running worker has in its settings", "`penstock worker`"),
    ("source-full", "so many messages of a source wait that it is not read further", "`penstock worker`"),
    ("invariant-violated", "something that must always be true is not", "`penstock why`, then `penstock invariants`"),
    ("invariants-stale", "the invariants were not checked for an hour", "`penstock schedules run check-invariants`"),
    ("documents-…", "faults that reconciling has found and could not repair, by check", "as each shows"),
    ("checks-stale", "the checks of documents were not run for an hour", "`penstock schedules run check-documents`"),
    ("documents-repaired", "faults that reconciling has repaired within a day", "nothing"),
    ("budget", "fewer connections are left than one more worker needs", "a smaller `pool.size`"),
    (
        "bloat",
        "a table whose rows live for seconds has 100,000 dead rows and more dead than live",
        "`penstock db vacuum`",
    ),
    ("autovacuum-off", "dead rows are not removed, of such a table or of the whole server", "turn it on"),
    ("statistics-stale", "most rows of a large table have changed since the last analyze", "`analyze`"),
    ("long-transaction", "a transaction is open for more than 5 minutes and keeps dead rows", "`pg_terminate_backend`"),
    (
        "clock-skew",
        "the clocks of the database and of this machine differ by more than 2 s",
        "correct the wrong one: the command shows both",
    ),
    ("settings-clash", "settings do not fit the machine or the server", "the setting that fits"),
    ("fleet-mixed", "workers of one kind have different code or settings for 15 minutes", "`kill -TERM` the oldest"),
    (
        "disk-full",
        "less than 256 MB, or 5 % of a disk of less than 400 GB, is free",
        "free space, or a folder of another disk",
    ),
    ("storage-away", "a disk or the blob store cannot be read, or does not answer in time", "`df -h`"),
    ("blobs-unwritable", "documents cannot be written to the folder or bucket", "another folder, or its options"),
)


def findings_table() -> str:
    rows = ["| finding | severity | when | fix | `--fix` |\n|---|---|---|---|---|\n"]
    rows += [
        f"| `{name}` | {severity_of(name)} | {when} | {fix} | {'yes' if name in SAFE else ''} |\n"
        for name, when, fix in KNOWN
    ]
    return "".join(rows)
