"""What `APPLY` does to each table, by what runs and what is declared."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from planner_support import write_table

from headrace.planner.policy.apply import ApplyStep, RunningTable, Shape, WantedTable, plan_apply
from headrace.spec.model import TableName, TableSpec
from headrace.spec.table import load_table

UPPER, LOWER = TableName("dwd", "upper"), TableName("dws", "lower")
QUERY = "SELECT order_id, logdate FROM {} WHERE logdate BETWEEN ${{start_date}} AND ${{end_date}}"
ID, DATE, MORE = ("order_id", "bigint"), ("logdate", "string"), ("more", "string")
KEY: tuple[tuple[str, ...], None] = (("order_id",), None)
SHAPE: Shape = ((ID, DATE), *KEY)
OTHER: Shape = ((DATE, ID), *KEY)
WIDER: Shape = ((ID, MORE, DATE), *KEY)


@dataclass
class Files:
    tables: dict[TableName, TableSpec]

    def downstream(self, name: TableName) -> tuple[TableName, ...]:
        return tuple(n for n, s in self.tables.items() if name in s.upstreams)


@dataclass
class World:
    """Two tables, the second reads the first, that run as they are declared."""

    files: Files
    running: dict[TableName, RunningTable]
    wanted: dict[TableName, WantedTable]

    def plan(self) -> list[str]:
        return [str(step) for step in self.steps()]

    def steps(self, deployed: dict[TableName, TableSpec] | None = None) -> tuple[ApplyStep, ...]:
        if deployed is None:
            deployed = {name: table.spec for name, table in self.running.items()}
        return plan_apply(self.running, list(self.wanted.values()), deployed, self.files)

    def edit(self, name: TableName, shape: Shape = SHAPE) -> None:
        self.wanted[name] = replace(self.wanted[name], template="new", shape=shape)


@pytest.fixture
def world(tmp_path: Path) -> World:
    reads = {UPPER: "stg.orders", LOWER: "dwd.upper"}
    specs = {n: write_table(tmp_path, QUERY.format(r), key="order_id", name=str(n)) for n, r in reads.items()}
    return World(
        Files(specs),
        {n: RunningTable(spec, "old", "old", SHAPE) for n, spec in specs.items()},
        {n: WantedTable(n, "old", SHAPE) for n in specs},
    )


def test_what_runs_as_declared_needs_nothing(world: World) -> None:
    assert world.plan() == []


def test_other_rows_of_the_same_columns_leave_the_readers_alone(world: World) -> None:
    world.edit(UPPER)
    assert world.plan() == ["dwd.upper: LOGIC (columns); read by dws.lower"]


def test_other_columns_make_the_readers_begin_with_them(world: World) -> None:
    world.edit(UPPER, OTHER)
    assert world.plan() == [
        "dwd.upper: LOGIC (columns), begins again; read by dws.lower",
        "dws.lower: RECOMPUTED (dwd.upper begins again)",
    ]


def test_more_columns_come_in_place(world: World) -> None:
    world.edit(UPPER, WIDER)
    assert world.plan() == ["dwd.upper: LOGIC (columns); read by dws.lower"]
    assert [(s.renews, s.extended) for s in world.steps()] == [(True, True)]
    for other in (
        ((ID, MORE), *KEY),
        ((ID, ("logdate", "date"), MORE), *KEY),
        (WIDER[0], ("logdate",), None),
    ):
        world.edit(UPPER, other)
        assert "begins again" in world.plan()[0]


def test_a_stg_table_without_a_key_waits_and_is_read_once_it_has_one(tmp_path: Path) -> None:
    name = TableName("stg", "orders")
    (file := tmp_path / "layers" / "stg" / "orders.sql").parent.mkdir(parents=True)
    file.write_text(
        "CREATE MATERIALIZED TABLE stg.orders FRESHNESS = DOWNSTREAM\nAS SELECT * FROM a.b.orders\n"
    )
    spec = load_table(file)
    halted = WantedTable(name, "old", SHAPE, joins=True, lacks=True)
    world = World(Files({name: spec}), {}, {name: halted})
    [added] = world.steps()
    assert not added.renews
    world.running[name] = RunningTable(spec, "old", "old", SHAPE, has_rows=False, lacks=True)
    assert world.plan() == []
    world.wanted[name] = WantedTable(name, "new", SHAPE)
    [step] = world.steps()
    assert step.renews and step.joins and "its source has a key" in str(step)


def test_columns_that_came_in_vain_go_again(world: World) -> None:
    """Their apply failed after they had come."""
    world.running[UPPER] = replace(world.running[UPPER], template="new", shape=WIDER)
    assert "dwd.upper: LOGIC (columns), begins again" in world.plan()[0]


def test_rows_of_a_text_that_was_never_done_have_a_shape_that_nobody_knows(world: World) -> None:
    world.edit(UPPER)
    for unknown in (
        replace(world.running[UPPER], made_by="older"),
        replace(world.running[UPPER], readable=False),
    ):
        world.running[UPPER] = unknown
        assert "begins again" in world.plan()[0]


@pytest.mark.parametrize("has_rows", [True, False])
def test_files_that_a_stopped_server_has_left_behind_are_made_anew(world: World, has_rows: bool) -> None:
    """It noted the source's new columns, and was killed before the files had them."""
    world.running[UPPER] = replace(world.running[UPPER], readable=False, has_rows=has_rows)
    assert "dwd.upper: LOGIC (columns), begins again" in world.plan()[0]


