"""Long tails folded by the driver: the rows that the changes, one after the other, lead to."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pytest
from stored_support import no_jvm as no_jvm

from headrace.engine.compaction.compaction import compact
from headrace.engine.table.limits import Limits
from headrace.engine.table.table import Table
from headrace.spec.model import TableName
from headrace.store.record.commits import Commit
from headrace.store.schema import DELETE, INSERT, KIND, UPDATE_AFTER, UPDATE_BEFORE, TableSchema, arrow_schema
from headrace.store.tables import StoredTable

pytestmark = pytest.mark.usefixtures("no_jvm")

HOURS = [f"h{i}" for i in range(10)]
Row = tuple[int | None, str, int, str]
"""Key of a number that may be NULL and a word, a value, an hour."""


class Model:
    """A table and the rows that it should hold."""

    def __init__(self, root: Path, partition: str | None) -> None:
        columns = (("id", "bigint"), ("word", "string"), ("value", "bigint"), ("hour", "string"))
        self.store = StoredTable(TableName("dwd", "t"), root, TableSchema(columns, ("id", "word"), partition))
        self.store.create("template")
        self.store.open()
        self.rows: dict[tuple[int | None, str], Row] = {}
        self.table = cast(
            "Table",
            SimpleNamespace(store=self.store, name=self.store.name, template="template", limits=Limits()),
        )

    def change(self, chance: random.Random, hours: list[str], *, large: bool) -> None:
        """One version with changes of some keys, in these hours."""
        found: list[tuple[Any, ...]] = []
        for _ in range(chance.randint(1, 12)):
            key = (chance.choice([None, 1, 2, 3, 4, 5]), chance.choice("abc"))
            if any(row[:2] == key for row in found):
                continue
            was = self.rows.get(key)
            if was is not None and was[3] not in hours:
                continue
            new = (*key, chance.randrange(100), chance.choice(hours)) if chance.random() < 0.7 else None
            if was is not None:
                found.append((*was, UPDATE_BEFORE if new else DELETE))
            if new is not None:
                found.append((*new, UPDATE_AFTER if was else INSERT))
                self.rows[key] = new
            else:
                self.rows.pop(key, None)
        fields = [*arrow_schema(self.store.schema.columns), pa.field(KIND, pa.string())]
        columns = list(zip(*found, strict=True)) or [()] * len(fields)
        arrays = [pa.array(c, f.type) for c, f in zip(columns, fields, strict=True)]
        changes = pa.Table.from_arrays(arrays, schema=pa.schema(fields))
        commit = Commit("dwd.t", "stream", self.store.version + 1)
        if large:
            kinds = Counter(changes.column(KIND).to_pylist())
            self.store.append_large(changes, commit, origin="stream", kinds=kinds)
        else:
            self.store.append(changes, commit, origin="stream")

    def compacted(self) -> None:
        assert compact(cast("Any", None), self.table, run_id="test")
        assert not self.store.cold and self.store.pin.compacted == self.store.version

    def check(self) -> None:
        """In memory, and as a restarted server finds the files."""
        for _ in range(2):
            held = self.store.head().read()
            columns = (held.column(c).to_pylist() for c in ("id", "word", "value", "hour"))
            assert sorted(zip(*columns, strict=True), key=repr) == sorted(self.rows.values(), key=repr)
            assert self.store.commit.rows == len(self.rows)
            self.store.open()


@pytest.mark.parametrize("partition", ["hour", None])
@pytest.mark.parametrize("seed", range(4))
def test_several_long_versions(tmp_path: Path, partition: str | None, seed: int) -> None:
    chance = random.Random(seed)
    model = Model(tmp_path, partition)
    for _ in range(4):
        hours = chance.sample(HOURS, chance.choice((2, 10)))
        for _ in range(chance.randint(0, 2)):
            model.change(chance, hours, large=False)
        for _ in range(chance.randint(1, 3)):
            model.change(chance, hours, large=True)
        model.compacted()
        model.check()


def test_partitions_without_a_change_keep_their_files(tmp_path: Path) -> None:
    model, chance = Model(tmp_path, "hour"), random.Random(1)
    for hour in HOURS:
        model.change(chance, [hour], large=True)
        model.compacted()
    held = {h: model.store.head_index().paths.get(h) for h in HOURS}
    model.change(random.Random(3), ["h3"], large=True)
    model.compacted()
    model.check()
    now = {h: model.store.head_index().paths.get(h) for h in HOURS}
    assert [h for h in HOURS if now[h] != held[h]] == ["h3"]


class SparkAsked(Exception):
    """As far as there is something to see without a JVM."""


class Session:
    """Records what Spark is asked to read, each by folder and version, up to the changes of a tail."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, int | None]] = []
        self.at: int | None = None

    @property
    def read(self) -> Session:
        self.at = None
        return self

    def format(self, name: str) -> Session:
        assert name == "delta"
        return self

    def option(self, name: str, value: int) -> Session:
        assert name == "versionAsOf"
        self.at = value
        return self

    def load(self, path: str) -> Session:
        self.asked.append((Path(path).name, self.at))
        if Path(path).name == "changelog":
            raise SparkAsked
        return self

    @property
    def columns(self) -> list[str]:
        return ["id", "word", "value", "hour"]

    def select(self, *columns: str) -> Session:
        return self


@pytest.mark.parametrize("name", ["changes", "versions", "rows"])
def test_more_than_the_driver_holds_is_left_to_spark(tmp_path: Path, name: str) -> None:
    chance = random.Random(1)
    model = Model(tmp_path, "hour")
    for _ in range(2):
        model.change(chance, HOURS, large=True)
    store, session = model.store, Session()
    held = {"changes": store.changelog.count(0, 2), "versions": 2, "rows": len(model.rows)}
    model.table.limits = replace(Limits(), **{name: held[name] - 1})
    snapshot = store.pin.delta
    with pytest.raises(SparkAsked):
        compact(cast("Any", session), model.table, run_id="test")
    assert session.asked == [("snapshot", snapshot), ("changelog", None)]
    assert store.cold and store.pin.compacted == 0

    model.table.limits = replace(Limits(), **{name: held[name]})
    model.compacted()
    model.check()
