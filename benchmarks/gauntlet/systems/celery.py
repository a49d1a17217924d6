"""Celery with Redis, its pool of processes, and its beat. The worker is Celery's own command: this process becomes it."""

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

import redis
from celery import Celery
from celery.signals import worker_ready

from benchmarks.gauntlet.jobs import Job, Place, Run, perform
from benchmarks.gauntlet.systems import EVERY, System

PLACE = "GAUNTLET_PLACE"  # the variable by which the command's processes know where they are
TUNED = {
    "task_acks_late": True,
    "task_reject_on_worker_lost": True,
    "worker_prefetch_multiplier": 1,
    "worker_soft_shutdown_timeout": 4,
    "broker_transport_options": {"visibility_timeout": 60},
}
RETRIES = {"autoretry_for": (ConnectionError,), "retry_backoff": True, "retry_jitter": False, "max_retries": 8}

app: Any = Celery("gauntlet", broker_connection_retry_on_startup=True)


def configure(place: Place, tuned: bool) -> None:
    app.conf.update(broker_url=place.broker, **(TUNED if tuned else {}))
    app.conf.beat_schedule = {"tick": {"task": "tick", "schedule": EVERY}}

    @app.task(name="job", **(RETRIES if tuned else {}))  # type: ignore[untyped-decorator]
    def job(job: dict[str, Any]) -> None:
        asyncio.run(perform(Run(place, Job.read(job))))

    @app.task(name="tick")  # type: ignore[untyped-decorator]
    def tick() -> None:
        asyncio.run(perform(Run(place, Job(0, "tick"))))

    @worker_ready.connect(weak=False)  # type: ignore[untyped-decorator]
    def up(**_: Any) -> None:
        place.note("up")


if PLACE in os.environ:
    _given = json.loads(os.environ[PLACE])
    configure(Place(_given["url"], Path(_given["home"]), _given["broker"]), _given["tuned"])


class Side(System):
    label = "Celery + Redis"
    packages = ("celery", "redis")
    recommended = (
        "`acks_late`, `reject_on_worker_lost`, prefetch 1, `visibility_timeout` 60 s, soft shutdown, `autoretry_for` with "
        "backoff, `revoke(terminate=True)`, one beat, Redis with AOF"
    )

    def __init__(self, place: Place, tuned: bool) -> None:
        super().__init__(place, tuned)
        configure(place, tuned)

    async def count_alive(self, connection: Any) -> int:
        broker: Any = redis.Redis(unix_socket_path=self.place.broker.removeprefix("redis+socket://"))
        try:
            return int(broker.llen("celery")) + int(broker.hlen("unacked"))
        except redis.RedisError as error:
            raise ConnectionError(str(error)) from error
        finally:
            broker.close()

    async def enqueue(self, jobs: list[Job]) -> list[Any]:
        return [app.send_task("job", args=[job.as_dict()]).id for job in jobs]

    async def work(self, name: str, slots: int, schedule: bool) -> None:
        place = {"url": self.place.url, "home": str(self.place.home), "broker": self.place.broker, "tuned": self.tuned}
        os.environ[PLACE] = json.dumps(place)
        beat = (
            ["-B", "-s", str(self.place.home / f"beat-{name}")] if schedule and (name == "a" or not self.tuned) else []
        )
        command = [
            "celery",
            "-A",
            f"{__name__}:app",
            "worker",
            "-c",
            str(slots),
            "-n",
            f"{name}@gauntlet",
            "-l",
            "WARNING",
        ]
        os.execv(sys.executable, [sys.executable, "-m", *command, *beat])

    async def cancel(self, ids: list[Any]) -> None:
        app.control.revoke(ids, terminate=self.tuned)
