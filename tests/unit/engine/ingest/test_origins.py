"""What is noticed of topics, servers and slots that were put in another's place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from headrace.engine.ingest import origins as module
from headrace.engine.ingest.origins import Origins
from headrace.engine.table.run import TableRun
from headrace.errors import TerminalError
from headrace.sources.origin import Server
from headrace.sources.stream.envelope import sequence
from headrace.spec.model import SourceTable
from headrace.store.record.commits import Commit


@dataclass
class World:
    """One source with two tables, which have rows up to log position 500."""

    origins: Origins
    server: Server | None = field(default_factory=lambda: Server("7301", 1, 900, None))
    topics: dict[str, str] = field(default_factory=lambda: {"shop.public.a": "ida", "shop.public.b": "idb"})
    renewed: list[list[str]] = field(default_factory=list)

    def look(self, *tables: Any) -> dict[Any, str]:
        return self.origins.look(list(tables))


def table(name: str, *, version: int = 3, high: int = 500) -> Any:
    source = SourceTable("shop", "public", name)
    commit = Commit(f"stg.{name}", "stream", version, high=sequence(0, high))
    return SimpleNamespace(
        name=name,
        topic=source.topic,
        source=SimpleNamespace(table=source, digest="as before"),
        store=SimpleNamespace(version=version, commit=commit),
        run=TableRun(),
    )


def committed(found: Any) -> None:
    """It commits, and its server is started anew."""
    commit = found.store.commit
    found.store.commit = commit.next("stream", "r", origin=found.run.origin_after(commit))
    found.run = TableRun()


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> World:
    connector = SimpleNamespace(name="shop", publication="p", config={"slot.name": "s"})
    made = World(
        Origins(
            cast("Any", SimpleNamespace(ids=lambda names: {n: made.topics[n] for n in names})),
            lambda source: "dsn",
            lambda source: cast("Any", connector),
            "http://127.0.0.1:1",
            tmp_path,
        )
    )

    def restream(of: Any, tables: list[SourceTable], client: Any, note: Callable[[int], None]) -> None:
        made.renewed.append([t.table for t in tables])
        note(800)
        made.server = Server("7301", 1, 900, None)

    asked = SimpleNamespace(server=lambda of, tables, offsets: made.server, restream=restream)
    monkeypatch.setattr(module, "database", lambda dsn: asked)
    return made


def test_what_is_applied_while_a_server_answers_is_not_before_its_log(world: World) -> None:
    """One source is silent for seconds while another one's table goes on."""
    slow = table("a")
    ids = world.origins.topics.ids

    def answers(names: Any) -> Any:
        slow.store.commit = Commit("stg.a", "stream", 4, high=sequence(0, 2_000))
        return ids(names)

    world.origins.topics.ids = answers  # type: ignore[method-assign]
    assert world.look(slow) == {}


def lost(world: World) -> None:
    world.server = Server("7301", 1, 900, "the slot is gone")


def another_topic(world: World) -> None:
    world.topics["shop.public.a"] = "idx"


def another_server(world: World) -> None:
    world.server = Server("7302", 1, 900, None)


def older_copy(world: World) -> None:
    world.server = Server("7301", 1, 499, None)


@pytest.mark.parametrize(
    ("happens", "halts", "says"),
    [
        (lost, {"a", "b"}, "the slot is gone"),
        (another_topic, {"a"}, "made anew"),
        (another_server, {"a", "b"}, "another database cluster"),
        (older_copy, {"a", "b"}, "an older copy of itself"),
    ],
)
@pytest.mark.parametrize("restarted", [False, True])
def test_what_was_seen_before_is_missed(
    world: World, happens: Callable[[World], None], halts: set[str], says: str, restarted: bool
) -> None:
    tables = [table("a"), table("b")]
    assert world.look(*tables) == {}
    if restarted:
        committed(tables[0])  # the other has had no change since
        tables[1].store.commit = replace(tables[1].store.commit, origin={"topic": "idb", "system": "7301"})
        tables[1].run = TableRun()
    happens(world)
    for _ in range(2):  # a look does not make it good
        found = world.look(*tables)
        assert found.keys() == halts
        assert all(says in why for why in found.values())


def test_an_empty_table_whose_stream_is_lost_is_told_and_one_that_waits_for_its_stream_is_not(
    world: World,
) -> None:
    empty = table("a", version=0, high=0)
    lost(world)
    assert world.look(empty) == {}, "its connector has not begun"
    world.server = Server("7301", 1, 900, None)
    assert world.look(empty) == {}
    another_server(world)
    assert world.look(empty) == {}, "it has nothing that could follow something else"
    lost(world)
    assert world.look(empty) == {"a": "the slot is gone"}


def test_changes_that_do_not_come_are_missed(world: World) -> None:
    of = {name: SourceTable("shop", "public", name) for name in ("a", "b")}
    tables = [table("a"), table("b")]
    lacks = dict.fromkeys(of.values(), "is not published")
    world.server = Server("7301", 1, 900, None, unpublished=lacks)
    assert world.look(*tables) == {}  # on their way into the publication
    world.server = Server("7301", 1, 900, None, unpublished=lacks, partitioned={of["a"]})
    assert world.look(*tables) == {"a": "is not published"}  # its rows were read by its name
    world.server = Server("7301", 1, 900, None, published=set(of.values()))
    assert world.look(*tables) == {}
    committed(tables[1])
    world.server = Server("7301", 1, 900, None, unpublished=lacks)
    assert world.look(*tables) == dict.fromkeys("ab", "is not published")


def test_what_was_never_there_is_not_missed(world: World) -> None:
    lost(world)
    assert world.look(table("a")) == {}
    world.server = None  # it does not answer
    assert world.look(table("a"), table("b", version=0)) == {}


def test_a_stream_is_made_anew_once_and_every_table_of_its_source_must_be_read_again(world: World) -> None:
    tables = [table("a"), table("b")]
    assert world.look(*tables) == {}
    assert not world.origins.renew(tables[0], tables)
    lost(world)
    assert world.origins.renew(tables[0], tables)
    assert world.renewed == [["a", "b"]]
    assert set(world.look(*tables).values()) == {
        "its source's replication slot was made anew, and what was changed before it came by none"
    }
    tables[0].run.origin = world.origins.now(tables[0])  # as its resync commits it
    committed(tables[0])
    assert world.look(*tables).keys() == {"b"}
    assert not world.origins.renew(tables[1], tables)
    tables[1].run.origin = world.origins.now(tables[1])
    committed(tables[1])
    assert world.look(*tables) == {}


def test_an_environment_makes_no_stream_anew(world: World) -> None:
    tables = [table("a"), table("b")]
    assert world.look(*tables) == {}
    world.origins = replace(world.origins, environment="dev")
    assert not world.origins.renew(tables[0], tables)
    lost(world)
    with pytest.raises(TerminalError, match=r"`headrace resync a` in the production, then here"):
        world.origins.renew(tables[0], tables)
    assert world.renewed == []


def test_an_older_copy_is_followed_by_a_new_slot(world: World) -> None:
    tables = [table("a"), table("b", high=400)]
    assert world.look(*tables) == {}
    older_copy(world)
    assert world.look(*tables).keys() == {"a"}
    assert world.origins.renew(tables[0], tables)
    older_copy(world)  # its log stands there still
    assert not world.origins.renew(tables[1], tables) or world.renewed == [["a", "b"]]
    assert world.look(*tables).keys() == {"a", "b"}
