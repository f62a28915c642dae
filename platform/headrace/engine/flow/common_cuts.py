"""At which versions several tables of a flow stand at one cut: what a SELECT of them reads together.

A flow advances its tables step by step, and between two steps each that keeps step stands where the flow
does. One that trails stands at the step whose versions of its upstreams it covers.
"""

from __future__ import annotations

import threading
import time
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from headrace.spec.model import TableName

REMEMBERED = 256
"""Versions of a table."""

STEPS = 4096
"""Of which it is known when they were."""


@dataclass
class _Span:
    """Steps at which a table stood at a version; `last`: None while it does."""

    version: int
    first: int
    last: int | None = None


@dataclass(frozen=True)
class Standing:
    """A version of a table, and those of its upstreams that it covers; none for a stg table."""

    version: int
    reached: Mapping[TableName, int]


class CommonCuts:
    """What is remembered of the tables of one flow. Thread-safe.

    Args:
        clock: seconds, whatever they are counted from.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._lock = threading.Lock()
        self._clock = clock
        self._step = 0
        self._began: deque[float] = deque(maxlen=STEPS)
        self._spans: dict[TableName, deque[_Span]] = {}
        self._trailed: dict[TableName, deque[Standing]] = {}

    def stepped(self, tables: Iterable[tuple[TableName, Standing]]) -> None:
        """The flow is between two steps.

        Args:
            tables: those that it advances, upstreams first, as they stand.
        """
        with self._lock:
            self._step += 1
            self._began.append(self._clock())
            at: dict[TableName, int] = {}
            known = set()
            for name, standing in tables:
                known.add(name)
                if all(at.get(upstream) == version for upstream, version in standing.reached.items()):
                    at[name] = standing.version
                self._note(name, at.get(name))
            for name in self._spans.keys() - known:
                del self._spans[name]
                self._trailed.pop(name, None)

    def _note(self, name: TableName, version: int | None) -> None:
        """
        Args:
            version: at which it stands; None where it is behind.
        """
        spans = self._spans.setdefault(name, deque(maxlen=REMEMBERED))
        newest = spans[-1] if spans else None
        if newest is not None and newest.last is None:
            if newest.version == version:
                return
            newest.last = self._step - 1
        if version is not None:
            spans.append(_Span(version, self._step))

    def trailed(self, name: TableName, standing: Standing) -> None:
        """A table has caught up by itself."""
        with self._lock:
            self._trailed.setdefault(name, deque(maxlen=REMEMBERED)).append(standing)

    def newest(self, tables: Collection[TableName], seconds: float) -> dict[TableName, int] | None:
        """The versions of tables at the newest step at which each has one; None where there is none.

        Args:
            seconds: how long ago the step that followed may have been.
        """
        with self._lock:
            found: dict[TableName, list[_Span]] = {}
            stood = [self._stood(name, found) for name in tables]
            last = [span.last for spans in stood for span in spans if span.last is not None]
            oldest = self._current_since(self._clock() - seconds)
            for step in sorted({step for step in last if step >= oldest}, reverse=True):
                versions = [_at(spans, step) for spans in stood]
                if None not in versions:
                    return {name: v for name, v in zip(tables, versions, strict=True) if v is not None}
        return None

    def _current_since(self, moment: float) -> int:
        """The step that was the newest one at a moment."""
        first = self._step - len(self._began) + 1
        return first + max(0, bisect_right(self._began, moment) - 1)

    def _stood(self, name: TableName, found: dict[TableName, list[_Span]]) -> Sequence[_Span]:
        """When a table stood at which version, with ends.

        Args:
            found: what was worked out so far.
        """
        if name not in found:
            spans = [
                _Span(s.version, s.first, self._step if s.last is None else s.last)
                for s in self._spans.get(name, ())
            ]
            for standing in self._trailed.get(name, ()):
                part = [_Span(standing.version, 0, self._step)]
                for upstream, version in standing.reached.items():
                    own = [s for s in self._stood(upstream, found) if s.version == version]
                    part = [both for a in part for b in own if (both := _both(a, b)) is not None]
                spans += part
            found[name] = spans
        return found[name]


def _both(a: _Span, b: _Span) -> _Span | None:
    """The steps of both, at the first one's version."""
    assert a.last is not None and b.last is not None
    first, last = max(a.first, b.first), min(a.last, b.last)
    return _Span(a.version, first, last) if first <= last else None


def _at(spans: Sequence[_Span], step: int) -> int | None:
    """The newest version that stood at a step."""
    return max((s.version for s in spans if s.last is not None and s.first <= step <= s.last), default=None)
