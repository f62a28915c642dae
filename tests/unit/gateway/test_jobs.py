"""The statement registry: lanes, states, cancellation, bounds."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import get_args

import pyarrow as pa
import pytest
from gateway_support import PATIENCE, wait_until

from headrace.errors import TerminalError, TransientError, UnknownName
from headrace.gateway import statements as s
from headrace.gateway.execution import HANDLERS, Outcome
from headrace.gateway.jobs import WORKERS, Jobs, TooBusy
from headrace.gateway.rows import ResultRows
from headrace.progress import Progress
from headrace.results import Statement

REFRESH = s.Refresh("stg.orders", None)
SELECT = s.Select("SELECT 1")
Work = Callable[[s.ParsedStatement, Progress], Outcome]
Start = Callable[..., Jobs]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Makes a registry that is closed at the end; `release` in the work's closure must be set by then."""
    made: list[Jobs] = []

    def make(work: Work, *, limit_bytes: int = 1 << 20, **bounds: int) -> Jobs:
        jobs = Jobs(work, ResultRows(tmp_path / f"rows{len(made)}", limit_bytes=limit_bytes), **bounds)
        made.append(jobs)
        return jobs

    yield make
    for jobs in made:
        jobs.close(timeout=PATIENCE)


def ended(jobs: Jobs, id: str) -> Statement:
    wait_until(lambda: jobs.get(id).state in ("SUCCEEDED", "FAILED", "CANCELLED"))
    return jobs.get(id)


class Blocked:
    """Work that waits for `release` or its cancellation; other statements answer at once."""

    def __init__(self) -> None:
        self.running = threading.Semaphore(0)
        self.release = threading.Event()
        self.began = 0

    def __call__(self, statement: s.ParsedStatement, progress: Progress) -> Outcome:
        if not isinstance(statement, s.Refresh):
            return Outcome("read")
        self.began += 1
        stop = threading.Event()
        progress.on_cancel(stop.set)
        self.running.release()
        while not (self.release.is_set() or stop.wait(0.005)):
            pass
        progress.raise_if_cancelled()
        return Outcome("refreshed")


def test_reads_and_control_pass_a_queue_of_long_jobs(start: Start) -> None:
    blocked = Blocked()
    jobs = start(blocked)
    long = [jobs.submit("r", REFRESH) for _ in range(WORKERS["jobs"] + 3)]
    for _ in range(WORKERS["jobs"]):
        assert blocked.running.acquire(timeout=PATIENCE)
    read, control = jobs.submit("s", SELECT), jobs.submit("x", s.Suspend("stg.orders"))
    assert ended(jobs, read.id).result == "read"
    assert ended(jobs, control.id).state == "SUCCEEDED"
    states = [jobs.get(job.id).state for job in long]
    assert states.count("RUNNING") == WORKERS["jobs"] and states.count("QUEUED") == 3
    blocked.release.set()
    assert {ended(jobs, job.id).state for job in long} == {"SUCCEEDED"}
    assert blocked.began == len(long)


def test_a_cancelled_job_stops_its_work_and_says_so(start: Start) -> None:
    blocked = Blocked()
    jobs = start(blocked)
    job = jobs.submit("r", REFRESH)
    assert blocked.running.acquire(timeout=PATIENCE)
    assert jobs.cancel(job.id).message == "cancelling"
    final = ended(jobs, job.id)
    assert final.state == "CANCELLED" and final.result == {"kind": "cancelled"}
    assert jobs.cancel(job.id) == final  # again: nothing changes


def test_a_queued_job_that_is_cancelled_never_begins(start: Start) -> None:
    blocked = Blocked()
    jobs = start(blocked)
    running = [jobs.submit("r", REFRESH) for _ in range(WORKERS["jobs"])]
    for _ in running:
        assert blocked.running.acquire(timeout=PATIENCE)
    waiting, last = jobs.submit("w", REFRESH), jobs.submit("l", REFRESH)
    assert jobs.cancel(waiting.id).state == "CANCELLED"
    blocked.release.set()
    assert ended(jobs, last.id).state == "SUCCEEDED"
    assert jobs.get(waiting.id).state == "CANCELLED"
    assert blocked.began == WORKERS["jobs"] + 1


def test_work_that_commits_in_spite_of_its_cancellation_has_succeeded(start: Start) -> None:
    entered, release = threading.Event(), threading.Event()

    def work(_statement: s.ParsedStatement, _progress: Progress) -> Outcome:
        entered.set()
        release.wait(PATIENCE)
        return Outcome("committed")

    jobs = start(work)
    job = jobs.submit("r", REFRESH)
    assert entered.wait(PATIENCE)
    jobs.cancel(job.id)
    release.set()
    assert (ended(jobs, job.id).state, jobs.get(job.id).result) == ("SUCCEEDED", "committed")


