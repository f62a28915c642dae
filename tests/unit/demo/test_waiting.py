from __future__ import annotations

import pytest

from headrace.demo.waiting import not_caught_up, not_compacted, raise_if_halted, wait_for
from headrace.errors import TerminalError, TransientError
from headrace.results import State, TableStatus


def status(
    table: str,
    *,
    mode: str = "CONTINUOUS",
    state: State = "RUNNING",
    rows: int | None = None,
    lag: int | None = 0,
    tail: int = 0,
) -> TableStatus:
    return TableStatus(
        table=table,
        mode=mode,
        state=state,
        strategy="ROW",
        declared_freshness=10,
        measured_freshness=1,
        rows=rows,
        version=3,
        snapshot_version=3,
        lag=lag,
        tail_rows=tail,
    )


def test_caught_up_means_no_lag_and_the_rows_of_the_source() -> None:
    done = [status("stg.orders", rows=3), status("dws.user_hour")]
    assert not_caught_up(done, {"stg.orders": 3}) is None
    assert not_caught_up(done, {"stg.orders": 1_004}) == "stg.orders 3 of 1,004 rows"
    assert not_caught_up([status("dws.user_hour", lag=1200)], {}) == "dws.user_hour 1,200 behind"
    starting = [status("dws.user_hour", state="INITIALIZING", lag=0)]
    assert not_caught_up(starting, {}) == "dws.user_hour initializing"
    assert not_caught_up([status("dws.user_hour", lag=None)], {}) == "dws.user_hour running"
    assert not_caught_up([], {"stg.orders": 0}) == "no status of stg.orders"


def test_a_table_on_a_schedule_only_has_to_run() -> None:
    assert not_caught_up([status("dws.daily", mode="INCREMENTAL", lag=7)], {}) is None
    starting = status("dws.daily", mode="INCREMENTAL", state="INITIALIZING")
    assert not_caught_up([starting], {}) == "dws.daily initializing"
    # Kafka does not keep a stg table's events for ever: it streams in any mode.
    assert (
        not_caught_up([status("stg.orders", mode="INCREMENTAL", rows=3, lag=1)], {"stg.orders": 3})
        is not None
    )


def test_a_long_list_is_cut() -> None:
    behind = [status(f"dws.t{n}", lag=1) for n in range(6)]
    assert (not_caught_up(behind, {}) or "").endswith("dws.t3 1 behind and 2 more")


def test_a_halted_table_ends_the_wait_with_its_error() -> None:
    halted = status("dwd.orders", state="NEEDS RESYNC")
    with pytest.raises(TerminalError, match=r"`dwd\.orders` is NEEDS RESYNC: slot lost"):
        raise_if_halted([halted.model_copy(update={"last_error": "slot lost"})])


def test_compacted_means_nothing_left_in_the_tail() -> None:
    assert not_compacted([status("dws.a", tail=7)], "dws.a") == "7 changed rows to compact"
    assert not_compacted([status("dws.a")], "dws.a") is None
    assert not_compacted([], "dws.a") == "no status of dws.a"


def test_waiting_goes_on_over_transient_errors_and_tells_what_is_outstanding() -> None:
    answers: list[str | Exception | None] = [TransientError("starting"), "2 left", None]
    said: list[str] = []

    def check() -> str | None:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    wait_for("the end", check, timeout=60, say=said.append, interval=0)
    assert said == ["starting", "2 left"]


def test_a_wait_that_is_too_long_names_what_is_missing() -> None:
    with pytest.raises(TerminalError, match=r"the end: not within 0 s; outstanding: 2 left.*headrace status"):
        wait_for("the end", lambda: "2 left", timeout=0, interval=0)
