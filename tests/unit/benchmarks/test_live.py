"""The live suites without a stack: what they make of scores, how a race reads commits, scratch stacks."""

from __future__ import annotations

import math
import socket
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import psycopg
import pyarrow as pa
import pytest

from benchmarks.live import first_load, race
from benchmarks.live.compared import against, exact
from benchmarks.live.contender import DWS, PEERS, TABLES, Commit, Contender, peer
from benchmarks.live.race import Race, Score, of_contender
from benchmarks.report import Result
from benchmarks.runner import Bench
from benchmarks.suites import freshness, snapshot, throughput
from headrace.demo.multisets import Comparison
from headrace.errors import TerminalError
from headrace.services.scratch import free_ports, scratch_settings
from headrace.settings import Settings, checkout
from headrace.sources.connect import ConnectorFile


def score(name: str, seconds: float, **values: Any) -> Score:
    return Score(
        name,
        snapshot=dict.fromkeys(TABLES, seconds),
        delays=[seconds] * 100,
        bulk=[dict.fromkeys(TABLES, seconds)] * 3,
        updated=1000,
        cores=0.5,
        **values,
    )


def by_name(results: Sequence[Result]) -> dict[str, Result]:
    assert len({r.name for r in results}) == len(results)
    return {r.name: r for r in results}


Phases = Callable[[Race], None]


@pytest.mark.parametrize(
    ("suite", "measure", "bars"),
    [
        (snapshot, "snapshot through all tables", {"flink_paimon": 1.0}),
        (freshness, "freshness, p50", {"flink_paimon": 1.0}),
        (throughput, "an update of every order, seconds", {"flink_paimon": 1.0, "spark_merge": 0.2}),
    ],
)
def test_a_suite_holds_headrace_against_each_peer(
    monkeypatch: pytest.MonkeyPatch, suite: Any, measure: str, bars: dict[str, float]
) -> None:
    found = [score("headrace", 1.2), score("flink_paimon", 1.0), score("spark_merge", 10.0)]
    monkeypatch.setattr(suite, "scores", lambda bench, phases: found)
    monkeypatch.setattr(suite, "first_loads", lambda bench: [], raising=False)
    results = by_name(suite.run(cast("Bench", None)))
    for name, part in {"flink_paimon": 1.2, "spark_merge": 0.12}.items():
        result = results[f"{measure}, part of {name}'s"]
        assert result.value == pytest.approx(part)
        assert result.holds == (part <= bars[name] if name in bars else None)
    assert results["headrace.equal to PostgreSQL"].value is True
    assert results["tables of headrace that differ"].holds


def test_the_bars_of_a_first_load() -> None:
    results = by_name(first_load.compared([1.0, 2.0, 9.0], [6.0, 5.0, 7.0], 29.0, 2))
    copy, debezium = (
        results["bulk snapshot, times COPY to a file"],
        results["Debezium alone, times the bulk snapshot"],
    )
    assert (copy.value, copy.holds) == (3.0, True)
    assert (debezium.value, debezium.holds) == (pytest.approx(29 / 6), False)
    assert results["loads whose sums are PostgreSQL's"].holds is False


def test_the_bars_of_freshness(monkeypatch: pytest.MonkeyPatch) -> None:
    ours = score("headrace", 0.3)
    ours.delays[-3:] = [4.0, 4.0, 4.0]
    ours.missing = 1
    ours.beside, ours.backfills = [0.4] * 89 + [0.75] * 11, [3.0, 4.0, 9.0]
    monkeypatch.setattr(freshness, "scores", lambda bench, phases: [ours])
    results = by_name(freshness.run(cast("Bench", None)))
    assert (results["freshness, p50"].value, results["freshness, p50"].holds) == (0.3, True)
    assert (results["freshness, p99"].value, results["freshness, p99"].holds) == (4.0, False)
    assert results["changes that never showed"].holds is False
    assert results["headrace.max"].value == 4.0
    beside = results["freshness beside such backfills, p90, part of alone"]
    assert (beside.value, beside.holds) == (pytest.approx(2.5), False)
    assert results["seconds of a backfill of 30 partitions beside it"].value == 4.0


