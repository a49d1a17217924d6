"""Named SQL: what becomes a parameter, what does not."""

from pathlib import Path

import pytest

from penstock.database import Database, Statement, Statements


def test_names_become_numbers_in_order_of_first_use() -> None:
    statement = Statement("s", "select :b, :a, :b;")
    assert statement.text == "select $1, $2, $1"
    assert statement.parameters == ["b", "a"]


@pytest.mark.parametrize(
    "text",
    [
        "select now()::date",
        "select ':name'",
        "select 'it''s :name'",
        'select ":name"',
        "-- a comment about :name\nselect 1",
        "/* about\n:name */ select 1",
    ],
)
def test_what_is_not_a_parameter(text: str) -> None:
    statement = Statement("s", text)
    assert statement.parameters == []
    assert statement.text == text


async def test_a_statement_gives_rows_a_row_or_a_value(database: Database) -> None:
    pair = Statement("pair", "select * from unnest(:numbers::int[]) as n")
    async with database.pool.session() as session:
        assert [row["n"] for row in await pair(session, numbers=[1, 2])] == [1, 2]
        first = await pair.first(session, numbers=[7])
        assert first is not None
        assert first["n"] == 7
        assert await pair.first(session, numbers=[]) is None
        assert await pair.value(session, numbers=[9]) == 9


async def test_a_wrong_argument_is_named(database: Database) -> None:
    statement = Statement("greet", "select :name::text")
    async with database.pool.session() as session:
        with pytest.raises(TypeError, match="greet takes name, not nmae"):
            await statement(session, nmae="Ada")


def test_two_statements_of_one_name_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "twice.sql"
    path.write_text("-- name: a\nselect 1\n-- name: a\nselect 2\n")
    with pytest.raises(ValueError, match="two statements of one name"):
        Statements(path)


def test_an_unknown_statement_tells_the_known_ones(tmp_path: Path) -> None:
    path = tmp_path / "known.sql"
    path.write_text("-- name: claim\nselect 1\n")
    with pytest.raises(AttributeError, match="no statement clain; there are claim"):
        _ = Statements(path).clain


def test_words_become_quoted_names_and_numbers() -> None:
    statement = Statement(
        "s", "create index rows_by_place on penstock.rows (id) where place = place_number and id = :id"
    )
    named = statement.named(rows="facts-of", place_number=7)
    assert named.text == 'create index "facts-of_by_place" on penstock."facts-of" (id) where place = 7 and id = $1'
    assert named.parameters == ["id"]
    assert "rows_by_place" in statement.text, "the statement itself stays as it is"
    index = Statement("s", "drop index penstock.rows_place_number").named(rows="facts", place_number=7)
    assert index.text == 'drop index penstock."facts_7"'


def test_a_table_may_be_named_like_another_word() -> None:
    statement = Statement("s", "select * from first_rows join second_rows using (id)")
    named = statement.named(first_rows="second_rows", second_rows="first_rows")
    assert named.text == 'select * from "second_rows" join "first_rows" using (id)'


@pytest.mark.parametrize(
    "name", ["", 'a"b', "a'b", "a b", "a;b", "a.b", "-a", "a\n", "a\0b", "ä", 'x"; drop table jobs; --']
)
def test_only_a_plain_name_becomes_a_table(name: str) -> None:
    with pytest.raises(ValueError, match="cannot be the name of a table"):
        Statement("s", "select * from penstock.rows").named(rows=name)


def test_a_word_that_is_not_in_the_text_is_refused() -> None:
    with pytest.raises(TypeError, match="count has no word rwos"):
        Statement("count", "select * from penstock.rows").named(rwos="facts")
