"""Benchmarks without a JVM: reports, the command, TPC-H's layer files and its changes."""

from __future__ import annotations

import json
import math
import os
import signal
import time
from collections.abc import Callable
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from typer.testing import CliRunner

from benchmarks import runner
from benchmarks.data.orders import Orders
from benchmarks.data.tpch import KEYS
from benchmarks.data.tpch_changes import COUNTS, Change, Changes
from benchmarks.report import Report, Result, at_least, at_most, less_than
from benchmarks.runner import Options
from benchmarks.suites.incremental import MIX, mix
from benchmarks.suites.tpch import Query, results_of
from headrace.cli.main import app
from headrace.errors import UnknownName
from headrace.planner import analyze
from headrace.planner.lint import lint
from headrace.spec import load_project
from headrace.spec.sql.columns import check_columns

RESULT_KEYS = {"name", "value", "unit", "bar", "holds"}


def test_a_value_at_its_bar_holds_and_nan_never_does() -> None:
    assert at_least("n", 22, 22).holds and not at_least("n", 21, 22).holds
    assert at_most("n", 0.1, 0.1).holds and not at_most("n", 0.11, 0.1).holds
    assert less_than("n", 1.49, 1.5).holds and not less_than("n", 1.5, 1.5).holds
    assert not any(check("n", math.nan, 1).holds for check in (at_least, at_most, less_than))


def test_a_report_without_bars_holds_nothing() -> None:
    assert not Report("s", 1, [Result("n", 1)]).holds
    assert Report("s", 1, [Result("n", 1), at_least("m", 1, 1)]).holds
    assert not Report("s", 1, [at_least("m", 1, 1), at_least("m", 0, 1)]).holds


def test_a_bar_without_a_verdict_is_refused() -> None:
    with pytest.raises(ValueError, match="come together"):
        Result("n", 1, bar="≥ 1")


@pytest.mark.parametrize("unknown", [math.nan, math.inf])
def test_the_json_file(tmp_path: Path, unknown: float) -> None:
    file = tmp_path / "new" / "report.json"
    Report("tpch", 7, [Result("q01.refresh", unknown, "s"), at_least("n", 2, 1)], 10_000).write(file)
    content = json.loads(file.read_text())
    assert set(content) == {"suite", "machine", "versions", "seed", "rows", "quick", "results"}
    assert (content["suite"], content["seed"], content["rows"]) == ("tpch", 7, 10_000)
    assert content["machine"]["cpus"] > 0 and content["versions"]["pyspark"]
    assert content["results"][0] == {
        "name": "q01.refresh", "value": None, "unit": "s", "bar": None, "holds": None,
    }  # fmt: skip
    assert content["results"][1] == {"name": "n", "value": 2, "unit": "", "bar": "≥ 1", "holds": True}


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., tuple[Any, list[Options]]]:
    """`headrace bench …` whose suites answer with the given results, and the options they were given."""

    def invoke(results: list[Result], *arguments: str) -> tuple[Any, list[Options]]:
        given: list[Options] = []

        def run(name: str, settings: object, options: Options, tell: object) -> Report:
            runner.find(name)
            given.append(options)
            return Report(name, options.seed, results)

        (tmp_path / "layers").mkdir(exist_ok=True)
        monkeypatch.setattr(runner, "run", run)
        monkeypatch.setattr(runner, "FIGURES", tmp_path / "figures")
        return CliRunner().invoke(app, ["bench", *arguments, "--project", str(tmp_path)]), given

    return invoke


def test_the_command_ends_with_1_where_a_bar_does_not_hold(measured: Any, tmp_path: Path) -> None:
    file = tmp_path / "r.json"
    ended, given = measured([at_least("n", 0, 1)], "tpch", "--seed", "3", "--json", str(file))
    assert ended.exit_code == 1, ended.output
    assert given[0].seed == 3 and given[0].scale == 0.1 and given[0].rounds == 20
    assert set(json.loads(file.read_text())["results"][0]) == RESULT_KEYS


def test_the_table_has_one_line_a_subject(measured: Any) -> None:
    results = [Result("q01.strategy", "ROW"), Result("q01.refresh", 0.25, "s"), at_least("equal", 1, 2)]
    ended, _ = measured(results, "tpch")
    lines = [line.split() for line in ended.stdout.splitlines()]
    assert lines[0] == ["strategy", "refresh", "(s)"]
    assert lines[1] == ["q01", "ROW", "0.25"]
    assert lines[2] == []
    assert lines[4] == ["equal", "1", "≥", "2", "NOT", "OK"]


