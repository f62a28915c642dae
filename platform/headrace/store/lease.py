"""One writer per warehouse: whoever holds its lease, a text in the warehouse itself.

Each renewal replaces exactly the text that the renewal before has left: of two that try, one learns that it
was not the one. No clock is compared with another machine's: who wants the lease watches the text, and takes
it where it stays the same for longer than its holder would let it (Gray and Cheriton, "Leases", 1989). A
holder that could not renew, or stood still, is refused each commit, see `storage.permit`; where it learns
that another one has followed, it ends.

Servers that divide a warehouse by its sources have a lease each. Of two that would write the same table each
puts its own text before it looks for the other's, so that at least one of them sees the other (Dekker's
flags; Dijkstra, "Cooperating sequential processes", 1965) and takes its own back.
"""

from __future__ import annotations

import json
import logging
import math
import os
import socket
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Protocol

import psutil

from headrace.errors import TerminalError
from headrace.storage.location import Location, names
from headrace.storage.marked_file import MarkedFile
from headrace.storage.object_path import ObjectPath
from headrace.storage.permit import Permit

log = logging.getLogger(__name__)

RENEW_SECONDS = 2.0
"""Between two renewals."""

HOLD_SECONDS = 7.0
"""Without a renewal for this long a holder commits no more until it has renewed it: somebody may be about to
take it."""

EXPIRE_SECONDS = 11.0
"""A lease that was not renewed for this long is taken by whoever wants it."""

LEASE_LOST = 4
"""Exit code of a server that another one has taken the lease from."""

LEASES = "_leases"
"""Folder of the leases of servers that serve some sources each."""

_SAME_START = 1.0
"""Seconds by which two looks at when a process began may differ."""


class Marked(Protocol):
    """A text that is replaced only as what it was read as; see `storage.marked_file`."""

    def read_marked(self) -> tuple[str, str] | None: ...
    def write_if(self, text: str, mark: str | None) -> str | None: ...


@dataclass(frozen=True)
class Holder:
    """
    Args:
        epoch: one more with each holder.
        since: seconds since 1970, for people.
        begun: when its process began, seconds since 1970: another process may have its number later.
        renewals: what makes the text another one with each renewal.
        released: its holder has ended, and said so.
        sources: whose tables it writes; () for all.
        ended: another one, of other sources, has followed; what its holder had begun may still come.
    """

    host: str
    pid: int
    epoch: int
    since: int
    begun: float = 0.0
    renewals: int = 0
    released: bool = False
    sources: tuple[str, ...] = ()
    ended: bool = False

    @classmethod
    def this(cls, epoch: int, sources: tuple[str, ...] = ()) -> Holder:
        now, begun = int(time.time()), psutil.Process().create_time()
        return cls(socket.gethostname(), os.getpid(), epoch, now, begun, sources=sources)

    def __str__(self) -> str:
        whose = f" ({', '.join(self.sources)})" if self.sources else ""
        return f"process {self.pid} of {self.host}{whose}"

    def shares(self, sources: tuple[str, ...]) -> bool:
        """Whether it writes a table that somebody with these sources would write, too."""
        return not self.sources or not sources or not set(self.sources).isdisjoint(sources)

    @property
    def is_over(self) -> bool:
        """Whether it is written that it holds no more."""
        return self.released or self.ended

    @property
    def is_gone(self) -> bool:
        """Whether it is known to hold no more: that is written, or it was a process of this machine."""
        if self.is_over or self.host != socket.gethostname():
            return self.is_over
        if not self.begun:  # a version before this one wrote it
            return not psutil.pid_exists(self.pid)
        try:
            return abs(psutil.Process(self.pid).create_time() - self.begun) > _SAME_START
        except psutil.NoSuchProcess:
            return True


class Held(TerminalError):
    """Another process has the lease."""

    def __init__(self, warehouse: object, holder: Holder) -> None:
        super().__init__(
            f"the warehouse `{warehouse}` is held by another warehouse server: {holder}. Next: "
            f"`headrace down` there; where it is gone, try again in {EXPIRE_SECONDS:.0f} seconds; or let "
            "this one stand by for it, by the setting `standby`"
        )
        self.holder = holder


