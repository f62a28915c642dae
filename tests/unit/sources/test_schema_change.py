"""What is taken over when the columns of a source change."""

from __future__ import annotations

import pytest

from headrace.sources.columns import absent
from headrace.sources.postgres.types import column
from headrace.sources.schema import SourceSchema
from headrace.sources.schema_change import change, followed, refused, widens
from headrace.spec.model import SchemaChangeBehavior as Behavior
from headrace.spec.model import SourceTable

TABLE = SourceTable("shop", "public", "words")


def schema(*columns: str, key: tuple[str, ...] = ("id",)) -> SourceSchema:
    """Of `name type` texts; a `-` before one: the source has dropped it."""
    made = []
    for text in columns:
        name, kind = text.lstrip("-").split(" ", 1)
        made.append(absent(column(name, kind)) if text.startswith("-") else column(name, kind))
    return SourceSchema(TABLE, tuple(made), key, True)


WAS = schema("id bigint", "word text", "n integer")


@pytest.mark.parametrize(
    ("now", "says"),
    [
        (WAS, None),
        (schema("id bigint", "word character varying(20)", "n integer"), None),  # read the same way
        (
            schema("id bigint", "term text", "n integer"),
            "column `word` is not there any more, column `term` is new",
        ),
        (schema("id bigint", "word text", "n bigint"), "column `n` is a bigint, was a integer"),
        (schema("id bigint", "word text", "n integer", key=("id", "n")), "its key is (id, n)"),
    ],
)
def test_a_change_says_what_is_read_otherwise(now: SourceSchema, says: str | None) -> None:
    found = change(WAS, now)
    assert (str(found) if found is not None else None) == says


@pytest.mark.parametrize(
    ("behavior", "names", "gone"),
    [
        (Behavior.LENIENT, ("id", "word", "n", "term"), {"word"}),
        (Behavior.IGNORE, ("id", "word", "n"), {"word"}),
        (Behavior.EVOLVE, ("id", "n", "term"), set()),
        (Behavior.TRY_EVOLVE, ("id", "n", "term"), set()),
    ],
)
def test_a_renamed_column(behavior: Behavior, names: tuple[str, ...], gone: set[str]) -> None:
    found = followed(WAS, schema("id bigint", "term text", "n integer"), behavior)
    assert found.names == names
    assert {c.name for c in found.columns if c.dropped} == gone
    assert set(found.names) - set(found.present) == gone


def test_a_dropped_column_that_is_named_stays_until_it_is_back() -> None:
    dropped = followed(WAS, schema("id bigint", "n integer"), Behavior.EVOLVE, {"word"})
    assert dropped.names == WAS.names and dropped.present == ("id", "n")
    assert followed(dropped, WAS, Behavior.EVOLVE, {"word"}) == WAS
    again = change(dropped, WAS)
    assert again is not None and again.added == ("word",)


def test_what_is_left_out_stays_left_out() -> None:
    more = schema("id bigint", "word text", "n integer", "extra text")
    assert followed(WAS, more, Behavior.IGNORE) == WAS
    assert change(WAS, followed(WAS, more, Behavior.IGNORE)) is None


@pytest.mark.parametrize(
    ("now", "behavior", "says"),
    [
        ("n bigint", Behavior.LENIENT, None),
        ("n smallint", Behavior.LENIENT, "need not hold"),
        ("n text", Behavior.LENIENT, "need not hold"),
        ("n bigint", Behavior.IGNORE, "need not hold"),  # its values are read as they are written
        ("n text", Behavior.EVOLVE, None),
        ("n bigint", Behavior.EXCEPTION, "'exception'"),
    ],
)
def test_a_type_that_does_not_hold_what_the_former_held_is_asked_about(
    now: str, behavior: Behavior, says: str | None
) -> None:
    there = schema("id bigint", "word text", now)
    found = change(WAS, there)
    assert found is not None
    why = refused(found, WAS, there, behavior)
    assert why is None if says is None else why is not None and says in why


def test_another_key_is_asked_about() -> None:
    there = schema("id bigint", "word text", "n integer", key=("word",))
    found = change(WAS, there)
    assert found is not None
    assert refused(found, WAS, there, Behavior.LENIENT) == "another key tells its rows apart"
    assert refused(found, WAS, there, Behavior.EVOLVE) is None


@pytest.mark.parametrize(
    ("was", "now", "holds"),
    [
        ("int", "bigint", True),
        ("bigint", "int", False),
        ("int", "decimal(12,2)", True),
        ("int", "decimal(11,2)", False),
        ("decimal(12,2)", "decimal(14,4)", True),
        ("decimal(12,2)", "decimal(12,4)", False),
        ("decimal(12,4)", "decimal(14,2)", False),
        ("float", "double", True),
        ("double", "float", False),
        ("date", "timestamp_ntz", False),
        ("string", "int", False),
    ],
)
def test_a_type_is_wider_where_it_holds_every_value(was: str, now: str, holds: bool) -> None:
    assert widens(was, now) is holds


def test_a_query_sees_the_columns_that_it_names_and_the_key() -> None:
    assert WAS.reading(None) is WAS
    assert WAS.reading({"n"}).names == ("id", "n")
    wider = schema("id bigint", "word character varying(9)", "n integer", "extra jsonb")
    assert WAS.reading({"n"}).digest == wider.reading({"n"}).digest
    assert WAS.digest != wider.digest


def test_a_schema_is_read_back_from_its_record() -> None:
    found = followed(WAS, schema("id bigint", "n bigint", "tags text[]"), Behavior.LENIENT)
    assert SourceSchema.of(TABLE, found.record()) == found
