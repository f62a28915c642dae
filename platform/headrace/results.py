"""What statements answer. Plain data that crosses the gateway as JSON; no Spark import."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal, cast

from pydantic import BaseModel, Field

from headrace.encoding import encode

if TYPE_CHECKING:
    import pyarrow as pa

State = Literal["INITIALIZING", "RUNNING", "SUSPENDED", "FAILED", "NEEDS RESYNC"]


class _Result(BaseModel, defer_build=True):
    """Its validation is built when it is first used: a command needs two or three of all of these."""


class PublishStatus(_Result):
    """How far the published table of a table is."""

    target: str = Field(description="table, host and database")
    version: int = Field(description="changelog version that it has; -1 before its first rows")
    behind: int = Field(description="versions that it lacks")
    measured_p90: float | None = Field(
        default=None,
        description="from the source's commit to the target's, what nine in ten kept in the last minute",
    )
    error: str | None = None


class TableStatus(_Result):
    """One line of `headrace status`. Seconds throughout."""

    table: str
    mode: str
    state: State
    strategy: str
    declared_freshness: float | None
    measured_freshness: float | None = Field(
        default=None, description="from the source's commit to this table's, newest change applied"
    )
    measured_p50: float | None = Field(default=None, description="as `measured_p90`, of half of the commits")
    measured_p90: float | None = Field(
        default=None,
        description="what nine in ten commits kept: of the last minute, or where the table does not stream "
        "of the last five times its freshness; None without any",
    )
    freshness_to_keep: float | None = Field(
        default=None, description="declared, or of the tightest table that reads it"
    )
    rows: int | None = None
    version: int = Field(default=-1, description="latest changelog version; -1 before the first commit")
    snapshot_version: int = Field(default=-1, description="changelog version the snapshot stands at")
    tail_rows: int = 0
    lag: int | None = Field(default=None, description="events or upstream versions not yet applied")
    dead_letters: int = 0
    last_error: str | None = None
    warnings: list[str] = []
    alarms: list[str] = Field(
        default=[], description="what makes the table late, or loses input if nobody acts"
    )
    frontier: dict[str, Any] = {}
    run_mode: str = Field(default="real-time", description="who writes the table, as a layer file says it")
    watermark: datetime | None = Field(
        default=None, description="commit time at the source up to which everything is in the table"
    )
    complete_through: str | None = Field(default=None, description="newest complete partition")
    outcomes: int = Field(default=0, description="outcomes of complete partitions so far; see `turn`")
    late_changes: int = Field(default=0, description="changes of complete partitions let be, by policy")
    quarantined: int | None = Field(
        default=None, description="rows in quarantine when they were counted last; None before"
    )
    quarantined_by: dict[str, int] = Field(default={}, description="of these, those that break a constraint")
    published: PublishStatus | None = Field(default=None, description="None of a table that is not published")
    accounting: dict[str, int] = Field(
        default={},
        description="sums over the table's commits: rows inserted, updated and deleted; of a stg table what "
        "became of its events; since version `since`, when it had `began` rows",
    )

    @property
    def late(self) -> bool:
        """Whether nine in ten commits of late have not kept what is declared."""
        declared, measured = self.freshness_to_keep, self.measured_p90
        return declared is not None and measured is not None and measured > declared


class JvmStatus(_Result):
    """What the warehouse server's JVM has done since it started. Micro-batches should compile nothing."""

    java: str
    processor_seconds: float = Field(description="of all its threads")
    compiler_seconds: float = Field(
        description="of these, of the JVM's own compilers; outside Linux elapsed in them"
    )
    classes_generated: int = Field(description="by Spark, for expressions, and compiled")
    micro_batches: int = Field(description="of all flows")


Work = Literal["stream", "schedule", "backfill", "verify", "compaction"]
"""What a table is worked on for: advanced by its flow or by schedule, run again in batch, compared."""


class TableCost(_Result):
    """One line of `SHOW COSTS`: what one kind of work for a table has taken."""

    table: str = Field(description="empty: what flows do for all of their tables together")
    work: Work
    core_seconds: float = Field(description="processor time of the warehouse server and its JVM")
    seconds: float = Field(description="by the clock")
    runs: int
    changes: int = Field(description="rows that it changed")


class SourceState(_Result):
    """What was last seen of a source and its connector."""

    source: str
    answers: bool = Field(description="whether its database does")
    connector: str | None = Field(description="its state; None where Kafka Connect does not answer")
    slot_lag: int | None = Field(
        default=None, description="bytes of log that its server keeps for the connector; None without a slot"
    )
    alarms: int = 0
    warnings: int = 0