class Lease:
    """The exclusive right to write a warehouse, or its tables of some sources.

    Args:
        place: the text; it names the holder.
        permit: extended by each renewal.
        warehouse: what is held, for people.
        sources: whose tables are; () for all.
        others: where the leases of the same warehouse by other sources are.
        end: what a process does that has lost it. Default: it ends at once, without a further commit.
    """

    def __init__(
        self,
        place: Marked,
        permit: Permit,
        warehouse: object,
        end: Callable[[int], object] = os._exit,
        *,
        sources: tuple[str, ...] = (),
        others: Callable[[], Iterable[Marked]] = tuple,
    ) -> None:
        self._place = place
        self._permit = permit
        self._warehouse = warehouse
        self._end = end
        self._sources = sources
        self._others = others
        self._mark = ""
        self._held: Holder | None = None
        self._before: list[Holder] = []
        self._stopping = threading.Event()
        self._renewing = threading.Thread(target=self._renew, name="lease", daemon=True)

    @property
    def epoch(self) -> int:
        """How many have held the lease up to now; 0 without it."""
        return self._held.epoch if self._held is not None else 0

    @property
    def was_let_go(self) -> bool:
        """Whether the holders before this one had ended by themselves: nothing of them can come any more."""
        return all(holder.released for holder in self._before)

    def acquire(self, stopping: threading.Event | None = None) -> None:
        """Take it, where nobody has it or its holder has ended.

        Args:
            stopping: waits no longer for a holder to give a sign once this is set.
        Raises:
            Held: another process has it.
        """
        stopping = stopping or threading.Event()
        known, end = self._look(), time.monotonic() + EXPIRE_SECONDS
        while (alive := _alive(known)) and time.monotonic() < end:
            if stopping.wait(RENEW_SECONDS / 3):
                raise Held(self._warehouse, alive[0])
            known = self._look_again(known)
        asked = time.monotonic()
        own = known.pop(str(self._place), None)
        epoch = max((found.holder.epoch for found in (own, *known.values()) if found is not None), default=0)
        mine = Holder.this(epoch + 1, self._sources)
        mark = self._place.write_if(_text(mine), own.mark if own is not None else None)
        if mark is None:
            taken = self._place.read_marked()
            raise Held(self._warehouse, _holder(taken[0]) if taken is not None else mine)
        try:
            self._end_others(known)
        except BaseException:
            self._place.write_if(_text(replace(mine, released=True)), mark)
            raise
        self._held, self._mark = mine, mark
        self._before = [found.holder for found in (own, *known.values()) if found is not None]
        self._permit.extend(asked + HOLD_SECONDS)
        self._renewing.start()

    def _look(self) -> dict[str, _Found]:
        """The leases of which one at most may be held at a time, by their places."""
        found = {}
        for place in (self._place, *self._others()):
            if (read := place.read_marked()) is not None and (holder := _holder(read[0])).shares(
                self._sources
            ):
                found[str(place)] = _Found(place, holder, read[1])
        return found

    def _look_again(self, known: Mapping[str, _Found]) -> dict[str, _Found]:
        """Raises Held where one was renewed since, or has come."""
        now = self._look()
        for name, found in now.items():
            if (name not in known or found.mark != known[name].mark) and not found.holder.is_gone:
                raise Held(self._warehouse, found.holder)
        return now

    def _end_others(self, known: Mapping[str, _Found]) -> None:
        """Let nobody of these, who no longer renew theirs, do so again. Raises Held where one does.

        To be called when its own text is there: whoever comes now sees that.
        """
        for found in known.values():
            holder = found.holder
            if holder.is_over:
                continue
            # Of a process that is dead nothing can come any more.
            ended = replace(holder, released=holder.is_gone, ended=True)
            if found.place.write_if(_text(ended), found.mark) is None:
                raise Held(self._warehouse, holder)
        for name, found in self._look().items():
            if name != str(self._place) and not found.holder.is_over:
                raise Held(self._warehouse, found.holder)

    def stand_by(self, stopping: threading.Event, told: Callable[[Holder], None]) -> bool:
        """Take it as soon as its holder has ended, or no longer renews it.

        Args:
            stopping: ends the waiting.
            told: whom this one stands by for, again and again.
        Returns:
            Whether it was taken; False where it was told to stop.
        """
        self._permit.extend(0.0)
        while not stopping.is_set():
            try:
                self.acquire(stopping)
            except Held as error:
                told(error.holder)
            except Exception as error:  # the store does not answer: nor may it to the holder
                log.warning("the lease cannot be read: %s", error)
                stopping.wait(RENEW_SECONDS)
            else:
                return True
        return False

    def release(self) -> None:
        """Let the next one take it at once."""
        self._stopping.set()
        if self._held is None:
            return
        self._renewing.join()
        self._permit.extend(math.inf)
        try:
            self._place.write_if(_text(replace(self._held, released=True)), self._mark)
        except Exception as error:  # it ends by itself, too
            log.warning("the lease of %s could not be let go: %s", self._warehouse, error)
        self._held = None

    def _renew(self) -> None:
        failed = False
        while not self._stopping.wait(RENEW_SECONDS):
            asked = time.monotonic()
            try:
                kept = self._renew_once()
            except Exception as error:  # a store that does not answer, a disk that is full
                if not failed:
                    log.warning("the lease of %s could not be renewed: %s", self._warehouse, error)
                failed = True
                continue
            if not kept:
                log.critical("another server has taken the lease of %s: this one ends", self._warehouse)
                self._end(LEASE_LOST)
                return
            failed = False
            self._permit.extend(asked + HOLD_SECONDS)

    def _renew_once(self) -> bool:
        """False where another one has taken it."""
        assert self._held is not None, "it was taken"
        following = replace(self._held, renewals=self._held.renewals + 1)
        mark = self._place.write_if(_text(following), self._mark)
        if mark is None:  # by somebody else, or by this one, whose answer was lost and which was put again
            there = self._place.read_marked()
            if there is None or there[0] != _text(following):
                return False
            mark = there[1]
        self._held, self._mark = following, mark
        return True


