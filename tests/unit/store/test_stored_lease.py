"""A lease in an object store: one holder at a time, and the next one once it is gone."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from memory_objects import memory_store as memory_store
from obstore.store import MemoryStore

from headrace.errors import TerminalError
from headrace.storage.object_path import ObjectPath
from headrace.storage.object_store import ObjectStore
from headrace.store import stored_lease
from headrace.store.stored_lease import LEASE_LOST, StoredLease

ELSEWHERE = {"host": "elsewhere", "pid": 7, "epoch": 3, "since": 0}


@pytest.fixture
def place(memory_store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> ObjectPath:
    monkeypatch.setattr(stored_lease, "RENEW_SECONDS", 0.02)
    monkeypatch.setattr(stored_lease, "HOLD_SECONDS", 0.1)
    monkeypatch.setattr(stored_lease, "EXPIRE_SECONDS", 0.3)
    return ObjectPath("bucket", "warehouse/lease", ObjectStore())


@pytest.fixture
def held() -> Iterator[ExitStack]:
    """Leases that are released at the end, so that no thread goes on."""
    with ExitStack() as stack:
        yield stack


class Ended:
    """What ends in place of the process."""

    def __init__(self) -> None:
        self.code: int | None = None
        self.heard = threading.Event()

    def __call__(self, code: int) -> None:
        self.code = code
        self.heard.set()


def acquired(place: ObjectPath, held: ExitStack, end: Ended | None = None) -> StoredLease:
    lease = StoredLease(place, end or Ended())
    lease.acquire()
    held.callback(lease.release)
    return lease


def test_a_second_writer_is_refused_while_the_first_renews(place: ObjectPath, held: ExitStack) -> None:
    first = acquired(place, held)
    with pytest.raises(TerminalError, match=r"process \d+ of .*headrace down"):
        StoredLease(place).acquire()
    first.release()
    assert acquired(place, held).epoch == 2


def test_a_holder_that_no_longer_renews_loses_it(place: ObjectPath, held: ExitStack) -> None:
    place.write_text(json.dumps(ELSEWHERE))
    assert acquired(place, held).epoch == 4


def test_a_holder_of_this_machine_that_has_ended_is_not_waited_for(
    place: ObjectPath, held: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stored_lease, "EXPIRE_SECONDS", 3600.0)
    monkeypatch.setattr(stored_lease.psutil, "pid_exists", lambda pid: False)
    place.write_text(json.dumps({**ELSEWHERE, "host": stored_lease.socket.gethostname()}))
    assert acquired(place, held).epoch == 4


def test_a_holder_that_another_one_has_followed_ends(place: ObjectPath, held: ExitStack) -> None:
    end = Ended()
    acquired(place, held, end)
    place.write_text(json.dumps({**ELSEWHERE, "epoch": 9}))
    assert end.heard.wait(10)
    assert end.code == LEASE_LOST


def test_a_holder_that_cannot_renew_ends_before_anybody_may_follow(
    place: ObjectPath, held: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    end = Ended()
    acquired(place, held, end)

    def gone(*of: object) -> None:
        raise ConnectionError("no store")

    with monkeypatch.context() as patch:
        patch.setattr(ObjectPath, "write_if", gone)
        assert end.heard.wait(10)
    assert end.code == LEASE_LOST


def test_a_renewal_whose_answer_was_lost_counts(
    place: ObjectPath, held: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client that hears nothing puts once more, and is told that the object is no longer what it was."""
    end, write = Ended(), ObjectPath.write_if
    written = threading.Semaphore(0)

    def twice(self: ObjectPath, text: str, mark: str | None) -> str | None:
        write(self, text, mark)
        written.release()
        return write(self, text, mark)

    acquired(place, held, end)
    with monkeypatch.context() as patch:
        patch.setattr(ObjectPath, "write_if", twice)
        for _ in range(3):
            assert written.acquire(timeout=10)
    assert not end.heard.is_set()


def test_of_many_that_want_it_one_has_it(place: ObjectPath, held: ExitStack) -> None:
    place.write_text(json.dumps(ELSEWHERE))
    leases, refused = [StoredLease(place, Ended()) for _ in range(6)], []

    def want(lease: StoredLease) -> None:
        try:
            lease.acquire()
        except TerminalError:
            refused.append(lease)

    threads = [threading.Thread(target=want, args=(lease,)) for lease in leases]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for lease in leases:
        held.callback(lease.release)
    assert len(refused) == 5
    assert [lease.epoch for lease in leases if lease not in refused] == [4]
