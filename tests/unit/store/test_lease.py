"""A warehouse's lease: one holder at a time, and the next one once it is gone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest
from memory_objects import memory_store as memory_store
from obstore.store import MemoryStore

from headrace.errors import TerminalError, TransientError
from headrace.storage import permit as permit_module
from headrace.storage.location import Location
from headrace.storage.marked_file import MarkedFile
from headrace.storage.object_path import ObjectPath
from headrace.storage.object_store import ObjectStore
from headrace.storage.permit import Permit
from headrace.store import lease as lease_module
from headrace.store.lease import LEASE_LOST, Lease, Marked, lease_of, servers

ELSEWHERE = {"host": "elsewhere", "pid": 7, "epoch": 3, "since": 0}


@pytest.fixture(params=["a folder", "an object store"])
def place(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    memory_store: MemoryStore,
    monkeypatch: pytest.MonkeyPatch,
) -> Marked:
    monkeypatch.setattr(lease_module, "RENEW_SECONDS", 0.02)
    monkeypatch.setattr(lease_module, "HOLD_SECONDS", 0.2)
    monkeypatch.setattr(lease_module, "EXPIRE_SECONDS", 0.4)
    monkeypatch.setattr(permit_module, "PATIENCE_SECONDS", 0.0)
    if request.param == "a folder":
        return MarkedFile(tmp_path / "_lease")
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


def write(place: Marked, **holder: Any) -> None:
    """Let somebody else be its holder, whoever was, and renews it at this moment."""
    written = None
    while written is None:
        known = place.read_marked()
        written = place.write_if(json.dumps({**ELSEWHERE, **holder}), known[1] if known else None)


def lease(place: Marked, end: Ended | None = None, permit: Permit | None = None) -> Lease:
    return Lease(place, permit or Permit(), "wh", end or Ended())


def acquired(place: Marked, held: ExitStack, end: Ended | None = None, permit: Permit | None = None) -> Lease:
    found = lease(place, end, permit)
    found.acquire()
    held.callback(found.release)
    return found


def test_a_second_writer_is_refused_while_the_first_renews(place: Marked, held: ExitStack) -> None:
    first = acquired(place, held)
    with pytest.raises(TerminalError, match=r"process \d+ of .*headrace down"):
        lease(place).acquire()
    first.release()
    assert acquired(place, held).epoch == 2


def test_a_holder_that_no_longer_renews_loses_it(place: Marked, held: ExitStack) -> None:
    write(place)
    assert acquired(place, held).epoch == 4


def test_a_holder_of_this_machine_that_has_ended_is_not_waited_for(
    place: Marked, held: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease_module, "EXPIRE_SECONDS", 3600.0)
    with subprocess.Popen([sys.executable, "-c", ""]) as other:
        other.wait()
    write(place, host=lease_module.socket.gethostname(), pid=other.pid)
    assert acquired(place, held).epoch == 4


def test_another_process_of_the_same_number_is_not_the_holder(
    place: Marked, held: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease_module, "EXPIRE_SECONDS", 3600.0)
    begun = psutil.Process().create_time() - 60
    write(place, host=lease_module.socket.gethostname(), pid=os.getpid(), begun=begun)
    assert acquired(place, held).epoch == 4


def test_nothing_is_committed_once_it_was_not_renewed(
    place: Marked, held: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that stands still renews nothing, which whatever thread wakes first must find."""
    monkeypatch.setattr(lease_module, "RENEW_SECONDS", 3600.0)
    permit = Permit()
    acquired(place, held, permit=permit)
    permit.check()
    until = time.monotonic() + 10
    with pytest.raises(TransientError, match="lease was not renewed"):
        while time.monotonic() < until:
            permit.check()