@dataclass(frozen=True)
class _Found:
    """A lease as it was read."""

    place: Marked
    holder: Holder
    mark: str


def _alive(known: Mapping[str, _Found]) -> list[Holder]:
    return [found.holder for found in known.values() if not found.holder.is_gone]


def share_name(sources: Sequence[str]) -> str:
    """What the tables of some sources are called in a warehouse: their sources, in order."""
    return "__".join(sources)


def lease_of(warehouse: Location, permit: Permit, sources: tuple[str, ...] = ()) -> Lease:
    """The lease of a warehouse, or of its tables of some sources: an object in its store, or files in it.

    Args:
        sources: in order; () for all.
    """
    place = warehouse / LEASES / share_name(sources) if sources else _of_all(warehouse)
    return Lease(
        _text_of(place), permit, warehouse, sources=sources, others=lambda: _places(warehouse, place)
    )


def servers(warehouse: Location) -> list[Holder]:
    """Who serves a warehouse, or its tables of some sources, each; in the order of these."""
    texts = [place.read_marked() for place in _places(warehouse)]
    holders = [_holder(text[0]) for text in texts if text is not None]
    return sorted((h for h in holders if not h.is_gone), key=lambda holder: holder.sources)


def _places(warehouse: Location, but: Location | None = None) -> list[Marked]:
    folder = warehouse / LEASES
    known = [_of_all(warehouse), *(folder / name for name in names(folder))]
    return [_text_of(place) for place in known if place != but]


def _of_all(warehouse: Location) -> Location:
    return warehouse / ("lease" if isinstance(warehouse, ObjectPath) else "_lease")


def _text_of(place: Location) -> Marked:
    return place if isinstance(place, ObjectPath) else MarkedFile(place)


def _text(holder: Holder) -> str:
    return json.dumps(asdict(holder))


def _holder(text: str) -> Holder:
    found = json.loads(text)
    return Holder(**{**found, "sources": tuple(found.get("sources", ()))})
