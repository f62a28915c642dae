"""A gateway over real HTTP with a warehouse that a test controls."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import uvicorn

from headrace.errors import TerminalError, UnknownName
from headrace.gateway.app import create_app
from headrace.gateway.overview import Overview
from headrace.gateway.rows import ResultRows
from headrace.gateway.service import Service
from headrace.progress import Progress
from headrace.results import (
    AlterResult,
    AppliedTable,
    ApplyResult,
    CascadeResult,
    CascadeTable,
    ChangePage,
    CheckEvaluation,
    CommitAccount,
    ConstraintResult,
    DeadLettersResult,
    ErasedPlace,
    EraseResult,
    Explanation,
    ImmutableResult,
    JvmStatus,
    LoadResult,
    ParityResult,
    PublishResult,
    RefreshDecision,
    RefreshResult,
    ResyncResult,
    RewindResult,
    RewoundTable,
    SourceState,
    Start,
    State,
    TableAccount,
    TableCost,
    TableStatus,
    WorkflowStatus,
)
from headrace.services.scratch import free_ports
from headrace.settings import Settings
from headrace.spec import Project, load_project
from headrace.spec.edit import Edit
from headrace.spec.partitions.label_range import LabelRange

PATIENCE = 60.0
"""Seconds after which a test that waits for a condition fails."""

STG = """\
CREATE MATERIALIZED TABLE {name}
{clauses}FRESHNESS = INTERVAL '10' SECOND
AS SELECT * FROM shop.public.{table}
"""
PARTITIONED = "PARTITIONED BY (logdate) WITH ('partition.fields.logdate.date-formatter' = 'yyyyMMddHH')\n"
CONNECTOR = (
    '{"name": "shop", "config": {"connector.class": "io.debezium.connector.postgresql.PostgresConnector", '
    '"topic.prefix": "shop", "database.dbname": "shop", '
    '"database.hostname": "127.0.0.1", "database.port": "1", "database.user": "a", "database.password": "b", '
    '"table.include.list": "public.users,public.orders"}}'
)


def write_project(directory: Path) -> Path:
    """A project of `stg.users` and the partitioned `stg.orders`."""
    (directory / "layers" / "stg").mkdir(parents=True)
    (directory / "deploy" / "connectors").mkdir(parents=True)
    (directory / "deploy" / "connectors" / "shop.json").write_text(CONNECTOR)
    for table, clauses in (("users", ""), ("orders", PARTITIONED)):
        text = STG.format(name=f"stg.{table}", table=table, clauses=clauses)
        (directory / "layers" / "stg" / f"{table}.sql").write_text(text)
    return directory


def free_port() -> int:
    return free_ports(1)[0]


def refresh_result(table: str, **values: Any) -> RefreshResult:
    """That of a small refresh; `values`: what of it is otherwise."""
    usual = {"start": "", "end": "", "partitions": [], "rows": 2, "inserted": 1, "updated": 0, "deleted": 0}
    return RefreshResult(**{"table": table, **usual, "version": 8, "seconds": 0.5, **values})


@dataclass
class FakeWarehouse:
    """Answers at once; a test may replace what a method does, and make `refresh` wait for `go_on`."""

    calls: list[tuple[Any, ...]] = field(default_factory=list)
    refreshing: threading.Event = field(default_factory=threading.Event)
    go_on: threading.Event = field(default_factory=threading.Event)
    rows: pa.Table = field(default_factory=lambda: pa.table({"id": [1, 2]}))
    kept_messages: int = 0
    parity: list[ParityResult] = field(default_factory=list)
    constraints: list[ConstraintResult] = field(default_factory=list)
    letters: list[dict[str, Any]] = field(default_factory=list)
    accounts: list[CommitAccount] = field(default_factory=list)
    account: TableAccount = field(
        default_factory=lambda: TableAccount(
            table="",
            version=8,
            rows=2,
            totals={"since": 0, "began": 0, "inserted": 2},
            commits=8,
            snapshot_version=7,
            snapshot_rows=2,
            balanced=True,
        )
    )
    published: PublishResult = field(
        default_factory=lambda: PublishResult(
            table="", target="reports.orders at db/x", version=7, rows=2, missing=0, different=0, extra=0
        )
    )
    on_select: Callable[[str], pa.Table] | None = None
    on_start: Callable[[], None] = lambda: None
    stopped: bool = False
    stands_by_for: str | None = None
    gave_up: threading.Event = field(default_factory=threading.Event)
    state: State = "RUNNING"
    head: int = 7
    project: Project = field(init=False)

    def start(self) -> None:
        self.on_start()

    def give_up(self) -> None:
        self.gave_up.set()

    def stop(self) -> None:
        self.stopped = True

    def status(self) -> list[TableStatus]:
        return [
            TableStatus(
                table="stg.orders",
                mode="CONTINUOUS",
                state=self.state,
                strategy="ROW",
                declared_freshness=10,
                measured_freshness=1.5,
                rows=2,
                version=7,
            )
        ]

    def jvm(self) -> JvmStatus | None:
        return JvmStatus(
            java="25", processor_seconds=9.5, compiler_seconds=2, classes_generated=3, micro_batches=4
        )

    def explain(self, table: str, *, history: bool = False) -> Explanation:
        return Explanation(
            table=table,
            freshness="INTERVAL '10' SECOND",
            freshness_origin="its layer file",
            refresh_mode="CONTINUOUS",
            mode_reason="freshness 10 s",
            strategy="ROW",
            strategy_reason="one upstream",
            refused={"JOIN": "no join"},
            upstreams=["shop.public.orders"],
            history=[
                RefreshDecision(
                    chosen="ROW",
                    path="driver",
                    why="at first sight",
                    estimates={"ROW": 0.1, "FULL": 0.8},
                    seconds=0.25,
                    rows_in=3,
                    rows_out=2,
                    changes={"stg.orders": "append only"},
                )
            ]
            if history
            else [],
            accounts=self.accounts if history else [],
        )

    def select(self, sql: str) -> pa.Table:
        self.calls.append(("select", sql))
        return self.on_select(sql) if self.on_select else self.rows

    def refresh(self, table: str, labels: LabelRange | None, *, progress: Progress) -> RefreshResult:
        start, end = (labels.start, labels.end) if labels else (None, None)
        self.calls.append(("refresh", table, start, end))
        progress.on_cancel(self.go_on.set)
        progress.report("recomputing", 1, 2)
        self.refreshing.set()
        assert self.go_on.wait(PATIENCE)
        progress.raise_if_cancelled()
        progress.report("committing", 2, 2)
        return refresh_result(table, start=start or "", end=end or "", partitions=[start or ""])

    def refresh_new(self, table: str, turn: str | None, *, progress: Progress) -> RefreshResult:
        self.calls.append(("refresh_new", table, turn))
        return refresh_result(table)

    def costs(self, hours: int) -> list[TableCost]:
        self.calls.append(("costs", hours))
        return [
            TableCost(table="dws.total", work="stream", core_seconds=2.5, seconds=4.0, runs=10, changes=500),
            TableCost(table="", work="stream", core_seconds=1.0, seconds=2.0, runs=10, changes=0),
        ]

    def sources(self) -> list[SourceState]:
        return [SourceState(source="shop", answers=True, connector="RUNNING", slot_lag=4096, warnings=1)]

    def spent(self) -> list[TableCost]:
        return self.costs(0)

    def workflows(self) -> list[WorkflowStatus]:
        return [
            WorkflowStatus(
                table="dws.total",
                mode="INCREMENTAL",
                freshness=3600.0,
                scheduler="warehouse",
                state="WAITING",
                due_in=120.0,
                took=1.5,
                turn="c0ffee-7",
            )
        ]

    def cascade(
        self, table: str, labels: LabelRange | None, *, dry_run: bool = False, progress: Progress
    ) -> CascadeResult:
        start, end = ends = (labels.start, labels.end) if labels else ("", "")
        self.calls.append(("cascade", table, start, end, dry_run))
        parts = [("stg.orders", *ends, "the range to refresh"), ("dwd.all", "", "", "a join")]
        found = [
            CascadeTable(
                table=name, start=a, end=b, partitions=[a] if a else [], bytes=2048, reason=why, policy="skip"
            )
            for name, a, b, why in parts
        ]
        if not dry_run:
            for told in found:
                told.proof = [p.model_copy(update={"table": told.table}) for p in self.parity]
        return CascadeResult(table=table, start=start, end=end, dry_run=dry_run, tables=found)

    def verify(
        self,
        tables: list[str] | None,
        labels: LabelRange | None = None,
        *,
        source: bool = True,
        repair: bool = False,
        progress: Progress,
    ) -> list[ParityResult]:
        self.calls.append(("verify", tables, labels, source, *(["repair"] if repair else [])))
        return self.parity

    def resync(self, table: str, *, where: str = "", dry_run: bool, progress: Progress) -> ResyncResult:
        self.calls.append(("resync", table, dry_run, *filter(None, [where])))
        if dry_run:
            return ResyncResult(table=table, dry_run=True, found=self.parity[0])
        refreshed = refresh_result(table, rows=7, updated=2, deleted=3, version=9)
        return ResyncResult(table=table, dry_run=False, refreshed=refreshed)

    def check(
        self, table: str, labels: LabelRange | None = None, *, progress: Progress
    ) -> list[ConstraintResult]:
        self.calls.append(("check", table, labels))
        return self.constraints

    def alter(self, table: str, what: str, value: str | None) -> AlterResult:
        self.calls.append(("alter", table, what, value))
        return AlterResult(
            table=table, freshness=value or "", mode="INCREMENTAL", mode_reason="", file="DOWNSTREAM"
        )

    def suspend(self, table: str) -> None:
        self.calls.append(("suspend", table))

    def resume(self, table: str) -> None:
        self.calls.append(("resume", table))

    def evaluations(self, table: str | None = None) -> list[CheckEvaluation]:
        self.calls.append(("evaluations", table))
        found = [r for r in self.parity if table in (None, r.table)]
        return [CheckEvaluation.of(r) for r in found]

    def describe(self, table: str) -> dict[str, Any]:
        if table != "stg.orders":
            raise UnknownName(f"no table `{table}`")
        return {"table": table, "columns": [{"name": "id", "type": "bigint"}]}

    def partitions(self, table: str) -> list[dict[str, Any]]:
        if table != "stg.orders":
            raise TerminalError(f"`{table}` has no partitions by time")
        return [{"label": "2026112209", "outcome": "EQUAL"}]

    def show(self) -> list[dict[str, Any]]:
        return [{"table": "stg.orders", "state": "RUNNING"}]

    def load(self, source: str, *, progress: Progress) -> LoadResult:
        return LoadResult(source=source, loaded=True, lsn=7, rows=3)

    def changes(self, table: str, start: Start, reader: str | None, /) -> ChangePage:
        """One version a page; the table stands at version 7, and at one more each time a follower waits."""
        self.calls.append(("changes", table, start, reader))
        if start == 99:
            raise TerminalError("the changes after version 99 are gone")
        after = 7 if start == "LATEST" else -1 if start == "SNAPSHOT" else start or 0
        assert isinstance(after, int)
        through = 7 if after < 0 else min(after + 1, self.head)
        rows = self.rows if through > after else self.rows.slice(0, 0)
        rows = rows.append_column("_version", pa.array([through] * rows.num_rows, pa.int64()))
        return ChangePage(rows, after, through, self.head)

    def rewind(
        self, table: str, to: int | datetime, *, cascade: bool, dry_run: bool, progress: Progress
    ) -> RewindResult:
        self.calls.append(("rewind", table, to, cascade, dry_run))
        rewound = RewoundTable(
            table=table,
            from_version=7,
            to_version=5,
            committed_at=datetime(2026, 11, 20, 10, tzinfo=UTC),
            version=7 if dry_run else 8,
            done=False,
            inserted=1,
            updated=2,
            deleted=3,
            frontier={"shop.public.orders": {0: 12}},
        )
        suspended = [] if dry_run else [table]
        return RewindResult(table=table, dry_run=dry_run, tables=[rewound], suspended=suspended)

    def erase(
        self,
        table: str,
        key: tuple[tuple[str | None, str], ...],
        /,
        *,
        history: bool,
        dry_run: bool,
        progress: Progress,
    ) -> EraseResult:
        self.calls.append(("erase", table, key, history, dry_run))
        places = [
            ErasedPlace(table=table, place="changelog", what="change rows", found=4, left=4 * dry_run),
            ErasedPlace(table=table, place="tombstones", what="keys", found=0, left=1, kept=True),
            ErasedPlace(table=table, place="topic", what="messages", found=3, left=self.kept_messages),
        ]
        key_texts = {name or "order_id": value for name, value in key}
        return EraseResult(
            table=table,
            key=key_texts,
            dry_run=dry_run,
            in_source=int(dry_run),
            places=places,
            notes=["a note"],
        )

    def immutable(self, table: str, before: str | None, *, progress: Progress) -> ImmutableResult:
        self.calls.append(("immutable", table, before))
        return ImmutableResult(table=table, before=before or "", was="2026112000")

    def rollback(self, table: str, *, progress: Progress) -> ApplyResult:
        self.calls.append(("rollback", table))
        return ApplyResult(dry_run=False, tables=[])

    def publish(self, table: str, *, dry_run: bool, progress: Progress) -> PublishResult:
        self.calls.append(("publish", table, dry_run))
        return self.published.model_copy(update={"table": table})

    def readers(self, table: str | None = None) -> list[dict[str, Any]]:
        return [
            {
                "table": "stg.orders",
                "reader": "audit",
                "position": 5,
                "behind": 2,
                "progressed_at": datetime(2026, 1, 1, tzinfo=UTC),
                "expired": False,
            }
        ]

    def apply(
        self,
        edit: Callable[[Project], Edit] | None = None,
        /,
        *,
        blue_green: bool = False,
        dry_run: bool = False,
        progress: Progress,
    ) -> ApplyResult:
        made = edit(self.project) if edit is not None else None
        self.calls.append(("apply", made, dry_run))
        tables = [] if made is None else [made.path.stem]
        return ApplyResult(
            dry_run=dry_run,
            tables=[
                AppliedTable(
                    table=t, change="ADDED", what=[], begins_again=False, downstream=[], partitions=0, bytes=0
                )
                for t in tables
            ],
        )

    def drop_reader(self, reader: str, table: str, /) -> None:
        self.calls.append(("drop_reader", reader, table))

    def dead_letters(self, table: str | None = None, *, settled: bool = False) -> list[dict[str, Any]]:
        found = [letter for letter in self.letters if table in (None, letter["table"])]
        return [letter for letter in found if settled or letter.get("outcome") is None]

    def accounting(self, table: str) -> TableAccount:
        self.calls.append(("accounting", table))
        return self.account.model_copy(update={"table": table})

    def quarantine(self, table: str, *, progress: Progress) -> pa.Table:
        self.calls.append(("quarantine", table))
        return self.rows

    def replay_dead_letters(
        self, table: str, at: tuple[tuple[int, int], ...], /, *, progress: Progress
    ) -> DeadLettersResult:
        self.calls.append(("replay_dead_letters", table, at))
        refused = [{"partition": 0, "offset": 9, "reason": "not JSON"}] if (0, 9) in at else []
        return DeadLettersResult(table=table, replayed=len(at) - len(refused), refused=refused)

    def drop_dead_letters(
        self, table: str, at: tuple[tuple[int, int], ...], reason: str, /
    ) -> DeadLettersResult:
        self.calls.append(("drop_dead_letters", table, at, reason))
        return DeadLettersResult(table=table, dropped=len(at))


@dataclass
class Gateway:
    settings: Settings
    warehouse: FakeWarehouse
    service: Service
    token: str


@contextmanager
def serve(
    directory: Path,
    *,
    warehouse: FakeWarehouse | None = None,
    until_started: bool = True,
    write: Callable[[Path], Path] = write_project,
    overview: Callable[[Settings], Overview] | None = None,
) -> Iterator[Gateway]:
    """A gateway on a free port; stopped at the end with everything that it started.

    Args:
        write: writes the project into the directory.
        overview: makes what tells of the project; None: commands look themselves.
    """
    project = load_project(write(directory))
    settings = Settings(project=directory, gateway_port=free_port())
    settings.gateway_token.parent.mkdir(parents=True)
    settings.gateway_token.write_text("secret\n")
    fake = warehouse or FakeWarehouse()

    fake.project = project

    def build() -> FakeWarehouse:
        return fake

    service = Service(build, ResultRows(settings.state / "results", limit_bytes=8 << 20))
    config = uvicorn.Config(
        create_app(
            service,
            token="secret",
            read_token="reader",
            overview=overview(settings) if overview is not None else None,
        ),
        port=settings.gateway_port,
        log_config=None,
        lifespan="off",
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    service.start()
    thread.start()
    try:
        wait_until(lambda: server.started)
        if until_started:
            wait_until(lambda: service.health()["state"] != "starting")
        yield Gateway(settings, fake, service, "secret")
    finally:
        fake.go_on.set()
        service.drain()
        server.should_exit = True
        thread.join()
        service.close()


def wait_until(condition: Callable[[], bool]) -> None:
    """Return as soon as the condition holds; fail after PATIENCE."""
    tick, end = threading.Event(), time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, "the condition never held"
        tick.wait(0.01)
