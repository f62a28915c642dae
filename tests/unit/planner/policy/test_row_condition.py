"""What a condition means of a stg table's rows, and of its source's."""

from __future__ import annotations

from pathlib import Path

import pytest
from planner_support import write_table

from headrace.errors import TerminalError
from headrace.planner.policy.row_condition import RowCondition, row_condition

SOURCE = ("order_id", "Status", "amount", "created_at")
QUERY = """SELECT order_id, amount / 100 AS euros, Status AS state, created_at,
    date_format(created_at, 'yyyyMMddHH') AS logdate FROM shop.public.orders"""
NAMES = ("order_id", "euros", "state", "created_at", "logdate")


def read(directory: Path, text: str) -> RowCondition:
    spec = write_table(directory, QUERY, key="", name="stg.orders")
    return row_condition(spec, SOURCE, NAMES, text)


@pytest.mark.parametrize(
    ("text", "source"),
    [
        ("order_id BETWEEN 7 AND 9", '"order_id" BETWEEN 7 AND 9'),
        ("STATE <=> 'paid' -- or so", "\"Status\" IS NOT DISTINCT FROM 'paid'"),
        ("orders.state = 'it\\'s' AND order_id % 2 = 0", "\"Status\" = 'it''s' AND \"order_id\" % 2 = 0"),
        ("NOT state LIKE 'p%' OR state IS NULL", 'NOT "Status" LIKE \'p%\' OR "Status" IS NULL'),
        (
            "created_at >= TIMESTAMP '2026-11-01 00:00:00'",
            "\"created_at\" >= CAST('2026-11-01 00:00:00' AS TIMESTAMPTZ)",
        ),
    ],
)
def test_the_source_is_asked_in_its_own_words(tmp_path: Path, text: str, source: str) -> None:
    assert read(tmp_path, text) == RowCondition(table=text, source=source)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("order_id =", "the condition cannot be read: order_id =. Next: write it as after WHERE"),
        ("order_id = 1; DROP TABLE users", "the condition cannot be read"),
        ("order_id = 1 LIMIT 3", "the condition cannot be read"),
        ("1 = 1", "names no column: 1 = 1. Next: name some of `order_id`, `state`, `created_at`"),
        ("stat = 'paid'", "`stg.orders` has no column `stat`: did you mean `state`"),
        ("euros > 3", "`euros` is computed: `amount / 100`: the source does not have it. Next: name some of"),
        ("logdate = '2026110100'", "`logdate` is computed"),
        ("order_id IN (SELECT 1)", "is not of one row alone"),
        ("order_id = max(order_id)", "is not of one row alone"),
        ("order_id = pg_backend_pid()", "is no function that Spark and PostgreSQL share"),
    ],
)
def test_a_condition_that_would_not_mean_rows_is_refused(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(TerminalError) as found:
        read(tmp_path, text)
    assert says in str(found.value)
