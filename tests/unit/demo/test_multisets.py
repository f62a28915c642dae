from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal

import pyarrow as pa
import pytest

from headrace.demo.multisets import compare, tuples
from headrace.errors import TerminalError


def test_equal_values_are_equal_in_any_form() -> None:
    at = datetime(2026, 1, 1, 12, tzinfo=UTC)
    found = compare(
        ["n", "amount", "at"],
        table=[(1, Decimal("1.50"), at), (None, None, None)],
        expected=[(None, None, None), (1, Decimal("1.5"), at.astimezone(timezone(timedelta(hours=2))))],
    )
    assert found.equal and found.rows == 2 and found.sample == []


def test_a_duplicate_is_a_difference() -> None:
    found = compare(["n"], table=[(1,), (1,), (2,)], expected=[(1,), (2,), (3,)])
    assert (found.equal, found.extra, found.missing) == (False, 1, 1)
    assert [(row.side, row.row) for row in found.sample] == [("table", {"n": 1}), ("expected", {"n": 3})]


def test_a_cent_is_a_difference() -> None:
    assert not compare(["a"], table=[(Decimal("0.10"),)], expected=[(Decimal("0.11"),)]).equal


def test_the_sample_is_short() -> None:
    found = compare(["n"], table=[(n,) for n in range(100)], expected=[])
    assert (found.extra, len(found.sample)) == (100, 10)


def test_columns_are_taken_by_name() -> None:
    assert tuples(pa.table({"a": [1, 2], "b": ["x", None]}), ["b", "a"]) == [("x", 1), (None, 2)]
    with pytest.raises(TerminalError, match="did you mean `amount`"):
        tuples(pa.table({"amount": [1]}), ["amounts"])
