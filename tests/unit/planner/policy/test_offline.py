"""The run mode offline in a layer file, and what its batch writes next: no Spark."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from planner_support import write_table

from headrace.declared import running_project
from headrace.engine.partitions.run_modes import actions
from headrace.errors import SpecError, TerminalError
from headrace.planner.policy.changes import ChangeKind, change_of
from headrace.planner.policy.modes import OFFLINE, refresh_modes
from headrace.planner.policy.offline import MOST, partitions_to_run
from headrace.spec import Project
from headrace.spec.alteration import check_alteration
from headrace.spec.model import RefreshMode, TableName, TableSpec
from headrace.spec.partitions.completion import Completion, RunMode, completion_text

QUERY = "SELECT id, logdate FROM dwd.orders"
MODE = "'run.mode' = 'offline'"
HOUR = "2026112208"


@pytest.fixture
def spec(tmp_path: Path) -> TableSpec:
    return write_table(tmp_path, QUERY, key="id", options=MODE)


# -- the layer file ---------------------------------------------------------------------------------------


def test_a_table_may_be_written_by_the_batch_alone(spec: TableSpec) -> None:
    assert spec.run_mode is RunMode.OFFLINE
    assert completion_text(spec) == (
        "5 MINUTE after its end in UTC, by the upstreams' time; late data opens it again"
    )
    assert RunMode.OFFLINE not in actions(cast("Any", None), cast("Any", None))  # it has a writer of its own


def test_no_stg_table(tmp_path: Path) -> None:
    with pytest.raises(
        SpecError, match=r"no stg table is 'offline'.*\n  hint: set 'run.mode' of a table"
    ) as told:
        write_table(
            tmp_path, "SELECT id, logdate FROM shop.public.orders", key="", name="stg.orders", options=MODE
        )
    assert "orders.sql:3:" in str(told.value)


def test_none_without_partitions_by_time(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"'run\.mode' needs partitions by time") as told:
        write_table(tmp_path, "SELECT id FROM dwd.orders", key="id", partition=None, options=MODE)
    assert "result.sql:2:" in str(told.value)


@pytest.mark.parametrize("mode", ["CONTINUOUS", "FULL"])
def test_none_with_a_refresh_mode(tmp_path: Path, mode: str) -> None:
    freshness = f"INTERVAL '1' DAY REFRESH_MODE = {mode}"
    with pytest.raises(
        SpecError, match=r"REFRESH_MODE has no place .* 'offline'.*\n  hint: remove it"
    ) as told:
        write_table(tmp_path, QUERY, key="id", options=MODE, freshness=freshness)
    assert "result.sql:3:" in str(told.value)


def test_nor_one_by_a_statement(spec: TableSpec) -> None:
    with pytest.raises(
        TerminalError, match=r"its batch writes alone.*Next: edit 'run.mode' in .*result\.sql"
    ):
        check_alteration(spec, "REFRESH_MODE", "CONTINUOUS")
    check_alteration(spec, "REFRESH_MODE", None)
    check_alteration(spec, "FRESHNESS", "INTERVAL '1' HOUR")


# -- modes and changes ------------------------------------------------------------------------------------


def test_it_never_streams_nor_does_what_reads_it_alone(tmp_path: Path) -> None:
    def table(name: str, query: str, options: str = "") -> TableSpec:
        key = "" if name.startswith("stg") else "id"
        return write_table(tmp_path, query, key=key, name=name, options=options)

    specs = [
        table("stg.orders", "SELECT id, logdate FROM shop.public.orders"),
        table("dwd.orders", "SELECT id, logdate FROM stg.orders", MODE),
        table("dws.above", "SELECT id, logdate FROM dwd.orders"),
        table("dws.both", "SELECT o.id, o.logdate FROM dwd.orders o JOIN stg.orders s ON s.id = o.id"),
    ]
    # A statement of before may have set another mode.
    specs[1] = replace(specs[1], refresh_mode=RefreshMode.CONTINUOUS)
    found = refresh_modes(Project(tmp_path, {s.name: s for s in specs}, {}), timedelta(minutes=30))
    assert found[TableName("dwd", "orders")] == (RefreshMode.INCREMENTAL, OFFLINE)
    mode, why = found[TableName("dws", "above")]
    assert mode is RefreshMode.INCREMENTAL and why.endswith("but all that it reads is written by the batch")
    assert found[TableName("dws", "both")][0] is RefreshMode.CONTINUOUS


def test_becoming_offline_touches_no_row_and_ceasing_to_be_gives_it_the_others(tmp_path: Path) -> None:
    streams = write_table(tmp_path, QUERY, key="id")
    spec = write_table(tmp_path, QUERY, key="id", options=MODE)
    project = Project(tmp_path, {streams.name: streams}, {})
    there, back = change_of(streams, spec, project), change_of(spec, streams, project)
    assert there is not None and (there.kind, there.what) == (ChangeKind.PROPERTIES, ("WITH",))
    assert back is not None and (back.kind, back.what) == (ChangeKind.RECOMPUTED, ("WITH",))
    same = replace(spec, comment="another")
    told = change_of(spec, same, project)
    assert told is not None and told.kind is ChangeKind.PROPERTIES


def test_a_start_does_not_let_it_stream_before_it_is_applied(tmp_path: Path) -> None:
    source = write_table(tmp_path, "SELECT id, logdate FROM shop.public.orders", key="", name="stg.orders")
    query = "SELECT id, logdate FROM stg.orders"
    streams = write_table(tmp_path, query, key="id")
    spec = write_table(tmp_path, query, key="id", options=MODE)
    (tmp_path / "deploy" / "connectors").mkdir(parents=True)
    connector = SimpleNamespace(name="shop", captures=lambda schema, table: True)
    files = Project(tmp_path, {t.name: t for t in (source, streams)}, {"shop": cast("Any", connector)})
    running, waits = running_project(files, {t.name: t for t in (source, spec)})
    assert waits and running.tables[spec.name].run_mode is RunMode.OFFLINE
    files = Project(tmp_path, {t.name: t for t in (source, spec)}, {})
    running, waits = running_project(files, {t.name: t for t in (source, streams)})
    assert not waits and running.tables[spec.name].run_mode is RunMode.OFFLINE


# -- what it writes next ----------------------------------------------------------------------------------


def test_what_is_new_is_written_and_what_changed_late(spec: TableSpec) -> None:
    found = partitions_to_run(spec, HOUR, "2026112210", {"2026112207", "2026112211", None, "once", HOUR})
    assert found == {"2026112207", HOUR, "2026112209", "2026112210"}
    assert partitions_to_run(spec, HOUR, HOUR, {"2026112209"}) == frozenset()
    assert partitions_to_run(spec, HOUR, HOUR, ()) == frozenset()


def test_all_of_it_at_first_and_where_nobody_knows_what_changed(spec: TableSpec) -> None:
    assert partitions_to_run(spec, "", HOUR, ()) is None
    assert partitions_to_run(spec, HOUR, HOUR, None) is None


def test_so_many_are_all_of_it(spec: TableSpec) -> None:
    minutes = replace(spec, partition_format="yyyyMMddHHmm", completion=Completion(run_mode=RunMode.OFFLINE))
    found = partitions_to_run(minutes, "202611220000", "202611221640", ())
    assert found is not None and len(found) == MOST
    assert partitions_to_run(minutes, "202611220000", "202611221641", ()) is None
    assert partitions_to_run(minutes, "197001010000", "202611221641", ()) is None