def test_an_engine_error_after_a_cancellation_is_a_cancellation(start: Start) -> None:
    entered = threading.Event()

    def work(_statement: s.ParsedStatement, progress: Progress) -> Outcome:
        stop = threading.Event()
        progress.on_cancel(stop.set)
        entered.set()
        stop.wait(PATIENCE)
        raise RuntimeError("Job 7 cancelled part of cancelled job group")

    jobs = start(work)
    job = jobs.submit("r", REFRESH)
    assert entered.wait(PATIENCE)
    jobs.cancel(job.id)
    assert ended(jobs, job.id).state == "CANCELLED"


def test_a_failing_cancel_callback_does_not_break_the_registry(start: Start) -> None:
    entered, release = threading.Event(), threading.Event()

    def work(_statement: s.ParsedStatement, progress: Progress) -> Outcome:
        progress.on_cancel(lambda: 1 / 0)
        entered.set()
        release.wait(PATIENCE)
        progress.raise_if_cancelled()
        return Outcome()

    jobs = start(work)
    job = jobs.submit("r", REFRESH)
    assert entered.wait(PATIENCE)
    jobs.cancel(job.id)
    release.set()
    assert ended(jobs, job.id).state == "CANCELLED"


@pytest.mark.parametrize(
    ("error", "kind"),
    [(TerminalError("no such partition"), "terminal"), (TransientError("lost a race"), "transient")],
)
def test_an_expected_error_is_its_message(start: Start, error: Exception, kind: str) -> None:
    def work(_statement: s.ParsedStatement, _progress: Progress) -> Outcome:
        raise error

    jobs = start(work)
    final = ended(jobs, jobs.submit("r", REFRESH).id)
    assert (final.state, final.error, final.result) == ("FAILED", str(error), {"kind": kind})