def test_a_wrong_table_of_headrace_breaks_a_bar_and_one_of_a_peer_is_shown() -> None:
    wrong = {"at the end": [f"{DWS}: 1 rows too many, 0 missing"]}
    ours, theirs = score("headrace", 1.0, wrong=wrong), score("other", 1.0, wrong=wrong)
    results = by_name(exact([ours, theirs]))
    assert results["tables of headrace that differ"].holds is False
    assert results["other.equal to PostgreSQL"].value is False
    assert "1 rows too many" in str(results["other.why"].value)
    assert by_name(exact([score("headrace", 1.0), theirs]))["tables of headrace that differ"].holds


def test_a_peer_that_failed_is_shown_and_not_compared() -> None:
    failed = Score("other", failed="it cannot")
    assert by_name(exact([score("headrace", 1.0), failed]))["other.why"].value == "it cannot"
    assert against([score("headrace", 1.0), failed], "n", lambda s: s.delay(0.5), {"other": 1.0}) == []
    assert math.isnan(failed.delay(0.5)) and math.isnan(failed.bulk_seconds)


def test_peers_are_named_and_kept_in_the_repository() -> None:
    settings = cast("Settings", None)
    with pytest.raises(TerminalError, match=r"no peer `flink`.*flink_paimon"):
        peer("flink", settings)
    root = checkout()
    assert root is not None
    for name in PEERS:
        place = root / "benchmarks" / "peers" / name
        assert place.with_suffix(".py").is_file() or (place / "__init__.py").is_file()


class Commits:
    """A contender whose commits are given."""

    name = "given"
    settle = 0.0

    def __init__(self, found: dict[str, list[Commit]], rows: pa.Table | None = None) -> None:
        self.found, self.content = found, rows

    def commits(self, table: str) -> Sequence[Commit]:
        return self.found.get(table, [])

    def rows(self, table: str) -> pa.Table:
        assert self.content is not None
        return self.content

    def roots(self) -> Sequence[int]:
        return []


def a_race(contender: Any, database: Any) -> Race:
    return Race(cast("Any", None), database, cast("Contender", contender), cast("Any", None), Path(), print)


def images(*groups: tuple[int, str]) -> Callable[[], pa.Table]:
    return lambda: pa.table({"user_id": [u for u, _ in groups], "logdate": [h for _, h in groups]})


