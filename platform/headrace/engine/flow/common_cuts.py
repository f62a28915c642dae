"""At which versions several tables of a flow stand at one cut: what a SELECT of them reads together.

A flow advances its tables step by step, and between two steps each that keeps step stands where the flow
does. One that trails stands at the step whose versions of its upstreams it covers.
"""

from __future__ import annotations

import sys
import threading
import time
from bisect import bisect_right
from collections import defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from headrace.spec.model import TableName

REMEMBERED = 256
"""Versions of a table."""

STEPS = 4096
"""Of which it is known when they were."""

STILL = sys.maxsize
"""The last step of what goes on."""


@dataclass
class _Span:
    """Steps at which a table stood at a version."""

    version: int
    first: int
    last: int = STILL


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
        """How a table stands now: at a version, or behind where that is None."""
        spans = self._spans.setdefault(name, deque(maxlen=REMEMBERED))
        newest = spans[-1] if spans else None
        if newest is not None and newest.last == STILL:
            if newest.version == version:
                return
            newest.last = self._step - 1
        if version is not None:
            spans.append(_Span(version, self._step))

    def trailed(self, name: TableName, standing: Standing) -> None:
        """A table has caught up by itself."""
        with self._lock:
            known = self._trailed.setdefault(name, deque(maxlen=REMEMBERED))
            if not known or known[-1] != standing:
                known.append(standing)

    def newest(self, tables: Collection[TableName], seconds: float) -> dict[TableName, int] | None:
        """The versions of tables at the newest step at which each has one; None where there is none.

        Args:
            seconds: how long ago the step that followed may have been.
        """
        with self._lock:
            oldest = self._current_since(self._clock() - seconds)
            found: dict[TableName, dict[int, list[_Span]]] = {}
            stood = {name: chain.from_iterable(self._stood(name, found).values()) for name in tables}
            spans = {name: [span for span in known if span.last >= oldest] for name, known in stood.items()}
            ends = {min(span.last, self._step) for known in spans.values() for span in known}
            for step in sorted(ends, reverse=True):
                versions = {n: v for n, known in spans.items() if (v := _at(known, step)) is not None}
                if len(versions) == len(spans):
                    return versions
        return None

    def _current_since(self, moment: float) -> int:
        """The step that was the newest one at a moment."""
        first = self._step - len(self._began) + 1
        return first + max(0, bisect_right(self._began, moment) - 1)

    def _stood(
        self, name: TableName, found: dict[TableName, dict[int, list[_Span]]]
    ) -> dict[int, list[_Span]]:
        """When a table stood at each version.

        Args:
            found: what was worked out so far.
        """
        if name not in found:
            spans = found[name] = defaultdict(list)
            for span in self._spans.get(name, ()):
                spans[span.version].append(span)
            for standing in self._trailed.get(name, ()):
                part = [_Span(standing.version, 0)]
                for upstream, version in standing.reached.items():
                    own = self._stood(upstream, found).get(version, ())
                    part = [both for a in part for b in own if (both := _both(a, b)) is not None]
                spans[standing.version] += part
        return found[name]


def _both(a: _Span, b: _Span) -> _Span | None:
    """The steps of both, at the first one's version."""
    first, last = max(a.first, b.first), min(a.last, b.last)
    return _Span(a.version, first, last) if first <= last else None


def _at(spans: Sequence[_Span], step: int) -> int | None:
    """The newest version that stood at a step."""
    return max((s.version for s in spans if s.first <= step <= s.last), default=None)
