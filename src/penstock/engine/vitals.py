"""What a worker's beat tells about its process, for `doctor` and `fleet`: others cannot look into it."""

from typing import Any

from penstock.database import Database
from penstock.engine.version import code_version


def vitals(database: Database) -> dict[str, Any]:
    """Cheap: it is asked twice a second, and from the beat's thread."""
    pool = database.pool.state
    return {
        "pool": pool.used,
        "pool_size": pool.size,
        "pool_waiting": pool.waiting,
        "notified": database.notifications.arriving,
        "code": code_version(database.settings),
    }
