"""PostgreSQL: the embedded server, sessions and their pool, statements, migrations, notifications."""

from penstock.database.binaries import find_program
from penstock.database.database import (
    Database,
    DatabaseAddress,
    DatabaseEndpoint,
    bring_schema,
    open_database,
    reach_database,
)
from penstock.database.embedded import EmbeddedServer, home_trouble
from penstock.database.migrations import check_schema, grant_use, read_migrations, schema_number
from penstock.database.pool import Pool, PoolState, PoolUse
from penstock.database.session import Session, process_mark
from penstock.database.sql_files import SqlConnection, Statement, Statements, statements
from penstock.database.tenancy import all_tenants, check_tenant, is_guarded, make_roles, only
