"""What an explanation was told from, as short lines for a person. `--json` and the API have all of it."""

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any

from penstock.engine.wording import counted, listed, span

MOST_ATTEMPTS = 5

Facts = Mapping[str, Any]


def evidence_lines(evidence: Facts) -> list[str]:
    """The lines about a job, or about each of the things that the evidence is made of."""
    if "kind" in evidence and "queue" in evidence:
        return list(_job_lines(evidence))
    lines: list[str] = []
    for name, told in evidence.items():
        if isinstance(told, Mapping) and name in TOLD:
            lines += TOLD[name](told)
    return lines


def _job_lines(job: Facts) -> Iterator[str]:
    yield f"job {job['id']}: {job['kind']} in the queue {job['queue']}, share {job['share']}, priority {job['priority']}"
    yield (
        f"enqueued {_time(job['enqueued_at'])}; {counted(job['attempt'], 'attempt')}, {counted(job['failures'], 'failure')}"
        " charged"
    )
    for attempt in (job.get("attempts") or [])[-MOST_ATTEMPTS:]:
        said = f": {_first_line(attempt['error'])}" if attempt.get("error") else ""
        took = span(timedelta(seconds=attempt["seconds"])) if attempt.get("seconds") is not None else "an unknown time"
        yield f"attempt {attempt['number']} on worker {attempt['worker_id']}: {attempt['outcome']} after {took}{said}"
    if job.get("error") and job["error"].get("code"):
        yield f"failed in the code {job['error']['code']}, fingerprint {job.get('fingerprint', 'none')}"
    yield from _fleet_lines(job)
    if pace := job.get("pace"):
        usual, long = (span(timedelta(seconds=pace[key])) for key in ("usual_seconds", "long_seconds"))
        yield f"{pace['like']} take {usual} (half of them) to {long} (nine of ten), by the last {pace['jobs']:,}"


def _fleet_lines(job: Facts) -> Iterator[str]:
    if job.get("state") != "ready":
        return
    if "workers" in job:
        serving = f"{job['open_workers']} of {counted(job['workers'], 'live worker')} may take it"
        yield (
            f"{serving}, with {job['open_running']} of {job['open_slots']} slots in use" if job["workers"] else serving
        )
    if "ahead_in_lane" in job:
        others = f", {counted(job['other_lanes'], 'other lane')} in turn with it" if "other_lanes" in job else ""
        yield f"{counted(job['ahead_in_lane'], 'job')} ahead in its lane{others}"
    if job.get("limit_name"):
        used = [f"{part['worker']} {part['used']} of {part['granted']}" for part in job.get("permits_of") or ()]
        yield f"limit {job['limit_name']}: {counted(job['permits'], 'permit')}; {listed(used) or 'nobody has any'}"
    if job.get("last_server"):
        left = f"{job.get('last_server_left_why', 'left')} at {_time(job['last_server_left_at'])}"
        yield f"last served by {job['last_server']}, {left}"


def _document_lines(document: Facts) -> Iterator[str]:
    size = f"{document['size']:,} bytes"
    kind = f", {document['media_type']}" if document.get("media_type") else ""
    yield (
        f"document {document['id']}: {document['collection']}/{document['name']}, version {document['version']}, {size}{kind}, "
        f"{document['status']}"
    )
    yield f"accepted {_time(document['accepted_at'])}, changed {_time(document['changed_at'])}"
    if error := document.get("error"):
        step = f", in the step {error['step']}" if error.get("step") else ""
        yield f"error: {error.get('type') or error.get('class')}{step}"


def _told_lines(told: Facts) -> Iterator[str]:
    """Of an explanation inside of another."""
    yield from _job_lines(told["evidence"]) if told.get("evidence", {}).get("kind") else ()


def _message_lines(message: Facts) -> Iterator[str]:
    yield (
        f"message {message['id']}: {message['message_id']} of the source {message['source']}, {message['state']}, received "
        f"{_time(message['received_at'])}"
    )


def _source_lines(source: Facts) -> Iterator[str]:
    yield (
        f"source {source['name']}: {source['received']:,} received, {source['waiting']:,} waiting, {source['failed']:,} failed"
    )
    if source.get("polled_at"):
        yield f"answered last {_time(source['polled_at'])}"


def _receipt_lines(receipt: Facts) -> Iterator[str]:
    yield f"receipt: removed {_time(receipt['removed_at'])}"


TOLD: dict[str, Callable[[Facts], Iterator[str]]] = {
    "document": _document_lines,
    "message": _message_lines,
    "source": _source_lines,
    "receipt": _receipt_lines,
    "job": _told_lines,
}


def _time(at: Any) -> str:
    if isinstance(at, datetime):
        return f"{at:%Y-%m-%d %H:%M:%S} UTC"
    return str(at).replace("T", " ").partition(".")[0].partition("+")[0] + " UTC"


def _first_line(text: str) -> str:
    return text.partition("\n")[0][:200]
