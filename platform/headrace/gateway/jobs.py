"""The statements a server knows: queued, run by a few workers, followed, cancelled, at last forgotten."""

from __future__ import annotations

import logging
import secrets
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from queue import SimpleQueue
from threading import Condition, Thread
from typing import Any, BinaryIO

from headrace.errors import Cancelled, HeadraceError, TransientError, UnknownName
from headrace.gateway.execution import Lane, Outcome, lane
from headrace.gateway.rows import ResultRows
from headrace.gateway.statements import ParsedStatement
from headrace.progress import Progress
from headrace.results import Statement

log = logging.getLogger(__name__)

WORKERS: Mapping[Lane, int] = {"control": 1, "reads": 2, "jobs": 2}
FINISHED = frozenset({"SUCCEEDED", "FAILED", "CANCELLED"})

Execute = Callable[[ParsedStatement, Progress], Outcome]


class TooBusy(TransientError):
    """More statements wait than the server takes."""


@dataclass
class _Job:
    """One statement; every field is guarded by the registry's lock."""

    statement: Statement
    parsed: ParsedStatement
    progress: Progress
    revision: int = 0
    finished: bool = False


class Jobs:
    """Runs statements. Thread-safe.

    Args:
        execute: does a statement's work.
        rows: where result rows go.
        keep: how many finished statements stay known.
        queue: how many statements may wait.
    """

    def __init__(self, execute: Execute, rows: ResultRows, *, keep: int = 200, queue: int = 500) -> None:
        self._execute = execute
        self._rows = rows
        self._keep = keep
        self._queue = queue
        self._jobs: dict[str, _Job] = {}  # in order of submission
        self._ended: deque[str] = deque()  # in order of their end
        self._changed = Condition()
        self._closed = False
        self._lanes: dict[Lane, SimpleQueue[_Job | None]] = {name: SimpleQueue() for name in WORKERS}
        self._workers = [
            Thread(target=self._work, args=(self._lanes[name],), name=f"statement-{name}-{n}", daemon=True)
            for name, count in WORKERS.items()
            for n in range(count)
        ]
        for worker in self._workers:
            worker.start()

    def submit(self, text: str, parsed: ParsedStatement) -> Statement:
        """Queue a statement; returns at once."""
        statement = Statement(id=secrets.token_hex(8), kind=type(parsed).__name__, text=text, state="QUEUED")
        job = _Job(statement, parsed, Progress())
        job.progress = Progress(lambda *report: self._report(job, *report))
        with self._changed:
            if self._closed:
                raise TransientError("the warehouse server is stopping")
            if sum(j.statement.state == "QUEUED" for j in self._jobs.values()) >= self._queue:
                raise TooBusy(f"{self._queue} statements are waiting already: try again later")
            self._jobs[statement.id] = job
            self._lanes[lane(parsed)].put(job)
        return statement

    def get(self, id: str, wait: float = 0.0) -> Statement:
        """The statement now, or after its next change, at most `wait` seconds later."""
        with self._changed:
            job = self._job(id)
            seen = job.revision
            if not job.finished and wait > 0:
                self._changed.wait_for(lambda: job.revision != seen or self._closed, wait)
            return job.statement

    def all(self) -> list[Statement]:
        """Every known statement, oldest first."""
        with self._changed:
            return [job.statement for job in self._jobs.values()]

    def rows(self, id: str) -> BinaryIO | None:
        """The rows as an Arrow IPC stream, None where it has none (any more)."""
        with self._changed:
            has_rows = self._job(id).statement.has_rows
        return self._rows.open(id) if has_rows else None

    def cancel(self, id: str) -> Statement:
        """Ask a statement to stop. One that waits ends at once, one that runs when its work has stopped."""
        with self._changed:
            job = self._job(id)
            if job.statement.state == "QUEUED":
                self._finish(job, state="CANCELLED", error="cancelled before it began")
            if job.finished:
                return job.statement
            self._update(job, message="cancelling")
        self._stop(job)
        with self._changed:
            return job.statement

    def drain(self) -> None:
        """Take no more statements and answer everyone who waits for a change."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def close(self, timeout: float = 30.0) -> None:
        """Take no more statements, cancel those under way, and wait for the workers."""
        self.drain()
        for statement in self.all():
            with suppress(UnknownName):  # ended and forgotten meanwhile
                self.cancel(statement.id)
        for name, count in WORKERS.items():
            for _ in range(count):
                self._lanes[name].put(None)
        deadline = time.monotonic() + timeout
        for worker in self._workers:
            worker.join(max(0.0, deadline - time.monotonic()))

    def _work(self, queue: SimpleQueue[_Job | None]) -> None:
        while (job := queue.get()) is not None:
            with self._changed:
                if job.finished:
                    continue
                self._update(job, state="RUNNING")
            self._run(job)

    def _run(self, job: _Job) -> None:
        id = job.statement.id
        try:
            outcome = self._execute(job.parsed, job.progress)
            if outcome.rows is not None:
                self._rows.put(id, outcome.rows)
        except BaseException as error:
            state, message, kind = self._failure(job, error)
            with self._changed:
                self._finish(job, state=state, error=message, result={"kind": kind})
        else:
            with self._changed:
                self._finish(job, state="SUCCEEDED", result=outcome.result, has_rows=outcome.rows is not None)

    def _failure(self, job: _Job, error: BaseException) -> tuple[str, str, str]:
        """State, message and kind of a statement that raised."""
        id, text = job.statement.id, job.statement.text
        if job.progress.cancelled:
            # Stopped work fails in many ways: Spark's own errors for a cancelled job among them.
            if not isinstance(error, Cancelled):
                log.info("statement %s ended after its cancellation with %r", id, error)
            return "CANCELLED", str(error) if isinstance(error, Cancelled) else "cancelled", "cancelled"
        if isinstance(error, HeadraceError):
            log.warning("statement %s failed: %s: %s", id, text, error)
            return "FAILED", str(error), "transient" if isinstance(error, TransientError) else "terminal"
        log.error("statement %s failed: %s", id, text, exc_info=error)
        return "FAILED", f"{_one_line(error)} (statement {id}, details in the server's log)", "unexpected"

    def _report(self, job: _Job, message: str, done: int | None, total: int | None) -> None:
        with self._changed:
            if not job.finished:
                self._update(job, message=message, done=done, total=total)

    def _stop(self, job: _Job) -> None:
        try:
            job.progress.cancel()
        except Exception:
            log.exception("statement %s: what should stop its work failed", job.statement.id)

    def _finish(self, job: _Job, **changes: Any) -> None:
        job.finished = True
        self._update(job, **changes)
        # Not by submission: a long refresh must not be forgotten before its client saw its end.
        self._ended.append(job.statement.id)
        while len(self._ended) > self._keep:
            old = self._ended.popleft()
            del self._jobs[old]
            self._rows.drop(old)

    def _update(self, job: _Job, **changes: Any) -> None:
        # Readers hold the old statement outside the lock, so it is replaced and never changed.
        job.statement = job.statement.model_copy(update=changes)
        job.revision += 1
        self._changed.notify_all()

    def _job(self, id: str) -> _Job:
        job = self._jobs.get(id)
        if job is None:
            raise UnknownName(
                f"no statement `{id}`: the server keeps the last {self._keep}, and none of before its start"
            )
        return job


def _one_line(error: BaseException) -> str:
    text = str(error).strip()
    first = text.splitlines()[0] if text else ""
    return f"{type(error).__name__}: {first[:500]}" if first else type(error).__name__
