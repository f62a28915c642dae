"""Erase: of a row that its source has deleted nothing is left in any file, and all goes on as before."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from deltalake import DeltaTable
from harness import Harness
from orders_chain import HOURS, LAYERS

from headrace.engine.compaction.compaction import compact
from headrace.engine.statements import erase as module
from headrace.engine.statements.erase import Erase
from headrace.engine.table.table import Table
from headrace.errors import NeedsResync, TerminalError
from headrace.progress import Progress
from headrace.results import EraseResult
from headrace.sources.stream.dead_letters import DeadLetter
from headrace.sources.stream.envelope import Event
from headrace.sources.stream.formats import Formats
from headrace.store.record.frontier import Offsets

TABLES = ("dwd/cities", "dws/by_city")
HOUR, TOPIC = HOURS[0], "shop.public.users"
MARK = "Qwxyzburg"
USERS, CITIES, BY_CITY = "stg.users", "dwd.cities", "dws.by_city"


@dataclass
class Shop:
    """A warehouse whose topics are what its source ever said."""

    warehouse: Harness
    said: list[Event] = field(default_factory=list)
    readers: list[Any] = field(default_factory=list)
    first: int = 0

    def step(self) -> None:
        events = self.warehouse.source.take()
        self.said += events
        self.warehouse.advance(self.warehouse.feed(events))

    def compact(self) -> None:
        for table in self.warehouse.registry:
            compact(self.warehouse.sessions.batch, table, run_id="test")

    def keys(self, topic: str) -> Iterator[tuple[int, int, bytes]]:
        for event in self.said:
            if event.topic == topic and event.offset >= self.first and event.key is not None:
                yield event.partition, event.offset, event.key.encode()

    def forget(self, cut: Offsets) -> None:
        self.first = cut[TOPIC][0]

    def captured(self, table: Table, key: Sequence[Any]) -> int:
        return int(key[0] in self.warehouse.source.rows["users"])

    def erase(
        self, *key: tuple[str | None, str], table: str = USERS, history: bool = False, dry_run: bool = False
    ) -> EraseResult:
        work = Erase(
            self.warehouse.sessions,
            self.warehouse.registry,
            cast(Any, SimpleNamespace(all=lambda table: [r for r in self.readers if r.table == table])),
            self.warehouse.dead_letters,
            Formats.of(None),
            self.keys,
            self.forget,
            self.captured,
            lambda table: True,
            lambda table: None,
            nullcontext,
            lambda table: None,
            "test",
        )
        return work.run(
            self.warehouse.table(table),
            key or ((None, "7"),),
            history=history,
            dry_run=dry_run,
            progress=Progress(),
        )

    def files_with(self, text: str) -> list[str]:
        """Files of the warehouse that have a text in them: Parquet is read, the rest as it is."""
        root = self.warehouse.root / "warehouse"
        return sorted(str(p.relative_to(root)) for p in root.rglob("*") if p.is_file() and _has(p, text))


def _has(path: Path, text: str) -> bool:
    if text.encode() in path.read_bytes():
        return True
    if path.suffix != ".parquet":
        return False
    import pyarrow.parquet as pq

    return text in str(pq.read_table(path, partitioning=None).to_pylist())


def state(shop: Shop) -> dict[str, list[tuple[Any, ...]]]:
    return {str(t.name): shop.warehouse.rows(str(t.name)) for t in shop.warehouse.registry}


@pytest.fixture
def shop(harness: Callable[..., Harness]) -> Shop:
    """User 7 of a city of its own came, was changed and went, across several snapshots."""
    made = Shop(harness({name: LAYERS[name] for name in TABLES}))
    source = made.warehouse.source
    source.put("users", user_id=6, city="Bonn")
    source.put("users", user_id=7, city=MARK)
    for order in (1, 2, 3):
        source.put("orders", order_id=order, user_id=6 + order % 2, amount="1.00", hour=HOUR)
    made.step()
    made.compact()
    source.put("users", user_id=7, city=f"{MARK} am Rhein")
    made.step()
    made.compact()
    source.put("users", user_id=8, city="Ulm")
    source.delete("users", 7)
    made.step()
    letter = DeadLetter(USERS, TOPIC, 0, 900, json.dumps({"user_id": 7}).encode(), MARK.encode(), "broken")
    other = replace(letter, offset=901, key=json.dumps({"user_id": 8}).encode(), value=b"{")
    made.warehouse.dead_letters.add([letter, other])
    return made


@pytest.mark.long
def test_nothing_of_a_deleted_row_is_left_and_all_goes_on(shop: Shop) -> None:
    warehouse, before = shop.warehouse, state(shop)
    assert shop.files_with(MARK)
    dry = shop.erase(dry_run=True)
    found = {(p.table, p.place): p.found for p in dry.places}
    assert found[USERS, "changelog"] == 4  # +I, -U, +U, -D
    assert found[USERS, "snapshot"] == 2
    assert found[CITIES, "changelog"] > 0
    assert found[USERS, "dead letters"] == 1
    assert found[USERS, "topic"] >= 3
    assert [place.left for place in dry.places] == [place.found for place in dry.places]
    assert (dry.in_source, "--history" in dry.notes[0]) == (0, True)
    assert state(shop) == before

    result = shop.erase(history=True)
    assert result.complete
    left = {(p.table, p.place): p.left for p in result.places if p.left}
    assert left == {(USERS, "tombstones"): 1}
    assert {p.table for p in result.places} == {USERS, CITIES, BY_CITY}
    assert shop.files_with(MARK) == []
    assert state(shop) == before
    assert [row["offset"] for row in warehouse.dead_letters.open_rows(USERS)] == [901]
    assert all(p.found == p.left for p in shop.erase().places)

    warehouse.open()
    assert state(shop) == before
    late = [event for event in shop.said if event.topic == TOPIC and event.key == '{"user_id": 7}']
    assert late
    events = [event._replace(offset=event.offset + 1_000) for event in late if event.op != "d"]
    warehouse.advance(warehouse.feed(events))  # nothing older brings it back
    assert state(shop) == before
    warehouse.source.put("users", user_id=7, city="Köln")
    warehouse.source.put("users", user_id=6, city="Trier")
    shop.said += (taken := warehouse.source.take())
    warehouse.advance(warehouse.feed([e._replace(offset=e.offset + 2_000) for e in taken]))
    assert (7, "Köln") in warehouse.rows(USERS)
    warehouse.assert_parity(proof=True)
    shop.compact()
    warehouse.open()
    warehouse.assert_parity(proof=True)
    with pytest.raises(NeedsResync):
        warehouse.table(BY_CITY).store.changelog.read(0, 1)


@pytest.mark.long
@pytest.mark.parametrize("point", ["erase.after_changes", "erase.after_files", "erase.after_dead_letters"])
def test_killed_in_the_middle_the_same_again_does_the_rest(
    shop: Shop, point: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    warehouse, before = shop.warehouse, state(shop)

    def killed(name: str) -> None:
        if name == point:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(module, "failpoint", killed)
        with pytest.raises(KeyboardInterrupt):
            shop.erase(history=True)
    warehouse.open()
    assert state(shop) == before
    warehouse.assert_parity(proof=True)
    assert shop.erase(history=True).complete
    assert shop.files_with(MARK) == []
    assert state(shop) == before


@pytest.mark.long
def test_it_is_refused_where_it_would_not_last_or_somebody_needs_what_goes(shop: Shop) -> None:
    warehouse = shop.warehouse
    files = shop.files_with(MARK)
    with pytest.raises(TerminalError, match=r"still has the row, which would come back. Next: DELETE FROM"):
        shop.erase((None, "6"))
    with pytest.raises(TerminalError, match=r"is computed from its upstreams"):
        shop.erase((None, "7"), table=CITIES)
    with pytest.raises(TerminalError, match=r"`seven` is no bigint, as `stg.users`.`user_id` is"):
        shop.erase((None, "seven"))
    shop.readers = [SimpleNamespace(table=USERS, name="crm", position=1, expired=False)]
    with pytest.raises(TerminalError, match=r"reader `crm` of `stg.users` has read up to version 1"):
        shop.erase()
    shop.readers = []
    warehouse.source.put("orders", order_id=9, user_id=8, amount="1.00", hour=HOUR)
    warehouse.source.put("users", user_id=9, city="Hof")
    shop.said += (events := warehouse.source.take())
    warehouse.feed(events)
    with pytest.raises(TerminalError, match=r"`dwd.cities` has read `stg.users` up to version 3, and"):
        shop.erase()
    assert set(files) <= set(shop.files_with(MARK))
    assert DeltaTable(str(warehouse.table(USERS).store.snapshot.path)).version() > 0
    warehouse.advance()
    assert shop.erase(("user_id", "7")).complete
