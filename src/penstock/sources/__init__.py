"""Sources: documents that come from other databases, folders, buckets and brokers. All of them write into the one inbox.

The files in the order in which a message passes through them:

    sources.py              the sources of a worker: each in a task of its own, restarted after trouble
    source.py               the protocol of a source, and the loop that polls it
    table/, folder.py (with files.py), bucket.py         are polled
    rabbitmq.py, servicebus.py (with broker_intake.py)   are consumed
    documents/inbox.py      a batch, its jobs and the new position are one transaction
    pipelines/inbox.py      the job: fetch the bytes, write the document or packet
    sources.py              a job reports the outcome to the source, if it wants that
"""

from penstock.sources.broker_intake import id_in, parse_object
from penstock.sources.source import MessageOutcome, PolledSource, Source, SourceCheck, SourceContext, Trouble
from penstock.sources.sources import Sources
