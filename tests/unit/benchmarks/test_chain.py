"""The suite `chain` without a stack: which commit shows a mark, and what becomes of the delays."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from benchmarks.live.contender import Commit, shop_peer
from benchmarks.live.marks import ID, delays_of, newest, shown
from benchmarks.live.shop_run import Phase, ShopScore
from benchmarks.peers.changes import SHOP_KEYS
from benchmarks.report import Result
from benchmarks.suites.chain import FULL, QUICK, results, sustained, worst
from headrace.errors import TerminalError
from headrace.settings import checkout
from headrace.spec import load_project

HOUR = datetime(2026, 11, 4, 9, 30, tzinfo=UTC)
SHOWN = shown(HOUR)


def images(*rows: dict[str, Any]) -> Callable[[], pa.Table]:
    return lambda: pa.Table.from_pylist(list(rows))


def test_every_table_of_the_shop_shows_marks_and_has_a_key_for_the_peer() -> None:
    root = checkout()
    assert root is not None
    tables = {str(name): spec for name, spec in load_project(root).tables.items()}
    assert SHOWN.keys() == tables.keys() == SHOP_KEYS.keys()
    declared = {name: spec.primary_key for name, spec in tables.items() if spec.primary_key}
    assert {name: SHOP_KEYS[name] for name in declared} == {n: tuple(k) for n, k in declared.items()}


def test_a_mark_is_seen_with_the_first_commit_that_shows_it_or_a_newer_one() -> None:
    others = {"order_id": 7, "amount": Decimal("99.00")}
    commits = [
        Commit(5.0, 1, images({"order_id": ID, "amount": Decimal("9.00")})),
        Commit(11.0, 2, images(others, {"order_id": ID, "amount": Decimal("1.00")})),
        Commit(11.5, 1, images(others)),
        Commit(14.0, 1, images({"order_id": ID, "amount": Decimal("3.00")})),
    ]
    marks = [(1, 10.0), (2, 10.5), (3, 12.0), (4, 13.0)]
    assert delays_of(marks, commits, SHOWN["dwd.orders"]) == {1: 1.0, 2: 3.5, 3: 2.0}


@pytest.mark.parametrize(
    ("table", "row", "number"),
    [
        ("stg.users", {"user_id": ID, "city": "mark 12"}, 12),
        ("stg.page_words", {"user_id": ID, "word_id": -12}, 12),
        ("dws.gmv_day", {"day": "20261104", "gmv": Decimal("12.00")}, 12),
        ("dws.gmv_hour", {"logdate": "2026110409", "gmv": Decimal("12.00")}, 12),
        ("dws.gmv_hour", {"logdate": "2026110410", "gmv": Decimal("12.00")}, None),
        ("dws.user_hour", {"user_id": 5, "amount": Decimal("12.00")}, None),
    ],
)
def test_a_table_shows_marks_by_their_number(table: str, row: dict[str, Any], number: int | None) -> None:
    assert newest(pa.Table.from_pylist([row]), SHOWN[table]) == number


DECLARED = {"dws.user_hour": 10.0, "dws.gmv_day": 60.0}


def phase(rate: float, user_hour: float, gmv_day: float, *, missing: int = 0) -> Phase:
    delays = {"dws.user_hour": [user_hour] * 10, "dws.gmv_day": [gmv_day] * 10}
    return Phase(rate, delays, {"dws.user_hour": 0, "dws.gmv_day": missing}, processor=20.0, memory=2**30)


def score(name: str, **phases: Phase) -> ShopScore:
    return ShopScore(name, snapshot=30.0, phases={n.replace("_", " "): p for n, p in phases.items()})


def by_name(found: Sequence[Result]) -> dict[str, Result]:
    assert len({r.name for r in found}) == len(found)
    return {r.name: r for r in found}


def test_the_table_that_is_the_latest_for_what_it_declares() -> None:
    assert worst(phase(40, 1.0, 30.0), DECLARED) == ("dws.gmv_day", 0.5)
    assert worst(phase(40, 9.0, 30.0), DECLARED) == ("dws.user_hour", 0.9)
    assert worst(phase(40, 9.0, 1.0, missing=1), DECLARED) == ("dws.gmv_day", math.inf)


def test_a_peer_whose_table_does_not_follow_is_slower_than_any_that_does() -> None:
    behind = phase(41, 1.0, 1.0, missing=11)
    assert (behind.delay("dws.gmv_day", 0.4), behind.delay("dws.gmv_day", 0.5)) == (1.0, math.inf)
    theirs = score("flink_paimon", warm=behind)
    found = by_name(results(QUICK, DECLARED, score("headrace", warm=phase(41, 2.0, 30.0)), [theirs]))
    slowest = found["p50 at the table where it is the largest part of flink_paimon's"]
    assert (slowest.value, found["that table, beside flink_paimon"].value) == (2.0, "dws.user_hour")
    processor = found["processor time for a change, part of flink_paimon's"]
    assert (processor.value, processor.holds) == ("not comparable: dws.gmv_day did not follow", None)


def test_a_rate_is_sustained_where_every_table_keeps_what_it_declares() -> None:
    phases = {"cold": phase(9e9, 1.0, 1.0), "warm": phase(41, 1.0, 1.0), "rate 200": phase(199, 9.0, 59.0)}
    assert sustained(phases, DECLARED) == 199
    assert sustained(phases | {"rate 1000": phase(990, 10.1, 1.0)}, DECLARED) == 199
    assert sustained({"warm": phase(41, 11.0, 1.0)}, DECLARED) == 0


def test_the_bars() -> None:
    ours = score("headrace", cold=phase(41, 5.0, 5.0), warm=phase(41, 2.0, 30.0), rate_1000=phase(1001, 9, 9))
    ours.phases["verified"] = phase(41, 2.9, 30.0)
    ours.first_row, ours.verify = 26.0, [14.0, 13.0]
    theirs = score("flink_paimon", warm=phase(41, 3.0, 20.0))
    found = by_name(results(FULL, DECLARED, ours, [theirs]))
    assert found["its p90, part of what it declares"].holds
    assert found["table that is the latest for what it declares"].value == "dws.gmv_day"
    assert found["from `up` on existing tables to the first row"].holds is False
    assert found["changes a second with every declaration kept"].value == 1001
    assert found["VERIFY of every table beside the load, the slowest"].value == 14.0
    beside = found["p90 of user_hour meanwhile, part of that without"]
    assert (beside.value, beside.holds) == (1.45, True)
    slowest = found["p50 at the table where it is the largest part of flink_paimon's"]
    assert (slowest.value, slowest.holds) == (1.5, False)
    assert found["processor time for a change, part of flink_paimon's"].holds
    assert found["dws.gmv_day.cold p90"].value == 5.0 and found["dws.gmv_day.flink_paimon p50"].value == 20.0


def test_the_short_form_fails_only_where_a_table_is_late_threefold() -> None:
    late = by_name(results(QUICK, DECLARED, score("headrace", warm=phase(41, 29.0, 1.0)), []))
    assert all(r.holds is not False for r in late.values())
    later = by_name(results(QUICK, DECLARED, score("headrace", warm=phase(41, 31.0, 1.0)), []))
    assert later["its p90, part of what it declares"].holds is False
    lost = by_name(results(QUICK, DECLARED, score("headrace", warm=phase(41, 1.0, 1.0, missing=2)), []))
    assert lost["changes that never showed"].holds is False


def test_a_peer_without_these_tables_is_refused() -> None:
    with pytest.raises(TerminalError, match="`spark_merge` keeps three tables alone"):
        shop_peer("spark_merge", None)  # type: ignore[arg-type]
