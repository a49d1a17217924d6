"""Named SQL statements from `.sql` files next to the modules that run them.

    -- name: claim_jobs
    -- One line that describes it.
    select … where worker_id = :worker_id

    sql = statements(__file__)                  # queue.py reads queue.sql
    rows = await sql.claim_jobs(session, worker_id=7)

`:name` becomes `$1`, `$2` … in the order of first use, so that one text serves asyncpg's prepared statements. There is
no way to put text into a statement: what varies is a parameter, or the name of a table (`Statement.named`).
`-- include: gates.sql admission` (as in engine/claim.sql) puts a fragment of this or another file there when the file is
read, so that two statements can share one predicate. A file is named from the folder of the one that includes it
(`../gates.sql` in engine/inspect/queries.sql).
"""

import copy
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

from asyncpg import Record

NAME = re.compile(r"^-- name: (\w+)[ \t]*$", re.MULTILINE)
INCLUDE = re.compile(r"^[ \t]*-- include: (\S+) (\w+)[ \t]*$", re.MULTILINE)
# Strings, quoted names, comments and casts are skipped as a whole; only the last alternative is a parameter.
TOKEN = re.compile(r"'(?:[^']|'')*'|\"[^\"]*\"|--[^\n]*|/\*.*?\*/|::\w+|:=|:([a-z_][a-z0-9_]*)", re.DOTALL)
IDENTIFIER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]*")


class SqlConnection(Protocol):
    """A connection, as far as a statement needs it: a `Session`, a pool's proxy of it, or an asyncpg connection."""

    async def fetch(self, query: str, *args: Any) -> list[Record]: ...
    async def fetchrow(self, query: str, *args: Any) -> Record | None: ...
    async def fetchval(self, query: str, *args: Any) -> Any: ...
    async def execute(self, query: str, *args: Any) -> str: ...


class Statement:
    """One named statement: call it for its rows."""

    def __init__(self, name: str, text: str) -> None:
        self.name = name
        self.parameters: list[str] = []
        self.text = TOKEN.sub(self._number, text.strip().rstrip(";"))

    def _number(self, found: re.Match[str]) -> str:
        parameter = found[1]
        if parameter is None:
            return found[0]
        if parameter not in self.parameters:
            self.parameters.append(parameter)
        return f"${self.parameters.index(parameter) + 1}"

    def named(self, **names: str | int) -> "Statement":
        """The statement with names of tables and schemas, quoted, and whole numbers in place of these words of its text.

        A word stands for itself and for the start of longer ones: with `rows` goes also the index `rows_by_id`.
        """
        for word, name in names.items():
            if not re.search(rf"(?:\b|_){word}", self.text):
                raise TypeError(f"{self.name} has no word {word} to be replaced")
            if not isinstance(name, int) and not IDENTIFIER.fullmatch(name):
                raise ValueError(f"{name!r} cannot be the name of a table or schema")
        text = self.text
        for word, number in names.items():
            if isinstance(number, int):
                text = re.sub(rf"(?:\b|(?<=_)){word}\b", str(int(number)), text)
        words = "|".join(word for word, name in names.items() if isinstance(name, str))
        if words:  # in one pass: a table may be named like a word
            text = re.sub(rf"\b({words})(\w*)", lambda found: f'"{names[found[1]]}{found[2]}"', text)
        named = copy.copy(self)
        named.text = text
        return named

    def arguments(self, values: dict[str, Any]) -> list[Any]:
        if values.keys() != set(self.parameters):
            raise TypeError(
                f"{self.name} takes {', '.join(self.parameters) or 'nothing'}, not {', '.join(values) or 'nothing'}"
            )
        return [values[name] for name in self.parameters]

    async def __call__(self, connection: SqlConnection, /, **values: Any) -> list[Record]:
        return await connection.fetch(self.text, *self.arguments(values))

    async def first(self, connection: SqlConnection, /, **values: Any) -> Record | None:
        return await connection.fetchrow(self.text, *self.arguments(values))

    async def value(self, connection: SqlConnection, /, **values: Any) -> Any:
        return await connection.fetchval(self.text, *self.arguments(values))

    async def run(self, connection: SqlConnection, /, **values: Any) -> None:
        await connection.execute(self.text, *self.arguments(values))


class Statements:
    def __init__(self, path: Path) -> None:
        self._by_name = {name: Statement(name, text) for name, text in _read(path).items()}

    def __getattr__(self, name: str) -> Statement:
        try:
            return self._by_name[name]
        except KeyError:
            raise AttributeError(f"no statement {name}; there are {', '.join(self._by_name)}") from None

    def __iter__(self) -> Iterator[Statement]:
        return iter(self._by_name.values())


def _read(path: Path) -> dict[str, str]:
    parts = NAME.split(path.read_text(encoding="utf-8"))[1:]
    texts = dict(zip(parts[::2], parts[1::2], strict=True))
    if 2 * len(texts) != len(parts):
        raise ValueError(f"{path} has two statements of one name")

    def fragment(found: re.Match[str]) -> str:
        file, name = found.groups()
        return INCLUDE.sub(fragment, texts[name]) if file == path.name else _read(path.parent / file)[name]

    return {name: INCLUDE.sub(fragment, text) for name, text in texts.items()}


def statements(module_file: str) -> Statements:
    """The statements of the `.sql` file with the module's own name."""
    return Statements(Path(module_file).with_suffix(".sql"))
