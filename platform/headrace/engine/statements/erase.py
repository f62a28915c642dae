"""Erase: what is held of a key whose row the source has deleted, out of every place that history has.

The tables' rows do not change, since they have none of it: what goes is what was there before. Every step can
be done again, so the same statement does the rest after a kill.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa

from headrace.catalog.readers import Readers
from headrace.engine.compaction.compaction import compact, warm_head
from headrace.engine.compaction.retention import record_progress
from headrace.engine.spark.failpoints import failpoint
from headrace.engine.spark.sessions import Sessions
from headrace.engine.table.table import Registry, StgTable, Table, is_stg
from headrace.errors import TerminalError, TransientError
from headrace.planner.policy.erasure import Columns, Given, Reach, key_values, reach
from headrace.progress import Progress
from headrace.results import ErasedPlace, EraseResult
from headrace.sources.stream.dead_letters import DeadLetters
from headrace.sources.stream.formats import Formats
from headrace.sources.stream.keys import of_key
from headrace.sources.stream.messages import raw
from headrace.spec.model import TableName
from headrace.store.erasure import Erasure, Held, HistoryErasure, KeyErasure
from headrace.store.record.frontier import Offsets
from headrace.store.schema import arrow_schema

FOLLOW_SECONDS = 30.0
"""How long the last message of the key may take into the recorded frontier."""

LOOK_SECONDS = 0.25

ATTEMPTS = 5
"""Times that tables are brought up: a snapshot may move on before all who read the table have come as far."""


class _BehindError(TerminalError):
    """A table has not come as far as the snapshot of one that it reads."""


@dataclass(frozen=True)
class Erase:
    """
    Args:
        readers: who follows tables under a name.
        keys: partition, offset and key of all that a topic has.
        forget: lets Kafka forget the messages before a cut.
        captured: rows of a key in a stg table's source, after which the table has come as far.
        runs: whether a table is neither suspended nor out of its flow.
        follow: brings a derived table that runs to its upstreams' present versions.
        still: while the block lasts no flow makes a micro-batch.
        renew: lets a table be read anew from its newest snapshot.
    """

    sessions: Sessions
    registry: Registry
    readers: Readers
    letters: DeadLetters
    formats: Formats
    keys: Callable[[str], Iterable[tuple[int, int, bytes]]]
    forget: Callable[[Offsets], None]
    captured: Callable[[StgTable, tuple[Any, ...]], int]
    runs: Callable[[Table], bool]
    follow: Callable[[Table], None]
    still: Callable[[], AbstractContextManager[None]]
    renew: Callable[[Table], None]
    run_id: str

    def run(
        self, table: Table, given: Given, *, history: bool, dry_run: bool, progress: Progress
    ) -> EraseResult:
        """Erase the key, or only say where it is.

        Args:
            history: with the older versions of tables downstream that do not carry the key.
        Raises:
            TerminalError: no key of the table, or its source has the row, or somebody needs what would go.
            TransientError: the row came back meanwhile; the same call does the rest.
        """
        begun, stg = time.monotonic(), _stg(table)
        key = key_values(str(stg.name), stg.store.schema.key, given)
        work = _Work(self, stg, key, history=history)
        progress.report(f"{stg.name}: looking into its source")
        there = self.captured(stg, tuple(work.values.values()))
        if not dry_run:
            self._check(stg, key, there)
            work.bring_up(progress)
        places = work.look(progress)
        if not dry_run:
            work.erase(progress)
            left = [place.left for place in work.look(progress)]
            places = [p.model_copy(update={"left": n}) for p, n in zip(places, left, strict=True)]
        return EraseResult(
            table=str(stg.name),
            key=key,
            dry_run=dry_run,
            in_source=there,
            places=places,
            notes=work.notes(),
            seconds=time.monotonic() - begun,
        )

    def _check(self, table: StgTable, key: Mapping[str, str], there: int) -> None:
        name = str(table.name)
        if there:
            condition = " AND ".join(f"{column} = '{value}'" for column, value in key.items())
            raise TerminalError(
                f"`{table.source.table}` still has the row, which would come back. Next: DELETE FROM "
                f"{table.source.table.schema}.{table.source.table.table} WHERE {condition}; in the source, "
                "then the same again"
            )
        if not self.runs(table):
            raise TerminalError(
                f"`{name}` does not run, so it has not followed its source. Next: `headrace resume {name}`"
            )


class _Work:
    """One key, and the tables that may have something of it."""

    def __init__(self, erase: Erase, table: StgTable, key: Mapping[str, str], *, history: bool) -> None:
        self._erase, self._table = erase, table
        registry = erase.registry
        columns: Columns = {t.name: t.store.schema.names for t in registry}
        self._reach: Reach = reach(table.name, tuple(key), [t.spec for t in registry], columns)
        self.values = _typed(table, key)
        self._erasures: dict[TableName, Erasure] = {table.name: KeyErasure(table.store, (self.values,))}
        for name, places in self._reach.carriers.items():
            carrier = registry[name]
            found = [_typed(carrier, {place[c]: text for c, text in key.items()}) for place in places]
            self._erasures[name] = KeyErasure(carrier.store, found)
        for name in self._reach.beyond if history else ():
            self._erasures[name] = HistoryErasure(registry[name].store)
        self._history = history
        self._held: dict[str, Held] = {}
        self._unread = 0
        self._refused = ""

    @property
    def _tables(self) -> list[Table]:
        return [self._erase.registry[name] for name in self._erasures]

    def bring_up(self, progress: Progress) -> None:
        """Let every table downstream have followed, and snapshots stand after the deletion."""
        erase, below = self._erase, {*self._erasures, *self._reach.beyond}
        for table in [t for t in erase.registry if t.name in below]:
            progress.report(f"{table.name}: bringing it up")
            if not is_stg(table):
                erase.follow(table)
            if table.name in self._erasures:
                compact(erase.sessions.batch, table, run_id=erase.run_id)
        for table in (t for t in erase.registry if t.name in below and not is_stg(t)):
            erase.follow(table)
            record_progress(table, run_id=erase.run_id)

    # -- where it is --------------------------------------------------------------------------------------

    def look(self, progress: Progress) -> list[ErasedPlace]:
        """Every place that may have it, counted."""
        found = []
        for table in self._tables:
            progress.report(f"{table.name}: looking through its files")
            warm_head(self._erase.sessions.batch, table, run_id=self._erase.run_id)
            held = self._held[str(table.name)] = self._erasures[table.name].held()
            old = "" if isinstance(self._erasures[table.name], KeyErasure) else ", all older ones"
            found.append(_place(table, "changelog", f"change rows{old}", held.changes))
            found.append(_place(table, "snapshot", f"rows in its files{old}", held.rows))
            if table.store.schema.sequenced:
                found.append(_place(table, "tombstones", "keys", held.tombstones, kept=True))
        progress.report(f"{self._table.name}: looking through dead letters and its topic")
        found.append(_place(self._table, "dead letters", "letters", len(self._letters())))
        found.append(_place(self._table, "topic", "messages", sum(1 for _ in self._messages())))
        return found

    def _letters(self) -> list[dict[str, Any]]:
        """The dead letters of the key; notes how many there are of which nobody can tell."""
        rows = [r for r in self._erase.letters.rows() if r["topic"] == self._table.topic]
        messages = raw(
            [(r["topic"], r["partition"], r["offset"], r["raw_key"], r["raw_value"]) for r in rows]
        )
        keys = self._erase.formats.plain(messages).column("key").to_pylist()
        told = [self._of_key(found) for found in keys]
        self._unread = told.count(None)
        return [row for row, yes in zip(rows, told, strict=True) if yes]

    def _of_key(self, found: bytes | None) -> bool | None:
        return of_key(found, self.values, dict(self._table.store.schema.columns))

    def _messages(self) -> Iterator[tuple[int, int]]:
        """Partition and offset of what the topic has of the key, or may have."""
        for partition, offset, key in self._erase.keys(self._table.topic):
            if self._of_key(key) is not False:
                yield partition, offset

    # -- what it takes ------------------------------------------------------------------------------------

    def _check(self, table: Table) -> Held:
        """What it has. Raises where the row came back, or a table has yet to read what would go."""
        name, store, held = str(table.name), table.store, self._held[str(table.name)]
        if held.live or held.newest > store.pin.compacted:
            raise TransientError(f"`{name}` has changes of the key still. Next: the same again")
        for other in self._reading(table):
            if (at := other.store.commit.upstreams.get(name, 0)) < store.pin.through:
                raise _BehindError(
                    f"`{other.name}` has read `{name}` up to version {at}, and the snapshot stands at "
                    f"{store.pin.through}. Next: `headrace resume {other.name}`, then the same again"
                )
        return held

    def _check_readers(self, table: Table) -> None:
        """Raises TerminalError where a registered reader has yet to read what would go."""
        name, held = str(table.name), self._held[str(table.name)]
        for reader in self._erase.readers.all(name):
            if reader.position < held.newest and not reader.expired:
                raise TerminalError(
                    f"reader `{reader.name}` of `{name}` has read up to version {reader.position}, and needs "
                    f"those up to {held.newest}. Next: let it read, or `headrace readers {name} --drop "
                    f"{reader.name}`"
                )

    def _cut(self) -> Offsets:
        """Before which every table of the topic has applied its messages, all of the key's among them.

        Raises:
            TerminalError: a table of the topic has yet to read some of the key's.
        """
        topic, until = self._table.topic, time.monotonic() + FOLLOW_SECONDS
        reading = [t for t in self._erase.registry if is_stg(t) and t.topic == topic]
        last: dict[int, int] = {}
        for partition, offset in self._messages():
            last[partition] = max(offset, last.get(partition, -1))
        while True:
            at = {t.name: t.store.commit.offsets.get(topic, {}) for t in reading}
            behind = [n for n, own in at.items() if any(own.get(p, 0) <= o for p, o in last.items())]
            if not behind:
                places = {p for own in at.values() for p in own}
                return {topic: {p: min(own.get(p, 0) for own in at.values()) for p in places}}
            if time.monotonic() > until:
                raise TerminalError(
                    f"`{behind[0]}` has not read all messages of the key in topic `{topic}`. Next: "
                    f"`headrace resume {behind[0]}`, then the same again"
                )
            time.sleep(LOOK_SECONDS)

    # -- erasing ------------------------------------------------------------------------------------------

    def erase(self, progress: Progress) -> None:
        """Take it out of every place. Cancelled or killed, what is done is done."""
        going = [t for t in self._tables if t is self._table or not self._held[str(t.name)].live]
        self._repeated(lambda: list(map(self._check, going)), progress)
        for table in going:
            self._check_readers(table)
        self._cut()
        for table in going:
            progress.report(f"{table.name}: erasing it")
            self._repeated(partial(self._erase_from, table), progress)
        self._erase.letters.erase(self._letters())
        failpoint("erase.after_dead_letters")
        progress.report(f"{self._table.name}: erasing it from the topic")
        self._forget_messages()

    def _repeated(self, attempt: Callable[[], object], progress: Progress) -> None:
        for _ in range(ATTEMPTS - 1):
            try:
                attempt()
                return
            except _BehindError:
                self.bring_up(progress)
        attempt()

    def _erase_from(self, table: Table) -> None:
        erasure, erase = self._erasures[table.name], self._erase
        with erase.still():
            for reader in self._reading(table):
                record_progress(reader, run_id=erase.run_id)
            with table.store.writing:
                self._held[str(table.name)] = erasure.held()
                self._check(table)
                erasure.take_out_changes()
            failpoint("erase.after_changes")
            erasure.purge(partial(erase.renew, table))
        failpoint("erase.after_files")

    def _reading(self, table: Table) -> list[Table]:
        """The tables that read it, and hold something."""
        registry = self._erase.registry
        return [t for t in registry if table.name in registry.upstreams(t) and t.store.version]

    def _forget_messages(self) -> None:
        """Let Kafka forget what was applied, where the topic has something of the key."""
        if next(self._messages(), None) is None:
            return  # and the topic stays as long as it is
        try:
            self._erase.forget(self._cut())
        except TerminalError as error:
            self._refused = str(error)

    def notes(self) -> list[str]:
        """What was not reached, and why."""
        table, found = self._table, list[str]()
        for name in self._reach.carriers:
            if live := self._held[str(name)].live:
                found.append(
                    f"`{name}` still has {live} rows that carry the key, so nothing of it was erased there. "
                    f"Next: `headrace explain {name}` says when it is refreshed; then the same again"
                )
        for name in () if self._history else self._reach.beyond:
            found.append(
                f"`{name}` is computed from it and carries no key: what its older versions show of it goes "
                "by age. Next: the same with --history erases all of these"
            )
        for other in self._erase.registry:
            if is_stg(other) and other.topic == table.topic and other is not table:
                words = " ".join(f"{c}={v}" for c, v in self.values.items())
                found.append(f"`{other.name}` reads the same. Next: `headrace erase {other.name} {words}`")
        if self._refused:
            found.append(self._refused)
        if self._unread:
            found.append(
                f"{self._unread} dead letters have a key that cannot be read, and stay. Next: `headrace "
                f"dead-letters list {table.name} --all`"
            )
        return found


def _stg(table: Table) -> StgTable:
    if not is_stg(table):
        raise TerminalError(
            f"`{table.name}` is computed from its upstreams: what these hold of a key would come again. "
            "Next: erase it in the stg table, which reaches what is downstream"
        )
    return table


def _typed(table: Table, values: Mapping[str, str]) -> dict[str, Any]:
    """Values as the table's columns have them. Raises TerminalError where one is none of its type."""
    schema, found = arrow_schema(table.store.schema.stored), {}
    for column, text in values.items():
        try:
            found[column] = pa.scalar(text).cast(schema.field(column).type).as_py()
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            kind = dict(table.store.schema.columns)[column]
            raise TerminalError(f"`{text}` is no {kind}, as `{table.name}`.`{column}` is") from error
    return found


def _place(table: Table, place: Any, what: str, count: int, *, kept: bool = False) -> ErasedPlace:
    return ErasedPlace(table=str(table.name), place=place, what=what, found=count, left=count, kept=kept)