def test_renewals_extend_what_may_be_committed(
    place: Marked, held: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    told, permit = threading.Semaphore(0), Permit()
    extend = permit.extend

    def counted(until: float) -> None:
        extend(until)
        told.release()

    monkeypatch.setattr(permit, "extend", counted)
    acquired(place, held, permit=permit)
    for _ in range(20):  # twice as long as without them
        assert told.acquire(timeout=10)
        permit.check()


def test_a_standby_writes_nothing_and_takes_over_from_one_that_is_silent(
    place: Marked, held: ExitStack
) -> None:
    permit, told = Permit(), []
    first, second = acquired(place, held), lease(place, permit=permit)
    waiting = threading.Thread(target=second.stand_by, args=(threading.Event(), told.append))
    waiting.start()
    held.callback(second.release)
    until = time.monotonic() + 10
    while not told and time.monotonic() < until:
        pass
    assert told[0].pid == os.getpid()
    with pytest.raises(TransientError):
        permit.check()
    write(place, epoch=1)  # what the first one cannot renew any more
    waiting.join(10)
    assert second.epoch == 2 and not second.was_let_go
    permit.check()
    assert first.epoch == 1


def test_a_standby_that_is_stopped_goes(place: Marked, held: ExitStack) -> None:
    acquired(place, held)
    stopping, other = threading.Event(), lease(place)
    stopping.set()
    assert other.stand_by(stopping, lambda holder: None) is False
    other.release()


def test_who_follows_one_that_has_let_go_need_shut_nobody_out(place: Marked, held: ExitStack) -> None:
    first = acquired(place, held)
    assert first.was_let_go  # there was none
    first.release()
    assert acquired(place, held).was_let_go


def test_a_holder_that_another_one_has_followed_ends(place: Marked, held: ExitStack) -> None:
    end = Ended()
    acquired(place, held, end)
    write(place, epoch=9)
    assert end.heard.wait(10)
    assert end.code == LEASE_LOST


def test_a_holder_that_cannot_renew_commits_nothing_until_it_can(
    place: Marked, held: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    end, permit = Ended(), Permit()
    acquired(place, held, end, permit)

    def gone(*of: object) -> None:
        raise ConnectionError("no store")

    def refused() -> bool:
        try:
            permit.check()
        except TransientError:
            return True
        return False

    until = time.monotonic() + 10
    with monkeypatch.context() as patch:
        patch.setattr(type(place), "write_if", gone)
        while not refused() and time.monotonic() < until:
            pass
        assert refused()
    while refused() and time.monotonic() < until:
        pass
    assert not refused() and not end.heard.is_set()


def test_a_renewal_whose_answer_was_lost_counts(
    place: Marked, held: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client that hears nothing puts once more, and is told that the object is no longer what it was."""
    end, put = Ended(), type(place).write_if
    written = threading.Semaphore(0)

    def twice(self: Any, text: str, mark: str | None) -> str | None:
        put(self, text, mark)
        written.release()
        return put(self, text, mark)

    acquired(place, held, end)
    with monkeypatch.context() as patch:
        patch.setattr(type(place), "write_if", twice)
        for _ in range(3):
            assert written.acquire(timeout=10)
    assert not end.heard.is_set()


def test_of_many_that_want_it_one_has_it(place: Marked, held: ExitStack) -> None:
    write(place)
    leases, refused = [lease(place) for _ in range(6)], []

    def want(wanted: Lease) -> None:
        try:
            wanted.acquire()
        except TerminalError:
            refused.append(wanted)

    threads = [threading.Thread(target=want, args=(each,)) for each in leases]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for each in leases:
        held.callback(each.release)
    assert len(refused) == 5
    assert [each.epoch for each in leases if each not in refused] == [4]


@dataclass
class Divided:
    """The leases of one warehouse by sources."""

    warehouse: Location
    held: ExitStack

    def lease(self, *sources: str) -> Lease:
        return lease_of(self.warehouse, Permit(), sources)

    def acquired(self, *sources: str) -> Lease:
        found = self.lease(*sources)
        found.acquire()
        self.held.callback(found.release)
        return found


@pytest.fixture
def divided(place: Any, held: ExitStack) -> Divided:
    return Divided(place.parent, held)


def test_servers_of_other_sources_hold_theirs_at_the_same_time(divided: Divided) -> None:
    divided.acquired("billing")
    divided.acquired("crm", "shop")
    assert [holder.sources for holder in servers(divided.warehouse)] == [("billing",), ("crm", "shop")]
    for sources in [("billing",), ("crm", "shop"), ("shop",), ("billing", "crm"), ()]:
        with pytest.raises(TerminalError, match=r"process \d+ of"):
            divided.lease(*sources).acquire()


def test_a_server_of_the_whole_warehouse_has_no_other_beside_it(divided: Divided) -> None:
    whole = divided.acquired()
    with pytest.raises(TerminalError, match=r"process \d+ of"):
        divided.lease("shop").acquire()
    whole.release()
    assert divided.acquired("shop").was_let_go


def test_whose_tables_others_take_has_lost_its_lease(place: Marked, divided: Divided) -> None:
    """Though theirs have other names: a renewal of its text as it was is none any more."""
    write(place)
    before = place.read_marked()
    shop = divided.acquired("shop")
    after = place.read_marked()
    assert before is not None and after is not None and after[1] != before[1]
    assert shop.epoch == 4 and not shop.was_let_go
    # What it had begun may be of tables that this first one does not have.
    assert not divided.acquired("billing").was_let_go


def test_a_dead_process_of_this_machine_is_shut_out_once(place: Marked, divided: Divided) -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as other:
        other.wait()
    write(place, host=lease_module.socket.gethostname(), pid=other.pid)
    assert not divided.acquired("shop").was_let_go
    assert divided.acquired("billing").was_let_go


def test_of_two_that_divide_otherwise_at_once_one_at_most_has_it(
    place: Marked, divided: Divided, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each has put its text before it looks for the other's."""
    one, other = divided.lease("billing", "shop"), divided.lease("crm", "shop")
    both = threading.Barrier(2, timeout=10)
    refused, write_if = [], type(place).write_if

    def together(self: Any, text: str, mark: str | None) -> str | None:
        told = json.loads(text)
        if not (told["released"] or told["ended"] or told["renewals"]):
            both.wait()  # neither has seen the other's
        return write_if(self, text, mark)

    def want(wanted: Lease) -> None:
        try:
            wanted.acquire()
        except TerminalError:
            refused.append(wanted)

    with monkeypatch.context() as patch:
        patch.setattr(type(place), "write_if", together)
        threads = [threading.Thread(target=want, args=(each,)) for each in (one, other)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert refused
    for each in (one, other):
        each.release()
    divided.acquired("crm", "shop")  # what was taken back is in nobody's way