def test_a_change_is_seen_with_the_first_commit_that_shows_its_group(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Two updates of 20 orders; the warm-up's groups and a commit before the measurement do not count."""
    begun = time.time()
    groups = {(order, "h"): order for order in (*range(1, 21), *range(1001, 1021), 501, 502)}
    committed = {0: begun + 10.0, 1: begun + 11.0}
    later = [
        Commit(begun - 5.0, 1, images((1, "h"))),
        Commit(begun + 12.0, 1, images(*((o, "h") for o in range(1, 21)), (501, "h"))),
        Commit(begun + 12.5, 1, images(*((o, "h") for o in range(1001, 1020)), (1, "h"))),
    ]
    ran = a_race(Commits({DWS: later}), SimpleNamespace(groups=lambda: groups))
    monkeypatch.setattr(Race, "updates", lambda self, seconds, first: committed)
    monkeypatch.setattr(Race, "settled", lambda self, since: {})
    ran.freshness(0.0, 1.0)
    assert sorted(set(ran.score.delays)) == pytest.approx([1.5, 2.0])
    assert (len(ran.score.delays), ran.score.missing) == (39, 1)


def test_changes_beside_backfills_are_measured_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    begun = time.time()
    groups = {(order, "h"): order for order in (1, 251, 252)}
    later = [Commit(begun + 12.0, 3, images((1, "h"), (251, "h"), (252, "h")))]
    ran = a_race(Commits({DWS: later}), SimpleNamespace(groups=lambda: groups))
    backfilled = threading.Event()

    def updates(self: Race, seconds: float, first: int) -> dict[int, float]:
        assert first == 251 and backfilled.wait(10)
        return {0: begun + 10.0}

    monkeypatch.setattr(Race, "updates", updates)
    monkeypatch.setattr(Race, "settled", lambda self, since: {})
    ran.freshness_beside(1.0, backfilled.set)
    assert ran.score.beside == pytest.approx([2.0, 2.0]) and ran.score.delays == []
    assert ran.score.backfills and ran.score.missing == 0

    def fails() -> None:
        backfilled.set()
        raise RuntimeError("no partition")

    with pytest.raises(RuntimeError, match="no partition"):
        ran.freshness_beside(1.0, fails)


def test_a_run_is_settled_when_all_tables_committed_and_nothing_follows() -> None:
    now = time.time()
    found = {table: [Commit(now - 5 + i, 1, images())] for i, table in enumerate(TABLES)}
    seconds = a_race(Commits(found), None).settled(now - 10)
    assert seconds == pytest.approx({table: 5.0 + i for i, table in enumerate(TABLES)}, abs=0.01)


def test_a_table_that_stays_behind_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    now = time.time()
    found = {table: [Commit(now - 1, 1, images())] for table in TABLES[:2]}
    monkeypatch.setattr(race, "TIMEOUT", 0.0)
    with pytest.raises(Exception, match=f"given is not done after 0 s: {DWS}"):
        a_race(Commits(found), None).settled(now - 10)


def test_a_table_that_differs_from_postgresql_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    database = SimpleNamespace(
        compare=lambda table, rows: Comparison(equal=False, rows=1, missing=2, extra=1)
    )
    now = time.time()
    found = {table: [Commit(now - 5, 1, images())] for table in TABLES}
    monkeypatch.setattr(race, "LATE", 0.0)
    ran = a_race(Commits(found, pa.table({})), database)
    ran.right(now - 10, "at the end", [DWS])
    assert list(ran.score.wrong) == ["at the end"] and DWS in ran.score.wrong["at the end"][0]
    assert ran.score.wrong == {"at the end": [f"{DWS}: 1 rows too many, 2 missing"]}


def test_a_contender_that_paused_is_measured_to_the_commit_that_makes_it_right(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = time.time()
    found = {table: [Commit(now - 5, 1, images())] for table in TABLES}
    commits = Commits(found, pa.table({}))

    def compare(table: str, rows: pa.Table) -> Comparison:
        right = len(found[DWS]) > 1
        found[DWS].append(Commit(now - 1, 1, images()))
        return Comparison(equal=right, rows=1, missing=int(not right), extra=0)

    ran = a_race(commits, SimpleNamespace(compare=compare))
    monkeypatch.setattr(race, "POLL_SECONDS", 0.0)
    assert ran.right(now - 10, "at the end", [DWS])[DWS] == pytest.approx(9.0, abs=0.01)
    assert not ran.score.wrong


def test_each_contender_has_a_connector_of_its_own() -> None:
    root = checkout()
    assert root is not None
    [file] = (root / "benchmarks" / "projects" / "orders" / "deploy" / "connectors").glob("*.json")
    template = ConnectorFile.read(file)
    own = of_contender(template, "other")
    assert own.name == "other" and own.topics() == ["other.public.orders"]
    same = {n for n, v in own.config.items() if template.config.get(n) == v}
    assert set(own.config) - same == {"topic.prefix", "slot.name", "publication.name"}


def test_free_ports_are_free_and_different() -> None:
    ports = free_ports(5)
    assert len(set(ports)) == 5
    for port in ports:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", port))


def test_scratch_data_are_gone_afterwards(tmp_path: Path) -> None:
    with pytest.raises(psycopg.OperationalError), scratch_settings(tmp_path) as settings:
        assert settings.data.is_dir() and settings.postgres_url is None
        psycopg.connect(settings.postgres_dsn(), connect_timeout=2)
    assert not settings.data.exists()
