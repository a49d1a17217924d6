"""PostgreSQL's arrays of its own types, told to the driver, which otherwise asks the server.

asyncpg knows the types but not their arrays, and looks them up once per connection and statement: some 15 ms of the
server's time each, more than all work for a small document. The numbers are fixed in PostgreSQL's own catalog.
"""

from typing import Any

import asyncpg

# The type, its number, the number of its array.
KNOWN = (
    ("bool", 16, 1000),
    ("bytea", 17, 1001),
    ("int2", 21, 1005),
    ("int4", 23, 1007),
    ("int8", 20, 1016),
    ("float4", 700, 1021),
    ("float8", 701, 1022),
    ("json", 114, 199),
    ("jsonb", 3802, 3807),
    ("date", 1082, 1182),
    ("timestamptz", 1184, 1185),
    ("interval", 1186, 1187),
    ("uuid", 2950, 2951),
)

_ROWS: list[dict[str, Any]] = [
    {
        "oid": array,
        "ns": "pg_catalog",
        "name": f"_{name}",
        "kind": b"b",
        "basetype": None,
        "elemtype": element,
        "elemtype_name": name,
        "elemdelim": ",",
        "range_subtype": None,
        "attrtypoids": None,
    }
    for name, element, array in KNOWN
]


def know_arrays(connection: "asyncpg.Connection[Any]") -> None:
    """Spare this connection the questions."""
    connection.get_settings().register_data_types(_ROWS)