class CompletePartition(_Result):
    """One line of `SHOW PARTITIONS`."""

    label: str
    rows: int | None = Field(
        default=None, description="of the partition now; None before the table is compacted, or applied"
    )
    outcome: str = Field(description="WAITING before its run has ended")
    watermark: datetime = Field(description="of the table when the partition was found complete")
    completed_at: datetime
    finished_at: datetime | None = Field(description="when the outcome was known")
    runs: int = Field(description="runs that have ended")
    reopened: int = Field(description="how often late data has opened it again")
    detail: str
    version: int = Field(description="changelog version at the outcome")
    turn: int = Field(description="place of the outcome among those of the table's partitions; 0 without any")


class PublishResult(_Result):
    """`ALTER … PUBLISH`: what of a published table was not what its table is."""

    table: str
    target: str = Field(description="table, host and database")
    version: int = Field(description="changelog version whose rows were compared")
    rows: int = Field(description="of the table at that version")
    missing: int = Field(description="rows that the target lacked")
    different: int = Field(description="rows that were others under the same key")
    extra: int = Field(description="rows that only the target had")
    examples: list[dict[str, str]] = Field(default=[], description="keys of some of them")

    @property
    def equal(self) -> bool:
        return not (self.missing or self.different or self.extra)


class PlannedTable(_Result):
    """One line of `headrace plan`."""

    table: str
    mode: str
    mode_reason: str
    strategy: str | None = Field(
        description="None where it depends on source columns that nobody can tell now"
    )
    strategy_reason: str | None
    freshness: str
    partitioned_by: str | None
    reads: list[str]


class PlannedProject(_Result):
    """What `headrace plan` tells."""

    tables: list[PlannedTable]
    notes: list[str]
    changes: list[dict[str, Any]] | None = Field(
        description="what differs from what was applied last, by the texts alone; None where nothing ever was"
    )


class AlterResult(_Result):
    """`ALTER … SET` and `RESET`: what the table is to be now, and which tables' modes followed."""

    table: str
    freshness: str = Field(description="as a layer file says it")
    mode: str
    mode_reason: str
    file: str = Field(description="what the table's file says of what was altered; empty for nothing")
    moved: dict[str, str] = Field(default={}, description="new mode of every table that has another one now")


class AppliedTable(_Result):
    """One table that `APPLY` changes: what and why, then what came of it."""

    table: str
    change: Literal["ADDED", "REMOVED", "LOGIC", "RECOMPUTED", "PROPERTIES"]
    what: list[str] = Field(description="parts of the definition that differ")
    begins_again: bool = Field(description="columns, key or partition differ: its changes so far go")
    downstream: list[str] = Field(description="tables that read it, directly or not, where its rows change")
    partitions: int = Field(description="of its snapshot before")
    bytes: int = Field(description="of its snapshot's files before")
    refreshed: RefreshResult | None = None


class ApplyResult(_Result):
    """`APPLY`, `CREATE`, `ALTER … AS`, `… ROLLBACK` and `DROP`. After a dry run nothing is refreshed."""

    dry_run: bool
    halts: list[str] = Field(default=[], description="why tables cannot run as their sources are")
    tables: list[AppliedTable]
    proofs: list[ParityResult] = Field(default=[], description="BLUE GREEN: of the tables built aside")
    seconds: float = 0.0


class RefreshResult(_Result):
    table: str
    start: str
    end: str
    partitions: list[str]
    rows: int = Field(description="rows of the range after the refresh")
    inserted: int
    updated: int
    deleted: int
    version: int
    seconds: float
    skipped: str = Field(default="", description="REFRESH NEW: why nothing was done, empty where it was")

    @property
    def changes(self) -> int:
        """Rows that are others than before."""
        return self.inserted + self.updated + self.deleted


WorkflowState = Literal["DUE", "RUNNING", "WAITING", "SUSPENDED"]


class WorkflowStatus(_Result):
    """One refresh workflow: a table that no flow advances. Seconds throughout."""

    table: str
    mode: str
    freshness: float = Field(description="to keep: declared, or of the tightest table that reads it")
    scheduler: Literal["warehouse", "dagster"] = Field(description="who begins its refreshes")
    state: WorkflowState
    due_in: float = Field(description="until its next refresh is due; 0 where it is")
    took: float | None = Field(default=None, description="the last refresh that succeeded")
    turn: str = Field(description="of the next refresh, or of the one under way; never used again")


