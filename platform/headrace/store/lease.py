"""One writer per warehouse: whoever holds its lease, a text in the warehouse itself.

Each renewal replaces exactly the text that the renewal before has left: of two that try, one learns that it
was not the one. No clock is compared with another machine's: who wants the lease watches the text, and takes
it where it stays the same for longer than its holder would let it (Gray and Cheriton, "Leases", 1989). A
holder that could not renew, or stood still, is refused each commit, see `storage.permit`; where it learns
that another one has followed, it ends.
"""

from __future__ import annotations

import json
import logging
import math
import os
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Protocol

import psutil

from headrace.errors import TerminalError
from headrace.storage.location import Location
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
    """

    host: str
    pid: int
    epoch: int
    since: int
    begun: float = 0.0
    renewals: int = 0
    released: bool = False

    @classmethod
    def this(cls, epoch: int) -> Holder:
        return cls(socket.gethostname(), os.getpid(), epoch, int(time.time()), psutil.Process().create_time())

    def __str__(self) -> str:
        return f"process {self.pid} of {self.host}"

    @property
    def is_gone(self) -> bool:
        """Whether it is known to have ended: it says so, or was a process of this machine."""
        if self.released or self.host != socket.gethostname():
            return self.released
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
    """The exclusive right to write a warehouse.

    Args:
        place: the text; it names the holder.
        permit: extended by each renewal.
        warehouse: what is held, for people.
        end: what a process does that has lost it. Default: it ends at once, without a further commit.
    """

    def __init__(
        self, place: Marked, permit: Permit, warehouse: object, end: Callable[[int], object] = os._exit
    ) -> None:
        self._place = place
        self._permit = permit
        self._warehouse = warehouse
        self._end = end
        self._mark = ""
        self._held: Holder | None = None
        self._before: Holder | None = None
        self._stopping = threading.Event()
        self._renewing = threading.Thread(target=self._renew, name="lease", daemon=True)

    @property
    def epoch(self) -> int:
        """How many have held the lease up to now; 0 without it."""
        return self._held.epoch if self._held is not None else 0

    @property
    def was_let_go(self) -> bool:
        """Whether the holder before this one had ended by itself, so that nothing of it can come any more."""
        return self._before is None or self._before.released

    def acquire(self, stopping: threading.Event | None = None) -> None:
        """Take it, where nobody has it or its holder has ended.

        Args:
            stopping: waits no longer for a holder to give a sign once this is set.
        Raises:
            Held: another process has it.
        """
        stopping = stopping or threading.Event()
        known = self._place.read_marked()
        end = time.monotonic() + EXPIRE_SECONDS
        while known is not None and not _holder(known[0]).is_gone and time.monotonic() < end:
            if stopping.wait(RENEW_SECONDS / 3):
                raise Held(self._warehouse, _holder(known[0]))
            now = self._place.read_marked()
            if now is not None and now[1] != known[1] and not _holder(now[0]).is_gone:
                raise Held(self._warehouse, _holder(now[0]))
            known = now
        asked = time.monotonic()
        before = _holder(known[0]) if known is not None else None
        mine = Holder.this(before.epoch + 1 if before is not None else 1)
        mark = self._place.write_if(_text(mine), known[1] if known is not None else None)
        if mark is None:
            taken = self._place.read_marked()
            raise Held(self._warehouse, _holder(taken[0]) if taken is not None else mine)
        self._held, self._mark, self._before = mine, mark, before
        self._permit.extend(asked + HOLD_SECONDS)
        self._renewing.start()

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


def lease_of(warehouse: Location, permit: Permit) -> Lease:
    """The lease of a warehouse: an object in its store, or files in its folder."""
    place = warehouse / "lease" if isinstance(warehouse, ObjectPath) else MarkedFile(warehouse / "_lease")
    return Lease(place, permit, warehouse)


def _text(holder: Holder) -> str:
    return json.dumps(asdict(holder))


def _holder(text: str) -> Holder:
    return Holder(**json.loads(text))