def test_an_unexpected_error_is_one_line_with_the_id_and_a_logged_trace(
    start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    def work(_statement: s.ParsedStatement, _progress: Progress) -> Outcome:
        raise ValueError("boom\nsecond line\n\tat java.lang.Thread")

    jobs = start(work)
    with caplog.at_level(logging.ERROR):
        final = ended(jobs, jobs.submit("r", REFRESH).id)
    assert final.error == f"ValueError: boom (statement {final.id}, details in the server's log)"
    [record] = caplog.records
    assert final.id in record.getMessage()
    assert record.exc_info is not None and "second line" in str(record.exc_info[1])
    assert ended(jobs, jobs.submit("again", REFRESH).id).state == "FAILED"  # the worker lives on


def test_a_waiting_client_sees_every_state_and_the_progress(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    step, waits = threading.Semaphore(0), threading.Semaphore(0)

    class Condition(threading.Condition):
        def wait(self, timeout: float | None = None) -> bool:
            waits.release()
            return super().wait(timeout)

    monkeypatch.setattr("headrace.gateway.jobs.Condition", Condition)

    def work(_statement: s.ParsedStatement, progress: Progress) -> Outcome:
        for done in range(3):
            assert step.acquire(timeout=PATIENCE)
            progress.report("partitions", done + 1, 3)
        assert step.acquire(timeout=PATIENCE)
        return Outcome("done")

    jobs = start(work)
    id = jobs.submit("r", REFRESH).id
    wait_until(lambda: jobs.get(id).state == "RUNNING")
    seen = []
    for _ in range(4):
        with ThreadPoolExecutor(1) as pool:
            waiter = pool.submit(jobs.get, id, PATIENCE)
            assert waits.acquire(timeout=PATIENCE)
            step.release()
            now = waiter.result()
        seen.append((now.state, now.message, now.done, now.total))
    assert seen[:3] == [("RUNNING", "partitions", n, 3) for n in (1, 2, 3)]
    assert seen[3][0] == "SUCCEEDED"


def test_a_wait_ends_without_a_change_too(start: Start) -> None:
    blocked = Blocked()
    jobs = start(blocked)
    id = jobs.submit("r", REFRESH).id
    assert blocked.running.acquire(timeout=PATIENCE)
    assert jobs.get(id, wait=0.05).state == "RUNNING"


def test_what_ended_first_is_forgotten_first_with_its_rows(start: Start) -> None:
    blocked = Blocked()

    def work(statement: s.ParsedStatement, progress: Progress) -> Outcome:
        if isinstance(statement, s.Select):
            return Outcome(rows=pa.table({"n": [1]}))
        return blocked(statement, progress)

    jobs = start(work, keep=3)
    long = jobs.submit("r", REFRESH)
    assert blocked.running.acquire(timeout=PATIENCE)
    reads = []
    for _ in range(5):
        reads.append(jobs.submit("s", SELECT).id)
        ended(jobs, reads[-1])
    with pytest.raises(UnknownName, match="keeps the last 3"):
        jobs.get(reads[1])
    blocked.release.set()
    # It was submitted first but ended last.
    assert ended(jobs, long.id).state == "SUCCEEDED"
    with pytest.raises(UnknownName):
        jobs.rows(reads[2])
    stream = jobs.rows(reads[3])
    assert stream is not None
    stream.close()
    assert len(jobs.all()) == 3


def test_rows_are_bounded_in_bytes_the_oldest_go_first(start: Start, tmp_path: Path) -> None:
    jobs = start(lambda _s, _p: Outcome(rows=pa.table({"n": list(range(1000))})), limit_bytes=20_000)
    ids = []
    for _ in range(4):
        ids.append(jobs.submit("s", SELECT).id)
        ended(jobs, ids[-1])
    streams = [jobs.rows(id) for id in ids]
    assert [stream is not None for stream in streams] == [False, False, True, True]
    for stream in streams:
        if stream is not None:
            with pa.ipc.open_stream(stream) as reader:
                assert reader.read_all().num_rows == 1000
            stream.close()
    assert sum(f.stat().st_size for f in (tmp_path / "rows0").iterdir()) <= 20_000


def test_one_result_that_is_too_large_fails_with_advice(start: Start) -> None:
    jobs = start(lambda _s, _p: Outcome(rows=pa.table({"n": list(range(10_000))})), limit_bytes=20_000)
    final = ended(jobs, jobs.submit("s", SELECT).id)
    assert (
        final.state == "FAILED"
        and "first 10,000 rows" in (final.error or "")
        and "LIMIT" in (final.error or "")
    )


class Coming:
    """Rows that come in four batches, in another order than their own."""

    schema = pa.schema({"n": pa.int64()})

    def __init__(self, rows: int) -> None:
        self.order: list[int] = []
        self.read = 0
        self._rows = rows

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for part in (2, 0, 3, 1):
            self.read += 1
            numbers = range(part * self._rows, (part + 1) * self._rows)
            yield pa.record_batch({"n": list(numbers)}, schema=self.schema)
        self.order = [1, 3, 0, 2]


def test_batches_are_put_in_order(start: Start, tmp_path: Path) -> None:
    jobs = start(lambda _s, _p: Outcome(rows=Coming(100)))
    id = jobs.submit("s", SELECT).id
    assert ended(jobs, id).state == "SUCCEEDED"
    stream = jobs.rows(id)
    assert stream is not None
    with stream, pa.ipc.open_stream(stream) as reader:
        assert reader.read_all().column("n").to_pylist() == list(range(400))
    assert [file.name for file in (tmp_path / "rows0").iterdir()] == [f"{id}.arrow"]


def test_a_result_that_grows_too_large_is_read_no_further(start: Start, tmp_path: Path) -> None:
    coming = Coming(1_000)
    jobs = start(lambda _s, _p: Outcome(rows=coming), limit_bytes=12_000)
    final = ended(jobs, jobs.submit("s", SELECT).id)
    assert final.state == "FAILED" and "which its first 2,000 rows take" in (final.error or "")
    assert coming.read == 2 and not list((tmp_path / "rows0").iterdir())


def test_a_full_queue_refuses(start: Start) -> None:
    blocked = Blocked()
    jobs = start(blocked, queue=2)
    for _ in range(WORKERS["jobs"]):
        jobs.submit("r", REFRESH)
        assert blocked.running.acquire(timeout=PATIENCE)
    jobs.submit("r", REFRESH), jobs.submit("r", REFRESH)
    with pytest.raises(TooBusy, match="2 statements are waiting"):
        jobs.submit("r", REFRESH)


def test_close_cancels_all_and_takes_no_more(start: Start) -> None:
    blocked = Blocked()
    jobs = start(blocked)
    ids = [jobs.submit("r", REFRESH).id for _ in range(4)]
    assert blocked.running.acquire(timeout=PATIENCE)
    jobs.close(timeout=PATIENCE)
    assert {jobs.get(id).state for id in ids} == {"CANCELLED"}
    with pytest.raises(TransientError, match="stopping"):
        jobs.submit("r", REFRESH)


def test_many_clients_at_once(start: Start) -> None:
    jobs = start(lambda statement, _p: Outcome(statement.sql if isinstance(statement, s.Select) else None))

    def client(n: int) -> bool:
        id = jobs.submit("s", s.Select(f"SELECT {n}")).id
        return ended(jobs, id).result == f"SELECT {n}"

    with ThreadPoolExecutor(max_workers=16) as pool:
        assert all(pool.map(client, range(100)))


def test_every_statement_has_its_handler() -> None:
    assert set(HANDLERS) == set(get_args(s.ParsedStatement))
    assert {handler.lane for handler in HANDLERS.values()} == set(WORKERS)
