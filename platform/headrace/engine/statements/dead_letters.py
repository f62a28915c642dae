"""What becomes of messages that could not be applied: replayed after their cause was mended, or let be."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from headrace.engine.compaction.compaction import compact
from headrace.engine.flow.flow import Flow, flow_of
from headrace.engine.ingest import driver, offsets
from headrace.engine.spark.sessions import Sessions
from headrace.engine.table.table import StgTable, Table, is_stg
from headrace.errors import TerminalError, UnknownName
from headrace.results import DeadLettersResult
from headrace.sources.stream.dead_letters import DROPPED, REPLAYED, DeadLetters
from headrace.sources.stream.formats import Formats
from headrace.sources.stream.messages import raw

Places = Collection[tuple[int, int]]
"""Partitions and offsets of some letters; empty for all that are open."""


@dataclass(frozen=True)
class Settlement:
    sessions: Sessions
    flows: Sequence[Flow]
    letters: DeadLetters
    formats: Formats
    run_id: str

    def replay(self, table: Table, places: Places) -> DeadLettersResult:
        """Apply letters as if they came now; what came later of their keys stays.

        Raises:
            NeedsResync: a value was not sent.
        """
        stg, chosen = _stg(table), self._chosen(table, places)
        if not chosen:
            return DeadLettersResult(table=str(table.name))
        flow = flow_of(self.flows, table.name)
        assert flow is not None, "a stg table is in one, running or not"
        events = offsets.collect(self.sessions.flow, stg.run.queries, self.formats.plain(_messages(chosen)))
        with flow.paused():
            if stg.store.cold:
                compact(self.sessions.large, stg, run_id=self.run_id)
            refused = driver.replay(self.sessions.flow, stg, events, self.letters, run_id=self.run_id)
        flow.settle()
        reasons = {(letter.partition, letter.offset): letter.reason for letter in refused}
        applied = [row for row in chosen if _place(row) not in reasons]
        self.letters.settle(applied, REPLAYED)
        return DeadLettersResult(
            table=str(table.name),
            replayed=len(applied),
            refused=[{"partition": p, "offset": o, "reason": why} for (p, o), why in sorted(reasons.items())],
        )

    def drop(self, table: Table, places: Places, reason: str) -> DeadLettersResult:
        """Let letters be: neither a replay nor the proof reads them any more."""
        _stg(table)
        chosen = self._chosen(table, places)
        self.letters.settle(chosen, DROPPED, reason)
        return DeadLettersResult(table=str(table.name), dropped=len(chosen))

    def _chosen(self, table: Table, places: Places) -> list[dict[str, Any]]:
        rows = self.letters.open_rows(str(table.name))
        if missing := set(places) - {_place(row) for row in rows}:
            listed = ", ".join(f"{p}:{o}" for p, o in sorted(missing))
            raise UnknownName(
                f"`{table.name}` has no open dead letter at {listed}. Next: `headrace dead-letters list "
                f"{table.name}`"
            )
        return [row for row in rows if not places or _place(row) in places]


def _stg(table: Table) -> StgTable:
    if not is_stg(table):
        raise TerminalError(f"`{table.name}` reads no source, so it has no dead letters")
    return table


def _place(row: dict[str, Any]) -> tuple[int, int]:
    return row["partition"], row["offset"]


def _messages(letters: Sequence[dict[str, Any]]) -> pa.Table:
    """As Kafka had them."""
    return raw([(r["topic"], *_place(r), r["raw_key"], r["raw_value"]) for r in letters])
