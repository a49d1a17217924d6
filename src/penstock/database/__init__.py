"""PostgreSQL: the embedded server, sessions and their pool, statements, migrations, notifications."""

from penstock.database.database import Database, open_database, reach_database
from penstock.database.embedded import EmbeddedServer
from penstock.database.pool import Pool
from penstock.database.session import Session
from penstock.database.statements import Statement, Statements, statements

__all__ = [
    "Database",
    "EmbeddedServer",
    "Pool",
    "Session",
    "Statement",
    "Statements",
    "open_database",
    "reach_database",
    "statements",
]
