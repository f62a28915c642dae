"""Cuts at marked positions of the source: where a flow's tables stand once it has read the mark."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field

from headrace.engine.ingest.offsets import by_topic
from headrace.errors import TransientError
from headrace.sources.marks import marked, spellings
from headrace.sources.stream.envelope import Event
from headrace.spec.model import TableName
from headrace.store.record.frontier import Offsets


@dataclass(frozen=True)
class Cut:
    """A flow after a micro-batch that had a mark in it.

    Args:
        versions: changelog version of every table.
        offsets: where the topics go on after it.
        events: what the flow applied since the mark was announced, by topic: what was committed around it.
        held: what it has read and not applied yet, by topic: it comes after `offsets`.
    """

    versions: Mapping[TableName, int]
    offsets: Offsets
    events: Mapping[str, Sequence[Event]]
    held: Mapping[str, Sequence[Event]] = field(default_factory=dict)


class CutMissed(TransientError):
    """The flow went over a position in a batch too large to be held in the driver."""


@dataclass
class _Awaited:
    reached: Future[Cut] = field(default_factory=Future)
    events: list[Event] = field(default_factory=list)


class Cuts:
    """Who waits for which mark of one flow."""

    def __init__(self) -> None:
        self._waiting: dict[str, _Awaited] = {}

    def expect(self, token: str) -> Future[Cut]:
        """The cut at the position that the mark `token` will have.

        Ask before anything else is done about the position: events are kept from now on.
        """
        awaited = self._waiting.setdefault(token, _Awaited())
        return awaited.reached

    def forget(self, token: str) -> None:
        """Nobody waits for it any more."""
        self._waiting.pop(token, None)

    @property
    def awaited(self) -> bool:
        """Whether somebody waits for one."""
        return bool(self._waiting)

    def applied(
        self,
        events: Sequence[Event],
        offsets: Offsets,
        held: Sequence[Event],
        versions: Callable[[], Mapping[TableName, int]],
    ) -> None:
        """The flow has applied a micro-batch.

        Args:
            offsets: where the topics go on after it.
            held: what it has read and not applied.
            versions: those of the tables now.
        """
        if not self._waiting:
            return
        seen = marked(events)
        for token, awaited in list(self._waiting.items()):
            awaited.events += events
            if seen & spellings(token):
                self.forget(token)
                awaited.reached.set_result(Cut(versions(), offsets, by_topic(awaited.events), by_topic(held)))

    def missed(self) -> None:
        """The flow passed them, perhaps, in a batch that is not looked into: whoever waits asks again."""
        for token, awaited in list(self._waiting.items()):
            self.forget(token)
            awaited.reached.set_exception(CutMissed(f"a batch too large to look into passed {token}"))
