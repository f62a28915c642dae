"""What each run mode does with complete partitions: the registry that a further mode joins."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from headrace.catalog import Catalog
from headrace.engine.flow.flow import Flow
from headrace.engine.flow.publication import Publication
from headrace.engine.flow.rejoin import between_batches
from headrace.engine.partitions.completion import Action, Outcome, PartitionCompletion
from headrace.engine.partitions.offline import Offline, Run
from headrace.engine.partitions.offline_run import write_run
from headrace.engine.proof.verify import Proof
from headrace.engine.spark.job_group import JobGroup
from headrace.engine.spark.sessions import Sessions
from headrace.engine.supervisor.admission import Admission
from headrace.engine.supervisor.schedule import outdated
from headrace.engine.table.immutable import protect
from headrace.engine.table.table import Registry, Table
from headrace.errors import TransientError
from headrace.progress import Progress
from headrace.results import ParityResult, RefreshResult
from headrace.spec.partitions.completion import RunMode
from headrace.spec.partitions.label_range import LabelRange
from headrace.spec.partitions.labels import label_after, label_range

EQUAL, REPAIRED, DIFFERS = "EQUAL", "REPAIRED", "DIFFERS"
"""Outcomes of a double run: the batch gives the same; it did not, and does now; it does not, even so."""

SETTLED = "SETTLED"
"""Outcome of a business period: the batch has written it, and nothing changes it any more."""

Prove = Callable[[Table, LabelRange | None], ParityResult]
"""Compares a range of a table with its SQL in batch."""

Recompute = Callable[[Table, LabelRange | None], RefreshResult]
"""Lets a range of a table be what its SQL gives in batch."""


def actions(prove: Prove, recompute: Recompute) -> Mapping[RunMode, Action]:
    """The action of every run mode that has one."""
    return {RunMode.DOUBLE: double_run(prove, recompute), RunMode.BUSINESS: settle(prove, recompute)}


def double_run(prove: Prove, recompute: Recompute) -> Action:
    """The same SQL in batch, compared with what the stream wrote; what differs is recomputed."""

    def run(table: Table, span: LabelRange) -> dict[str, Outcome]:
        labels = label_range(table.spec, span)
        before = _compared(prove(table, span))
        if before.equal:
            return dict.fromkeys(labels, Outcome(EQUAL))
        wrong = frozenset(before.partitions) & frozenset(labels)
        done = recompute(table, LabelRange.exactly(wrong) if wrong else span)
        after = _compared(prove(table, span))
        detail = (
            f"batch had {before.missing} rows that the table lacked, the table {before.extra} that batch had "
            f"not; {done.inserted} inserted, {done.updated} updated, {done.deleted} deleted"
        )
        found = {label: Outcome(REPAIRED, detail) for label in wrong}
        found |= {label: Outcome(DIFFERS, detail) for label in after.partitions}
        return {label: found.get(label, Outcome(EQUAL)) for label in labels}

    return run


def settle(prove: Prove, recompute: Recompute) -> Action:
    """The batch writes the period's partitions; proven, they are closed: immutable from then on."""

    def run(table: Table, span: LabelRange) -> dict[str, Outcome]:
        labels = label_range(table.spec, span)
        done = recompute(table, span)
        after = _compared(prove(table, span))
        detail = f"{done.inserted} inserted, {done.updated} updated, {done.deleted} deleted by the batch"
        if not after.equal:
            return dict.fromkeys(labels, Outcome(DIFFERS, detail))
        protect(table, label_after(table.spec, span.end), run_id="settled")
        return dict.fromkeys(labels, Outcome(SETTLED, detail))

    return run


def _compared(result: ParityResult) -> ParityResult:
    if result.error is not None:
        raise TransientError(f"`{result.table}` cannot be compared: {result.error}. Next: `headrace status`")
    return result


def offline_writer(
    catalog: Catalog,
    sessions: Sessions,
    registry: Registry,
    flows: Sequence[Flow],
    admission: Admission,
    publication: Publication,
    run_id: str,
) -> Offline:
    """What writes the tables that no stream writes."""

    def write(table: Table, run: Run, progress: Progress) -> RefreshResult:
        with JobGroup(sessions.batch, progress, sessions.statements):
            result = write_run(sessions, registry, table, run, run_id, progress)
        publication.corrected(table)
        return result

    def cut(table: Table) -> dict[str, int]:
        with between_batches(flows, registry.upstreams(table)):
            return registry.versions(table)

    def outcome(table: Table, error: Exception | None) -> None:
        if error is not None:
            catalog.observe(table.name, "FAILED", str(error))
        elif admission.wanted(table.name):
            catalog.observe(table.name, "RUNNING")

    return Offline(
        catalog,
        registry,
        write=write,
        cut=cut,
        runs=lambda table: admission.wanted(table.name) and outdated(table) is None,
        outcome=outcome,
    )


def partition_completion(
    catalog: Catalog,
    sessions: Sessions,
    registry: Registry,
    flows: Sequence[Flow],
    offline: Offline,
    proof: Proof,
    publication: Publication,
) -> PartitionCompletion:
    """What completes the partitions of the registry's tables, not yet started."""

    def prove(table: Table, labels: LabelRange | None) -> ParityResult:
        with JobGroup(sessions.batch, Progress(), sessions.statements):
            (result,) = proof.prove(table, labels)
        return result

    def recompute(table: Table, labels: LabelRange | None) -> RefreshResult:
        with JobGroup(sessions.batch, Progress(), sessions.statements):
            result = proof.refresh(table, labels, progress=Progress())
        publication.corrected(table)
        return result

    return PartitionCompletion(
        catalog,
        registry,
        actions(prove, recompute),
        offline=offline,
        runs=lambda table: catalog.row(table.name).state == "RUNNING",
        loading=lambda _: any(flow.loading for flow in list(flows)),
    )
