"""A table or view of another database, as a source: PostgreSQL, MariaDB and MySQL, SQL Server (UNTESTED)."""

from penstock.sources.table.table import TableSource, open_source