class ImmutableResult(_Result):
    """`ALTER … SET IMMUTABLE WHERE` and `RESET IMMUTABLE`."""

    table: str
    before: str = Field(description="partitions with a lesser label stay as they are; empty for none")
    was: str = Field(description="the bound before")
    refreshed: RefreshResult | None = Field(default=None, description="set where partitions were opened")


class LoadResult(_Result):
    """`LOAD SOURCE`: a source's bulk snapshot, or why its connector must read it."""

    source: str
    loaded: bool
    reason: str = Field(default="", description="why not, where it was not loaded")
    lsn: int = Field(default=0, description="from where the connector's slot streams")
    rows: int = Field(default=0, description="read from the source")
    seconds: float = 0.0


class DifferingRow(_Result):
    """A row that only one side has. `side` names the side that has it."""

    side: Literal["table", "expected"]
    row: dict[str, Any]


class Repaired(_Result):
    """What `VERIFY … REPAIR` did to a table that differed."""

    partitions: list[str] = Field(description="partitions recomputed; empty for the whole table")
    missing: int = Field(description="rows that the table lacked")
    extra: int = Field(description="rows that it had too many")
    inserted: int
    updated: int
    deleted: int
    seconds: float


class ParityResult(_Result):
    """One comparison as multisets, exact. `against` is `batch` (the table's own SQL at its recorded
    frontier) or `source` (the captured table at a known position)."""

    table: str
    against: Literal["batch", "source"]
    equal: bool
    rows: int
    missing: int = Field(description="rows the table lacks")
    extra: int = Field(description="rows the table has too many")
    version: int
    frontier: dict[str, Any] = {}
    position: str | None = None
    partitions: list[str] = Field(default=[], description="partitions that differ")
    immutable_before: str = Field(default="", description="partitions before it were not compared")
    complete_through: str = Field(default="", description="the table has the partitions up to it; all: empty")
    since: int = Field(
        default=0,
        description="stg: the version of its own that its topic was applied to; 0: all of the topic to none",
    )
    sample: list[DifferingRow] = []
    seconds: float = 0.0
    error: str | None = None
    repaired: Repaired | None = Field(
        default=None, description="set where an earlier comparison differed; all else is the proof after it"
    )


class ResyncResult(_Result):
    """`ALTER … RESYNC`: what it changed or, after a dry run, what it would."""

    table: str
    dry_run: bool
    found: ParityResult | None = Field(default=None, description="a dry run: what differs")
    refreshed: RefreshResult | None = None


class DeadLettersResult(_Result):
    """What became of a stg table's open dead letters.

    `refused`: those that still cannot be applied, each with partition, offset and reason.
    """

    table: str
    replayed: int = 0
    dropped: int = 0
    refused: list[dict[str, Any]] = []


class CascadeTable(_Result):
    """One table of a cascade: what of it is run again and why, then what came of it."""

    table: str
    start: str = Field(description="empty for the whole table, as is `end`")
    end: str
    partitions: list[str] = Field(description="those that its snapshot has now")
    bytes: int = Field(description="of the files of these partitions")
    reason: str
    policy: str = Field(description="its own policy for corrections; empty for the first table")
    refreshed: RefreshResult | None = None
    proof: list[ParityResult] = []


class CascadeResult(_Result):
    """`REFRESH … CASCADE`, tables upstreams first. After a dry run nothing is refreshed or proven."""

    table: str
    start: str
    end: str
    dry_run: bool
    tables: list[CascadeTable]
    seconds: float = 0.0


class RewoundTable(_Result):
    """One table of a rewind. The counts are what the rewind changes, also after a dry run."""

    table: str
    from_version: int
    to_version: int = Field(description="the version whose rows and frontier came back")
    committed_at: datetime = Field(description="when that version was committed")
    version: int = Field(description="the table's version now")
    done: bool = Field(description="it stood there already")
    inserted: int
    updated: int
    deleted: int
    frontier: dict[str, Any] = Field(description="from where the table goes on once it is resumed")


class RewindResult(_Result):
    """`ALTER … REWIND TO`, tables upstreams first. After a dry run nothing has changed."""

    table: str
    dry_run: bool
    tables: list[RewoundTable]
    suspended: list[str] = Field(description="tables that rest now, until they are resumed")
    seconds: float = 0.0


class ErasedPlace(_Result):
    """One place that may hold a key: how much of it was found there, and is left."""

    table: str
    place: Literal["changelog", "snapshot", "tombstones", "dead letters", "topic"]
    what: str = Field(description="what is counted")
    found: int
    left: int = Field(description="counted again at the end; after a dry run what was found")
    kept: bool = Field(
        default=False,
        description="what is left stays: the key and the place of its delete, so that nothing older brings "
        "the row back",
    )