def test_the_last_run_stands_beside_this_one(measured: Any, tmp_path: Path) -> None:
    last = [Result("dws.a.p50", 0.5, "s"), Result("dws.gone.p50", 9.0, "s"), at_least("equal", 2, 2)]
    Report("tpch", 1, last).write(tmp_path / "figures" / "tpch.json")
    now = [Result("dws.a.p50", 0.25, "s"), Result("dws.b.p50", 0.75, "s"), at_least("equal", 3, 2)]
    ended, _ = measured(now, "tpch")
    lines = [line.split() for line in ended.stdout.splitlines()]
    assert lines[1:4] == [["dws.a", "0.25"], ["last", "run", "0.5"], ["dws.b", "0.75"]]
    assert lines[5:] == [
        ["result", "value", "last", "run", "unit", "bar"],
        ["equal", "3", "2", "≥", "2", "ok"],
    ]
    other_size, _ = measured(now, "tpch", "--rows", "20000")
    assert "last run" not in other_size.stdout


def test_the_command_ends_with_0_where_all_hold(measured: Any) -> None:
    ended, given = measured([at_least("n", 1, 1)], "incremental", "--rows", "20000", "--rounds", "4")
    assert ended.exit_code == 0, ended.output
    assert (given[0].rows, given[0].rounds) == (20_000, 4)


def test_an_unknown_suite_is_named(measured: Any) -> None:
    ended, _ = measured([], "tpc")
    assert ended.exit_code == 2 and "did you mean `tpch`" in ended.stderr
    with pytest.raises(UnknownName):
        runner.find("tpc")


# --- TPC-H

COLUMNS = {
    "region": "r_regionkey r_name r_comment",
    "nation": "n_nationkey n_name n_regionkey n_comment",
    "supplier": "s_suppkey s_name s_address s_nationkey s_phone s_acctbal s_comment",
    "customer": "c_custkey c_name c_address c_nationkey c_phone c_acctbal c_mktsegment c_comment",
    "part": "p_partkey p_name p_mfgr p_brand p_type p_size p_container p_retailprice p_comment",
    "partsupp": "ps_partkey ps_suppkey ps_availqty ps_supplycost ps_comment",
    "orders": "o_orderkey o_custkey o_orderstatus o_totalprice o_orderdate o_orderpriority o_clerk "
    "o_shippriority o_comment",
    "lineitem": "l_orderkey l_partkey l_suppkey l_linenumber l_quantity l_extendedprice l_discount l_tax "
    "l_returnflag l_linestatus l_shipdate l_commitdate l_receiptdate l_shipinstruct l_shipmode l_comment",
}


def test_every_query_loads_and_none_is_refused() -> None:
    project = load_project(runner.project_files("tpch"))
    columns: dict[Any, tuple[str, ...]] = {s: tuple(COLUMNS[s.table].split()) for s in project.sources()}
    columns |= check_columns(project, columns)
    keys: dict[Any, tuple[str, ...]] = {s: KEYS[s.table] for s in project.sources()}
    keys |= {n: keys[s.source] if s.source else s.primary_key for n, s in project.tables.items()}
    for spec in project.tables.values():
        assert not [f for f in lint(spec, keys=keys, columns=columns) if f.level == "error"], spec.name
        analyze(spec, keys, columns)
    named = {t.table for t in project.tables if t.layer == "dws"}
    assert named == {f"q{n:02}" for n in range(1, 23)}
    assert {t.table for t in project.tables if t.layer == "stg"} == set(KEYS)


