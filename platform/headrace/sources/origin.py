"""What a stg table's frontier counts in: a topic, and the log of a database server.

Offsets and log positions of another topic or another server are numbers like any other. Where one was put in
the place of the former, going on by them would skip events without a word.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from headrace.spec.model import SourceTable


@dataclass(frozen=True)
class Origin:
    """Where a table's events come from. What is not known is empty, and then not compared.

    Args:
        topic: Kafka's id of the topic.
        system: PostgreSQL's identifier of the database cluster.
        timeline: of its log: a server that was promoted or recovered to a point in time begins another.
        slot: where the replication slot begins that headrace made in another's place; 0 for the first one.
        slotted: whether the connector's slot was seen on the server: topics that somebody else fills, from
            elsewhere, have none there.
        columns: digest of the source's columns that the table reads.
        relation: PostgreSQL's identifier of the captured table.
        published: whether the connector's publication was seen to have the captured table.
    """

    topic: str = ""
    system: str = ""
    timeline: int = 0
    slot: int = 0
    slotted: bool = False
    columns: str = ""
    relation: int = 0
    published: bool = False

    @classmethod
    def of(cls, recorded: dict[str, Any]) -> Origin:
        """As a commit recorded it."""
        return cls(**{k: v for k, v in recorded.items() if k in cls.__dataclass_fields__})

    def record(self) -> dict[str, Any]:
        """What is known, for a commit."""
        return {name: value for name, value in asdict(self).items() if value}

    def completed(self, now: Origin) -> Origin:
        """With what is known now."""
        return replace(self, **now.record())

    def replaced(self, now: Origin) -> str | None:
        """Why events of `now` do not follow those of this one; None where they do."""
        was, known = self.record(), now.record()
        for name, says in _SAYS.items():
            if name in was and name in known and was[name] != known[name]:
                return says.format(was=was[name], now=known[name])
        if now.slot and now.slot != self.slot:
            return "its source's replication slot was made anew, and what was changed before it came by none"
        return None


_SAYS = {
    "topic": "its topic was deleted and made anew (id {now}, was {was})",
    "system": "the source is another database cluster (system identifier {now}, was {was})",
    "timeline": "the source was promoted or recovered: its log is on timeline {now}, was on {was}",
    "columns": "its rows were made of other columns of its source than it reads now",
    "relation": "its source table was dropped and made anew, and no event told of the rows that it had",
}


@dataclass(frozen=True)
class Server:
    """A source's server now.

    Args:
        lsn: where its log stands.
        slot: what is wrong with the connector's replication slot; None while it is there.
        relations: identifiers of captured tables; 0 of one that is not there.
        published: captured tables whose changes the connector's publication gives under their names.
        unpublished: the others where there is the publication, each with why and the SQL that mends it.
        partitioned: those of partitions.
    """

    system: str
    timeline: int
    lsn: int
    slot: str | None
    relations: Mapping[SourceTable, int] = field(default_factory=dict)
    published: Set[SourceTable] = frozenset()
    unpublished: Mapping[SourceTable, str] = field(default_factory=dict)
    partitioned: Set[SourceTable] = frozenset()

    def unheard(self, table: SourceTable, known: Origin) -> str | None:
        """Why changes of a captured table do not come; None where they do, or as far as is known.

        A plain table that was never seen in the publication may be on its way there: the connector adds it.
        Of a partitioned one no change comes under its name, while its rows were read by it.
        """
        why = self.unpublished.get(table)
        return why if known.published or table in self.partitioned else None


def went_back(high: str, generation: int, lsn: int) -> bool:
    """Whether a log stands before what was applied of it.

    Args:
        high: the highest sequence applied, as `sources.stream.envelope.sequence` writes it.
    """
    return high[:4] == f"{generation:04X}" and lsn < int(high[4:], 16)