class EraseResult(_Result):
    """`ALTER … ERASE KEY`, tables upstreams first. After a dry run nothing has changed."""

    table: str
    key: dict[str, str]
    dry_run: bool
    in_source: int = Field(description="rows of the key that the source has; with any nothing is erased")
    places: list[ErasedPlace]
    notes: list[str] = Field(
        default=[], description="what was not reached and why, each with what comes next"
    )
    seconds: float = 0.0

    @property
    def complete(self) -> bool:
        """Whether nothing is left in any of the places."""
        return not any(place.left and not place.kept for place in self.places)


EXAMPLES = 10
"""Of what breaks a constraint or an expectation, so many are shown."""


class ConstraintResult(_Result):
    """What one constraint, or one expectation of the table's suite, found."""

    table: str
    constraint: str
    on_violation: str
    passed: bool
    violations: int
    rows: int
    observed: Any = Field(default=None, description="what an expectation about all of the rows saw")
    sample: list[dict[str, Any]] = Field(
        default=[], description="some rows that break it; of an expectation about a column its values there"
    )
    error: str | None = Field(default=None, description="why it could not be evaluated, with its place")


PARITY = {"batch": "parity", "source": "source_parity"}
"""The check that a comparison is, by what the table is compared with."""

ACCOUNTING = "accounting"
"""The check that rows and events of a table add up."""


class CheckEvaluation(_Result):
    """What a check of a table found last. `SHOW CHECKS`."""

    table: str
    check: str = Field(description="a comparison, `accounting`, or a constraint or expectation by its name")
    kind: Literal["parity", "accounting", "constraint"]
    passed: bool
    labels: str = Field(default="", description="the partitions it was about; empty for the whole table")
    evaluated_at: datetime
    result: dict[str, Any] = Field(description="a ParityResult, TableAccount or ConstraintResult")

    @property
    def found(self) -> str:
        """What it found, in words."""
        told = self.result
        match self.kind:
            case "parity":
                return told["error"] or (
                    f"{told['rows']:,} rows, {told['missing']:,} missing, {told['extra']:,} extra"
                )
            case "accounting":
                return "; ".join(told["problems"]) or f"{told['rows']:,} rows, {told['commits']:,} commits"
        return told["error"] or f"{told['violations']:,} of {told['rows']:,} rows violate it"

    @classmethod
    def of(cls, result: ParityResult | TableAccount | ConstraintResult, labels: str = "") -> CheckEvaluation:
        """The evaluation that a result is, now."""
        match result:
            case ParityResult():
                kind, check = "parity", PARITY[result.against]
                passed = result.equal and result.error is None
            case TableAccount():
                kind, check, passed = "accounting", ACCOUNTING, result.balanced
            case ConstraintResult():
                kind, check, passed = "constraint", result.constraint, result.passed
        return cls(
            table=result.table,
            check=check,
            kind=cast(Literal["parity", "accounting", "constraint"], kind),
            passed=passed,
            labels=labels,
            evaluated_at=datetime.now(UTC),
            result=cast(dict[str, Any], encode(result)),
        )


def evaluations(
    results: Iterable[ParityResult | TableAccount | ConstraintResult], labels: object
) -> list[CheckEvaluation]:
    """The evaluations that these results are, now, about these labels; None: the whole table."""
    return [CheckEvaluation.of(result, "" if labels is None else str(labels)) for result in results]


class RefreshDecision(_Result):
    """How one refresh ran, why, and what was expected of the alternatives."""

    committed_at: datetime | None = None
    version: int = Field(default=-1, description="that it made")
    chosen: str
    path: str = Field(description="driver, arrow, cluster, `driver, then cluster`, or load")
    why: str
    estimates: dict[str, float] = Field(description="expected seconds by candidate")
    seconds: float = Field(description="of the work, up to its commit")
    rows_in: int = Field(description="change rows of the upstreams")
    rows_out: int = Field(description="change rows of the table")
    driving: int = 0
    upstream: int = 0
    table: int = 0
    changes: dict[str, str] = Field(default={}, description="what happened to each upstream")
    shadow: dict[str, float] = Field(default={}, description="seconds of an alternative run to compare")


class PropertyDecision(_Result):
    """One change of a table's freshness or mode, and why it was made."""

    at: datetime
    what: str = Field(description="FRESHNESS or REFRESH_MODE; MEASURED for a freshness kept or missed")
    was: str = Field(description="as a layer file says it, as is `became`")
    became: str
    why: str