def tables(seed: int = 0) -> dict[str, pa.Table]:
    """Some rows of every table, each value its row's number where the changes do not look at it."""
    sizes = {"region": 5, "nation": 25, "partsupp": 80, "orders": 60}
    found = {}
    for name, columns in COLUMNS.items():
        size = sizes.get(name, 40)
        rows = {c: list(range(size)) for c in columns.split()}
        if name == "lineitem":
            rows["l_orderkey"], rows["l_linenumber"] = (
                [i // 2 for i in range(size)],
                [1 + i % 2 for i in range(size)],
            )
        found[name] = pa.table(rows)
    return found


def applied(rows: pa.Table, name: str, change: Change) -> pa.Table:
    kept = {tuple(r[c] for c in KEYS[name]): r for r in rows.to_pylist()}
    for key in change.gone:
        kept.pop(key, None)
    kept |= change.put
    listed = [{c: 0 if isinstance(v, str | Decimal) or hasattr(v, "year") else v for c, v in kept[k].items()}
              for k in sorted(kept)]  # fmt: skip
    return pa.Table.from_pylist(listed, schema=rows.schema)


def test_the_same_seed_gives_the_same_changes() -> None:
    first, again, other = (Changes(s).next(tables()) for s in (1, 1, 2))
    assert first == again != other


def test_a_round_inserts_updates_and_deletes_in_every_table_and_keys_return() -> None:
    present, changes, returned = tables(), Changes(5), set()
    deleted: dict[str, set[Any]] = {name: set() for name in KEYS}
    for _ in range(8):
        found = changes.next(present)
        for name, change in found.items():
            held = {tuple(r[c] for c in KEYS[name]) for r in present[name].to_pylist()}
            assert change.put and not set(change.put) & change.gone
            assert all(key == tuple(row[c] for c in KEYS[name]) for key, row in change.put.items())
            assert set(change.put) & held or COUNTS[name].updates == 0
            returned |= {name for key in change.put if key in deleted[name]}
            deleted[name] |= change.gone & held
            present[name] = applied(present[name], name, change)
    assert all(deleted.values())
    assert returned == set(KEYS)


def test_an_order_is_deleted_with_and_without_its_lines() -> None:
    present, ways = tables(), set()
    for seed in range(6):
        found = Changes(seed).next(present)
        for (order,) in found["orders"].gone:
            lines = {(r["l_orderkey"], r["l_linenumber"]) for r in present["lineitem"].to_pylist()}
            own = {k for k in lines if k[0] == order}
            if own:
                ways.add(own <= found["lineitem"].gone)
    assert ways == {True, False}


def test_a_query_that_differed_once_is_not_equal() -> None:
    queries = {f"dws.q{n:02}": Query("ROW", compared=3, equal=3) for n in range(1, 23)}
    assert all(r.holds is not False for r in results_of(queries))
    queries["dws.q05"].equal = 2
    failing = [r.name for r in results_of(queries) if r.holds is False]
    assert failing == ["queries equal to batch after every round"]
    queries["dws.q05"] = Query(problem="refused")
    assert "queries that load" in [r.name for r in results_of(queries) if r.holds is False]


# --- incremental


@pytest.mark.parametrize("hours", [10, 240])
def test_the_mix_covers_all_magnitudes_and_fits_its_hours(hours: int) -> None:
    steps = mix(1, 20, hours)
    shares = sorted(s.share for s in steps)
    assert MIX[0] <= shares[0] < 2 * MIX[0] and MIX[1] / 2 < shares[-1] <= MIX[1]
    assert all(later / earlier < 4 for earlier, later in pairwise(shares))
    assert all(1 <= s.hours <= hours and s.share * hours <= s.hours for s in steps)
    assert {s.hours == hours for s in steps} == {True, False}
    assert steps == mix(1, 20, hours) != mix(2, 20, hours)


@pytest.mark.parametrize(("rows", "hours"), [(10_000, 10), (1_000_000, 20), (10_000_000, 240)])
def test_a_tenth_of_the_history_is_whole_hours(rows: int, hours: int) -> None:
    shape = Orders(rows)
    assert shape.hours == hours and shape.hours % 10 == 0
    assert (shape.label(0), shape.label(25)) == ("2026010100", "2026010201")


def test_an_installed_package_says_where_the_benchmarks_are(
    measured: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.settings.checkout", lambda: None)
    ended, given = measured([at_least("n", 1, 1)], "tpch")
    assert ended.exit_code == 1 and given == []
    assert "in a clone of the repository: `./headrace bench tpch`" in ended.stderr


def test_a_terminated_bench_stops_what_it_started(monkeypatch: pytest.MonkeyPatch) -> None:
    stopped = []

    def run(*_: object) -> None:
        try:
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(10)  # the handler runs at once
        finally:
            stopped.append("its services")

    monkeypatch.setattr(runner, "run", run)
    before = signal.getsignal(signal.SIGTERM)
    assert CliRunner().invoke(app, ["bench", "freshness"]).exit_code != 0
    assert stopped == ["its services"]
    assert signal.getsignal(signal.SIGTERM) == before
