"""The table of all findings of `penstock doctor` in docs/explain.md. A test compares the names with the code."""

from penstock.operations.doctor.finding import SAFE

# The name, when it is found, and the kind of command that it advises.
KNOWN: tuple[tuple[str, str, str], ...] = (
    ("schema-behind", "the database has fewer steps than this Penstock needs", "`penstock db migrate`"),
    (
        "schema-ahead",
        "the database has more than one step that this Penstock does not know",
        "install the newer release",
    ),
    ("notifications", "one was sent and did not arrive within 2 s, or a worker says that none do", "a direct address"),
    ("unguarded", "the database itself does not keep tenants apart", "`select penstock.guard_all()`"),
    ("no-worker", "no worker is within its lease", "start one"),
    (
        "silent-worker",
        "no heartbeat for half a lease: blocked, frozen, or cut off",
        "`kill -KILL`, or start another one",
    ),
    ("workers-lost", "more than 3 workers were lost within an hour", "mend it, then `penstock fleet --acknowledge`"),
    ("pool-full", "all connections of a worker's pool are in use, and somebody waits", "a larger `pool.size`"),
    ("unserved-kind", "ready jobs that no live worker serves", "start a worker that declares it"),
    ("old-job", "a ready job, not paused and served, is older than 5 minutes (`--old-after`)", "start another worker"),
    ("dead-jobs", "dead jobs, by cause", "`penstock dead redrive`, or `discard`"),
    ("paused", "a queue, kind or fairness key is paused, with the reason", "`penstock resume`"),
    ("schedule-overdue", "an active schedule should have ticked a minute ago", "start a worker"),
    ("schedule-paused", "a schedule is paused", "`penstock schedules resume`"),
    ("schedule-retired", "a note: no worker has declared the schedule for long", "`penstock schedules remove`"),
    ("no-llm", "jobs wait for a language model that no worker has in its settings", "a worker with `[llms.NAME]`"),
    ("facts-partial", "documents whose facts were read only in part, by collection", "`penstock extract COLLECTION`"),
    ("breaker-open", "the breaker of a limit is open: nothing that needs it runs", "`penstock limits close`"),
    (
        "limit-full",
        "a note: all permits of a limit are in use, and calls wait",
        "`penstock limits set`, if it bears more",
    ),
    ("source-trouble", "a source does not answer", "mend it, then `penstock sources check SOURCE`"),
    ("source-late", "a source is not read by anybody", "`penstock worker`"),
    ("source-unserved", "messages of a source that no running worker has in its settings", "`penstock worker`"),
    ("source-full", "so many messages of a source wait that it is not read further", "`penstock worker`"),
    ("invariant-violated", "something that must always be true is not", "`penstock why`, then `penstock invariants`"),
    (
        "invariants-stale",
        "nobody has looked at the invariants for an hour",
        "`penstock schedules run check-invariants`",
    ),
    ("documents-…", "what reconciling has found and could not repair, by check", "as each says"),
    ("checks-stale", "the checks of documents have not looked for an hour", "`penstock schedules run check-documents`"),
    ("documents-repaired", "a note: what reconciling has repaired within a day", "nothing"),
    ("budget", "fewer connections are left than one more worker needs", "a smaller `pool.size`"),
    (
        "bloat",
        "a table whose rows live for seconds has 100,000 dead rows and more dead than live",
        "`penstock db vacuum`",
    ),
    ("autovacuum-off", "nobody removes dead rows, of such a table or of the whole server", "turn it on"),
    ("statistics-stale", "most rows of a large table have changed since the planner looked", "`analyze`"),
    ("long-transaction", "a transaction is open for more than 5 minutes and keeps dead rows", "`pg_terminate_backend`"),
    (
        "clock-skew",
        "the clocks of the database and of this machine differ by more than 2 s",
        "set the wrong one: the command shows both",
    ),
    ("settings-clash", "settings do not fit the machine or the server", "the setting that fits"),
    ("fleet-mixed", "workers of one kind have different code or settings for 15 minutes", "`kill -TERM` the oldest"),
    (
        "disk-full",
        "less than 256 MB, or 5 % of a disk of less than 400 GB, is free",
        "make room, or a folder of another disk",
    ),
    ("blobs-unwritable", "the folder or bucket for documents takes none", "another folder, or its options"),
)


def findings_table() -> str:
    rows = ["| finding | when | what mends it | `--fix` |\n|---|---|---|---|\n"]
    rows += [f"| `{name}` | {when} | {fix} | {'yes' if name in SAFE else ''} |\n" for name, when, fix in KNOWN]
    return "".join(rows)