class CommitAccount(_Result):
    """One commit of a table: what it read, and what it did to the rows."""

    version: int
    committed_at: datetime | None = None
    mode: str
    partitions: int | None = Field(default=None, description="that it touched; None where nobody counted")
    reads: dict[str, int] = Field(default={}, description="change rows by upstream")
    before: int = Field(description="rows of the table before it")
    miscounted: int = Field(default=0, description="rows beyond what the commit before says: damage repaired")
    inserted: int
    updated: int
    deleted: int
    after: int
    events: dict[str, Any] = Field(default={}, description="what became of a stg table's events")


class TableAccount(_Result):
    """`SHOW ACCOUNTING T`: whether rows and events of a table add up."""

    table: str
    version: int
    rows: int
    totals: dict[str, int] = Field(description="as `accounting` of `status`")
    commits: int = Field(description="of the newest, those that were looked at one by one")
    snapshot_version: int | None = Field(description="at which the snapshot's rows were counted")
    snapshot_rows: int | None = None
    balanced: bool
    problems: list[str] = []


class Explanation(_Result):
    """`headrace explain T`."""

    table: str
    freshness: str = Field(description="as a layer file says it")
    freshness_origin: str = Field(description="who says it")
    refresh_mode: str
    mode_reason: str
    strategy: str
    strategy_reason: str
    refused: dict[str, str] = Field(default={}, description="strategy not taken: why")
    upstreams: list[str]
    flow: list[str] = Field(default=[], description="tables that advance in the same micro-batch")
    notes: list[str] = []
    run_mode: str = "real-time"
    completion: str = Field(default="", description="when a partition is complete; empty without partitions")
    decisions: list[PropertyDecision] = Field(
        default=[], description="how freshness and mode came to be, newest first"
    )
    history: list[RefreshDecision] = Field(default=[], description="past refreshes, newest first")
    accounts: list[CommitAccount] = Field(default=[], description="past commits, newest first")


Start = int | Literal["SNAPSHOT", "LATEST"] | None
"""Where a subscriber begins: after a version, with the rows as they are, with what comes next, or (None) at
its reader's position, else with the oldest change there is."""


@dataclass(frozen=True)
class ChangePage:
    """Changes of whole versions `(after, through]`, in order.

    Args:
        rows: `_version`, `_kind` (`+I -U +U -D`), `_origin` (`stream`, `backfill` or `rewind`), then the
            table's columns.
        after: -1 where the rows are the table itself at `through`, each as `+I`.
        head: the table's version when this was read: more follows where it is greater than `through`.
    """

    rows: pa.Table
    after: int
    through: int
    head: int


class Accounting(_Result):
    """What became of the events of one stg commit: `events` is the sum of all the others.

    An event is counted by what it did to the table. `folded` ones were followed by a later one of their key
    in the same batch. `unchanged` ones left the row as it was, or there was none to delete. Where the table
    has no row of the key, neither before nor after, its query or a DROP ROW constraint has `filtered` it, or
    it is `quarantined`, by the first constraint that it breaks; a row that leaves the table so is `deleted`.
    `truncates` are the source's TRUNCATEs; the rows that went with them and that no other event was about are
    `truncated`, which are no events.
    """

    events: int = 0
    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    folded: int = 0
    unchanged: int = 0
    filtered: int = 0
    quarantined: dict[str, int] = {}
    duplicate: int = 0
    tombstones: int = 0
    dead_letters: int = 0
    truncates: int = 0
    truncated: int = 0

    def leave_out(self, counts: Mapping[str, int]) -> None:
        """Note events whose rows stayed out of the table, by the QUARANTINE constraint; "" for none."""
        self.filtered = counts.get("", 0)
        self.quarantined = {name: n for name, n in counts.items() if name and n}

    def balanced(self) -> bool:
        applied = self.inserted + self.updated + self.deleted + self.folded + self.unchanged + self.truncates
        out = self.filtered + sum(self.quarantined.values()) + self.dead_letters
        whole = self.model_dump(exclude={"quarantined"}).values()
        least = min([*whole, *self.quarantined.values()])
        return self.events == applied + out + self.duplicate + self.tombstones and least >= 0


class Statement(_Result):
    """A submitted statement, as the gateway shows it."""

    id: str
    kind: str = Field(default="", description="which statement, by its class in `gateway.statements`")
    text: str
    state: Literal["QUEUED", "RUNNING", "SUCCEEDED", "FAILED", "CANCELLED"]
    message: str = ""
    done: int | None = None
    total: int | None = None
    error: str | None = None
    result: Any = None
    has_rows: bool = False
