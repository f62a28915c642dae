"""Places in a binary log as numbers: in Python, in Spark's words and in Arrow's alike."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.sources.stream import binlog

FILES = st.integers(1, (1 << 20) - 1)
OFFSETS = st.integers(4, (1 << 32) - 1)
ORDERS = st.integers(0, 1 << 33)


@given(FILES, OFFSETS, ORDERS)
def test_columns_give_the_same(file: int, offset: int, order: int) -> None:
    name = f"mysql-bin.{file:06}"
    columns = (pa.chunked_array([[name]]), pa.chunked_array([[offset]]), pa.chunked_array([[order]]))
    assert binlog.arrow(*columns).to_pylist() == [binlog.number(name, offset, order)]
    assert 0 < binlog.number(name, offset, order) < 1 << 63


@given(st.tuples(FILES, OFFSETS, ORDERS), st.tuples(FILES, OFFSETS, ORDERS))
def test_numbers_grow_with_the_log(one: tuple[int, int, int], other: tuple[int, int, int]) -> None:
    (a, at_a, order_a), (b, at_b, order_b) = sorted((one, other))
    first, second = binlog.number(f"b.{a}", at_a, order_a), binlog.number(f"b.{b}", at_b, order_b)
    if a == b and at_a != at_b and at_b - at_a < 16:
        return  # no two events are that close
    assert first <= second
    if (a, at_a) != (b, at_b) or order_a < order_b <= 1 << 14:
        assert first < second


def test_a_snapshot_is_before_what_follows_it_and_after_what_was() -> None:
    snapshot = binlog.number("mysql-bin.000007", 1000)
    assert binlog.number("mysql-bin.000007", 1000, 1) > snapshot > binlog.number("mysql-bin.000007", 940, 9)
    assert binlog.number("mysql-bin.000008", 4) > binlog.number("mysql-bin.000007", 4_000_000_000, 1 << 20)
    assert binlog.place(snapshot) == "000007:992"


def test_a_file_without_a_number_is_told() -> None:
    with pytest.raises(pa.ArrowInvalid):
        binlog.arrow(pa.chunked_array([["x"]]), pa.chunked_array([[4]]), pa.chunked_array([[1]]))
