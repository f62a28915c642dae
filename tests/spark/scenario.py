"""Scenarios: a few tables, and steps that change their sources, with what must hold after each step.

The files of `tests/scenarios` are scenarios with expected rows; the property test makes scenarios at random
and prints a failing one in the same form.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import yaml
from harness import HOURS, Captured, Harness, Row, Source, partitioned_by

from headrace.engine.compaction.compaction import compact
from headrace.sources.stream.envelope import Event

PARTITIONS = 3
"""Of each source table's topic."""


@dataclass(frozen=True)
class Declared:
    """A derived table: its query, primary key, the column it is partitioned by and its labels' format."""

    sql: str
    key: tuple[str, ...]
    partition: str | None = None
    labels: str = HOURS

    def layer(self, name: str) -> str:
        clause = partitioned_by(self.partition, self.labels) if self.partition else ""
        return (
            f"CREATE MATERIALIZED TABLE {name} (PRIMARY KEY ({', '.join(self.key)})) {clause} "
            f"FRESHNESS = INTERVAL '10' SECOND AS {self.sql}"
        )


@dataclass(frozen=True)
class Step:
    """What happens, in this order; all of `changes` are committed by the source at once.

    A source table's topic has `PARTITIONS` partitions. What a micro-batch does not take waits for the next.

    Args:
        repeat: as many of the latest events are sent again, before those of `changes`, as by a restarted
            connector.
        changes: `("put", source table, values in column order)` or `("delete", source table, key)`, in order.
        feed: source tables whose waiting events reach the warehouse in this micro-batch; None for all.
        late: partitions of which nothing reaches it.
        most: as many events of each partition reach it, at most; None for all.
        reread: the events of the micro-batch before are read again, at the same offsets.
        shuffle: seeds the order in which events of different partitions are read; None for as they were sent.
        advance: how many derived tables follow, upstreams first; None for all. Those left out lag behind.
        fails: the derived table whose refresh must fail, and the name of the error class.
        compact: tables whose tail is folded into the snapshot.
        backfill: `(table, first label, last label)`; without labels the whole table. All tables follow.
        reopen: the warehouse server is restarted.
        expect: the rows that tables must hold in the end.
    """

    changes: tuple[tuple[str, str, tuple[Any, ...]], ...] = ()
    repeat: int = 0
    feed: tuple[str, ...] | None = None
    late: tuple[int, ...] = ()
    most: int | None = None
    reread: bool = False
    shuffle: int | None = None
    advance: int | None = None
    fails: tuple[str, str] | None = None
    compact: tuple[str, ...] = ()
    backfill: tuple[str, str | None, str | None] | None = None
    reopen: bool = False
    expect: Mapping[str, tuple[tuple[Any, ...], ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class Scenario:
    """Sources, derived tables (upstreams first) and steps.

    Args:
        known: why this is known to fail at present, or None.
    """

    sources: Mapping[str, Captured]
    tables: Mapping[str, Declared]
    steps: tuple[Step, ...]
    about: str = ""
    known: str | None = None

    def source(self) -> Source:
        """The source before the first step."""
        return Source(self.sources, PARTITIONS)

    def layers(self) -> dict[str, str]:
        return {name.replace(".", "/"): table.layer(name) for name, table in self.tables.items()}

    def text(self) -> str:
        """The scenario as a file of `tests/scenarios`."""
        return yaml.safe_dump(
            {
                "about": self.about,
                "sources": {n: _plain(c) for n, c in self.sources.items()},
                "tables": {n: _plain(t) for n, t in self.tables.items()},
                "steps": [_plain_step(s) for s in self.steps],
            },
            sort_keys=False,
            width=110,
            default_flow_style=None,
        )


def _plain(declared: Captured | Declared) -> dict[str, Any]:
    found = {f.name: getattr(declared, f.name) for f in fields(declared)}
    if isinstance(declared, Captured):
        found["columns"] = dict(declared.columns)
    return {n: list(v) if isinstance(v, tuple) else v for n, v in found.items() if v is not None}


def _plain_step(step: Step) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if step.changes:
        found["changes"] = [{kind: {table: list(values)}} for kind, table, values in step.changes]
    for f in fields(Step):
        value = getattr(step, f.name)
        if f.name not in ("changes", "expect") and value != f.default:
            found[f.name] = list(value) if isinstance(value, tuple) else value
    if step.expect:
        found["expect"] = {t: [list(r) for r in rows] for t, rows in step.expect.items()}
    return found


def load(path: Path) -> Scenario:
    """Read a scenario file. Names that no scenario has are an error."""
    read = yaml.safe_load(path.read_text())
    _known(read, {"about", "known", "sources", "tables", "steps"}, path)
    sources = {
        name: Captured(
            tuple(s["columns"].items()), tuple(s["key"]), s.get("partition"), s.get("labels", HOURS)
        )
        for name, s in read["sources"].items()
    }
    tables = {
        name: Declared(t["sql"].strip(), tuple(t["key"]), t.get("partition"), t.get("labels", HOURS))
        for name, t in read["tables"].items()
    }
    steps = tuple(_step(s, path) for s in read["steps"])
    return Scenario(sources, tables, steps, read["about"].strip(), read.get("known"))


def _known(read: Mapping[str, Any], names: set[str], path: Path) -> None:
    if unknown := set(read) - names:
        raise ValueError(f"{path}: unknown {sorted(unknown)}; a scenario has {sorted(names)}")


def _step(read: dict[str, Any], path: Path) -> Step:
    _known(read, {f.name for f in fields(Step)}, path)
    changes = []
    for change in read.get("changes", ()):
        ((kind, target),) = change.items()
        ((table, values),) = target.items()
        if kind not in ("put", "delete"):
            raise ValueError(f"{path}: a change is `put` or `delete`, not `{kind}`")
        changes.append((kind, table, tuple(values)))
    backfill = read.get("backfill")
    return Step(
        changes=tuple(changes),
        repeat=read.get("repeat", 0),
        feed=tuple(read["feed"]) if read.get("feed") is not None else None,
        late=tuple(read.get("late", ())),
        most=read.get("most"),
        reread=bool(read.get("reread")),
        shuffle=read.get("shuffle"),
        advance=read.get("advance"),
        fails=tuple(read["fails"]) if read.get("fails") else None,
        compact=tuple(read.get("compact", ())),
        backfill=(backfill[0], *(backfill[1:] or (None, None))) if backfill else None,
        reopen=bool(read.get("reopen")),
        expect={t: tuple(map(tuple, rows)) for t, rows in (read.get("expect") or {}).items()},
    )


class Play:
    """A scenario being played on a warehouse."""

    def __init__(self, warehouse: Harness, scenario: Scenario) -> None:
        self.warehouse = warehouse
        self.scenario = scenario
        self.lagging = False
        """Whether some table stands behind its source."""
        self._read: list[Event] = []
        """The last micro-batch."""

    def run(self, step: Step) -> None:
        """Do what the step says; its expectations are the caller's."""
        warehouse = self.warehouse
        warehouse.source.repeat(step.repeat)
        for kind, table, values in step.changes:
            self._change(kind, table, values)
        self._feed(step)
        if step.fails is None:
            self._advance(step.advance)
        for name in step.compact:
            compact(warehouse.sessions.batch, warehouse.table(name), run_id="test")
        if step.backfill is not None:
            warehouse.backfill(*step.backfill)
            self._advance(None)
        if step.reopen:
            warehouse.open()

    def _change(self, kind: str, table: str, values: tuple[Any, ...]) -> None:
        source = self.warehouse.source
        captured = self.scenario.sources[table]
        if kind == "delete":
            key = values if len(captured.key) > 1 else values[0]
            if key in source.rows[table]:  # a shortened scenario may have lost the row
                source.delete(table, key)
        else:
            row: Row = dict(zip([n for n, _ in captured.columns], values, strict=True))
            source.put(table, **row)

    def _feed(self, step: Step) -> None:
        waiting, now = _by_partition(self.warehouse.source.take()), []
        for place, events in waiting.items():
            topic, partition = place
            if (step.feed is None or topic.rsplit(".", 1)[1] in step.feed) and partition not in step.late:
                now += events[: step.most]
                waiting[place] = events[len(events[: step.most]) :]
        left = [e for events in waiting.values() for e in events]
        self.warehouse.source.events = left
        read = [*self._read, *now] if step.reread else now
        self._read = now
        self.known = self.warehouse.feed(read if step.shuffle is None else _shuffled(read, step.shuffle))
        self.lagging = bool(left)

    def _advance(self, count: int | None) -> None:
        self.warehouse.advance(self.known, tables=count)
        self.known = {}
        self.lagging = self.lagging or count is not None


def _by_partition(events: Iterable[Event]) -> dict[tuple[str, int], list[Event]]:
    found: dict[tuple[str, int], list[Event]] = defaultdict(list)
    for event in events:
        found[event.topic, event.partition].append(event)
    return found


def _shuffled(events: Sequence[Event], seed: int) -> list[Event]:
    """The events in another order; those of a partition keep theirs."""
    chance, partitions = Random(seed), _by_partition(events)
    places = [(e.topic, e.partition) for e in events]
    chance.shuffle(places)
    queues = {place: iter(own) for place, own in partitions.items()}
    return [next(queues[place]) for place in places]


def typed(warehouse: Harness, name: str, rows: tuple[tuple[Any, ...], ...]) -> list[tuple[Any, ...]]:
    """Rows of a scenario file as values of the table's column types."""
    kinds = [kind for _, kind in warehouse.table(name).store.schema.columns]
    for row in rows:
        assert len(row) == len(kinds), f"{name} has {len(kinds)} columns, expected row {row}"
    return [tuple(_typed(v, k) for v, k in zip(row, kinds, strict=True)) for row in rows]


def _typed(value: Any, kind: str) -> Any:
    if value is None:
        return None
    if kind.startswith("decimal"):
        return Decimal(str(value))
    if isinstance(value, str) and kind == "date":
        return date.fromisoformat(value)
    return datetime.fromisoformat(value) if kind.startswith("timestamp") else value


def scenario_files() -> Iterator[Path]:
    yield from sorted((Path(__file__).parents[1] / "scenarios").glob("*.yml"))
