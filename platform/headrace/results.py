"""What statements answer. Plain data that crosses the gateway as JSON; no Spark import."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, Field

State = Literal["INITIALIZING", "RUNNING", "SUSPENDED", "FAILED", "NEEDS RESYNC"]


class TableStatus(BaseModel):
    """One line of `headrace status`. Seconds throughout."""

    table: str
    mode: str
    state: State
    strategy: str
    declared_freshness: float | None
    measured_freshness: float | None = Field(
        default=None, description="from the source's commit to this table's, newest change applied"
    )
    rows: int | None = None
    version: int = Field(default=-1, description="latest changelog version; -1 before the first commit")
    snapshot_version: int = Field(default=-1, description="changelog version the snapshot stands at")
    tail_rows: int = 0
    lag: int | None = Field(default=None, description="events or upstream versions not yet applied")
    dead_letters: int = 0
    last_error: str | None = None
    frontier: dict[str, Any] = {}


class RefreshResult(BaseModel):
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


class DifferingRow(BaseModel):
    """A row that only one side has. `side` names the side that has it."""

    side: Literal["table", "expected"]
    row: dict[str, Any]


class ParityResult(BaseModel):
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
    sample: list[DifferingRow] = []
    seconds: float = 0.0
    error: str | None = None


class ConstraintResult(BaseModel):
    table: str
    constraint: str
    on_violation: str
    passed: bool
    violations: int
    rows: int


class Explanation(BaseModel):
    """`headrace explain T`."""

    table: str
    refresh_mode: str
    mode_reason: str
    strategy: str
    strategy_reason: str
    refused: dict[str, str] = Field(default={}, description="strategy not taken: why")
    upstreams: list[str]
    flow: list[str] = Field(default=[], description="tables that advance in the same micro-batch")
    notes: list[str] = []


class Accounting(BaseModel):
    """What became of the events of one stg commit: `events` is the sum of all the others.

    `folded` events were followed by a later one of their key in the same batch; `unchanged` ones left the
    table's row as it was (or are filtered by its query).
    """

    events: int = 0
    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    folded: int = 0
    unchanged: int = 0
    duplicate: int = 0
    tombstones: int = 0
    quarantined: int = 0

    def balanced(self) -> bool:
        applied = self.inserted + self.updated + self.deleted + self.folded + self.unchanged
        parts = applied + self.duplicate + self.tombstones + self.quarantined
        return self.events == parts and min(self.model_dump().values()) >= 0


class Statement(BaseModel):
    """A submitted statement, as the gateway shows it."""

    id: str
    text: str
    state: Literal["QUEUED", "RUNNING", "SUCCEEDED", "FAILED", "CANCELLED"]
    message: str = ""
    done: int | None = None
    total: int | None = None
    error: str | None = None
    result: Any = None
    has_rows: bool = False