def test_a_table_without_rows_has_the_columns_that_it_was_made_with(world: World) -> None:
    world.running[UPPER] = replace(world.running[UPPER], has_rows=False)
    for shape in (OTHER, WIDER):
        world.edit(UPPER, shape)
        assert "dwd.upper: LOGIC (columns), begins again" in world.plan()[0]


def test_what_goes_comes_first_and_what_its_files_left_is_not_gone_on_from(world: World) -> None:
    del world.running[UPPER], world.wanted[LOWER]
    world.wanted[UPPER] = replace(world.wanted[UPPER], left_behind=True)
    assert world.plan() == ["dws.lower: REMOVED", "dwd.upper: ADDED, begins again"]
    world.wanted[UPPER] = replace(world.wanted[UPPER], left_behind=False)
    assert world.plan() == ["dws.lower: REMOVED", "dwd.upper: ADDED"]


def test_the_rows_of_a_table_that_joins_a_source_are_read_there(world: World) -> None:
    del world.running[UPPER]
    world.wanted[UPPER] = replace(world.wanted[UPPER], joins=True)
    [step] = [s for s in world.steps() if s.change.table == UPPER]
    assert (step.renews, step.reshaped) == (True, False)
    world.wanted[UPPER] = replace(world.wanted[UPPER], joins=False)
    [step] = [s for s in world.steps() if s.change.table == UPPER]
    assert not step.renews


def test_a_table_that_is_to_stream_gets_the_partitions_that_the_batch_has_not_written(world: World) -> None:
    world.running[LOWER] = replace(world.running[LOWER], complete_through="2024010104")
    assert world.plan() == ["dws.lower: RECOMPUTED (it lacks partitions)"]
    world.wanted[LOWER] = replace(world.wanted[LOWER], offline=True)
    assert world.plan() == []


def test_a_table_whose_source_has_other_columns_is_read_again(world: World) -> None:
    world.wanted[UPPER] = replace(world.wanted[UPPER], columns="now")
    assert world.plan() == ["dwd.upper: RECOMPUTED (its source has other columns); read by dws.lower"]
    [step] = world.steps()
    assert step.renews and not step.reshaped
    world.running[UPPER] = replace(world.running[UPPER], has_rows=False)
    assert world.plan() == []


def test_a_table_that_names_a_dropped_column_keeps_its_rows(world: World) -> None:
    world.edit(LOWER, OTHER)
    world.wanted[LOWER] = replace(world.wanted[LOWER], columns="now", lacks=True)
    assert world.plan() == []
    world.wanted[LOWER] = replace(world.wanted[LOWER], template="old", shape=SHAPE, lacks=False)
    world.running[LOWER] = replace(world.running[LOWER], lacks=True)
    assert world.plan() == ["dws.lower: RECOMPUTED (its source has the column again)"]
