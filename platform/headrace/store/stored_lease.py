"""A lease in an object store: an object that its holder renews, and that the next one takes once it is not.

Each renewal replaces exactly the object that the renewal before has left, by a conditional put: of two that
try, one learns that it was not the one. No clock is compared with another machine's: who wants the lease
watches the object, and takes it where it stays the same for longer than its holder would let it (Gray and
Cheriton, "Leases", 1989).
"""

from __future__ import annotations

import json
import logging
import os
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace

import psutil

from headrace.errors import TerminalError
from headrace.storage.object_path import ObjectPath

log = logging.getLogger(__name__)

RENEW_SECONDS = 3.0
"""Between two renewals."""

HOLD_SECONDS = 9.0
"""Without a renewal for this long a holder ends: somebody may be about to take the lease."""

EXPIRE_SECONDS = 15.0
"""An object that was not renewed for this long is taken by whoever wants it."""

LEASE_LOST = 4
"""Exit code of a server that another one has taken the lease from."""


@dataclass(frozen=True)
class Holder:
    """
    Args:
        epoch: one more with each holder.
        since: seconds since 1970, for people.
        renewals: what makes the object another one with each renewal.
        released: its holder has ended, and said so.
    """

    host: str
    pid: int
    epoch: int
    since: int
    renewals: int = 0
    released: bool = False

    @property
    def is_gone(self) -> bool:
        """Whether it is known to have ended: it says so, or was a process of this machine."""
        return self.released or (self.host == socket.gethostname() and not psutil.pid_exists(self.pid))


class StoredLease:
    """
    Args:
        place: the object; its content names the holder.
        end: what a process does that has lost it. Default: it ends at once, without a further commit.
    """

    def __init__(self, place: ObjectPath, end: Callable[[int], object] = os._exit) -> None:
        self._place = place
        self._end = end
        self._mark = ""
        self._held: Holder | None = None
        self._stopping = threading.Event()
        self._renewing = threading.Thread(target=self._renew, name="lease", daemon=True)

    @property
    def epoch(self) -> int:
        """How many have held the lease up to now; 0 without it."""
        return self._held.epoch if self._held is not None else 0

    def acquire(self) -> None:
        """Take it, where nobody has it or its holder has ended.

        Raises:
            TerminalError: another process has it, which is named.
        """
        known = self._place.read_marked()
        end = time.monotonic() + EXPIRE_SECONDS
        while known is not None and not _holder(known[0]).is_gone and time.monotonic() < end:
            time.sleep(RENEW_SECONDS / 3)
            now = self._place.read_marked()
            if now is not None and now[1] != known[1] and not _holder(now[0]).is_gone:
                raise self._held_by(_holder(now[0]))
            known = now
        epoch = _holder(known[0]).epoch + 1 if known is not None else 1
        mine = Holder(socket.gethostname(), os.getpid(), epoch, int(time.time()))
        mark = self._place.write_if(_text(mine), known[1] if known is not None else None)
        if mark is None:
            taken = self._place.read_marked()
            raise self._held_by(_holder(taken[0]) if taken is not None else mine)
        self._held, self._mark = mine, mark
        self._renewing.start()

    def release(self) -> None:
        """Let the next one take it at once."""
        self._stopping.set()
        if self._held is None:
            return
        self._renewing.join()
        self._place.write_if(_text(replace(self._held, released=True)), self._mark)
        self._held = None

    def _renew(self) -> None:
        renewed = time.monotonic()
        while not self._stopping.wait(RENEW_SECONDS):
            asked = time.monotonic()
            try:
                kept = self._renew_once()
            except Exception as error:
                if time.monotonic() - renewed > HOLD_SECONDS:
                    self._lost(f"it could not be renewed for {HOLD_SECONDS:.0f} s: {error}")
                    return
                continue
            if not kept:
                self._lost("another server has taken it")
                return
            renewed = asked

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

    def _lost(self, why: str) -> None:
        log.critical("the lease %s is lost, and the server ends: %s", self._place, why)
        self._end(LEASE_LOST)

    def _held_by(self, holder: Holder) -> TerminalError:
        return TerminalError(
            f"the warehouse `{self._place.parent}` is held by another warehouse server: process {holder.pid} "
            f"of {holder.host}. Next: `headrace down` there; where it is gone, try again in "
            f"{EXPIRE_SECONDS:.0f} seconds"
        )


def _text(holder: Holder) -> str:
    return json.dumps(asdict(holder))


def _holder(text: str) -> Holder:
    return Holder(**json.loads(text))
