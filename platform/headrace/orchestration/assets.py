"""One asset a table: materializing it submits the batch job over the chosen partitions as one statement."""

# No `from __future__ import annotations`: Dagster compares the context's annotation with its classes.

from typing import TYPE_CHECKING, Any

import dagster as dg

from headrace.errors import HeadraceError
from headrace.orchestration import statements
from headrace.orchestration.gateway import GatewayResource, run_statement
from headrace.orchestration.partitions import label_of_key
from headrace.orchestration.specs import column_metadata
from headrace.results import RefreshResult
from headrace.spec.model import TableSpec
from headrace.spec.partitions.label_range import LabelRange

if TYPE_CHECKING:
    from headrace.gateway.client import GatewayClient


def asset_of(spec: TableSpec, asset: dg.AssetSpec) -> dg.AssetsDefinition:
    """The executable asset of a table."""

    @dg.multi_asset(
        name=f"refresh_{spec.name.layer}_{spec.name.table}",
        specs=[asset],
        backfill_policy=dg.BackfillPolicy.single_run() if asset.partitions_def else None,
    )
    def refresh(context: dg.AssetExecutionContext, gateway: GatewayResource) -> dg.MaterializeResult[Any]:
        labels = labels_of(context, spec) if asset.partitions_def else None
        with gateway.client() as client:
            statement = run_statement(client, statements.refresh(spec, labels), context.log)
            result = RefreshResult.model_validate(statement.result)
            if labels is not None:
                _report_partitions(context, client, spec, labels)
        metadata = result_metadata(result, labels) | column_metadata(asset)
        return dg.MaterializeResult(asset_key=asset.key, metadata=metadata)

    return refresh


def labels_of(
    context: dg.AssetExecutionContext | dg.AssetCheckExecutionContext, spec: TableSpec
) -> LabelRange | None:
    """The partitions of the table the run was started for; None where it has none."""
    if not (context.has_partition_key or context.has_partition_key_range):
        return None
    keys = context.partition_key_range
    return LabelRange(label_of_key(spec, keys.start), label_of_key(spec, keys.end))


def rows_by_label(client: "GatewayClient", spec: TableSpec, labels: LabelRange | None) -> dict[str, int]:
    """Rows of each partition of the range that has any, by a live read."""
    rows = client.query(statements.rows_by_label(spec, labels)).to_pylist()
    return {row["label"]: row["n"] for row in rows if row["label"] is not None}


def _report_partitions(
    context: dg.AssetExecutionContext, client: "GatewayClient", spec: TableSpec, labels: LabelRange
) -> None:
    try:
        rows = rows_by_label(client, spec, labels)
    except HeadraceError as error:  # the refresh itself is committed
        context.log.warning(f"rows per partition are not known: {error}")
        return
    for key in context.partition_keys:
        count = rows.get(label_of_key(spec, key), 0)
        context.add_asset_metadata({"dagster/partition_row_count": count}, partition_key=key)


def result_metadata(result: RefreshResult, labels: LabelRange | None) -> dict[str, Any]:
    """What a materialization shows of a refresh; `labels` are those that were asked for."""
    changed = {"inserted": result.inserted, "updated": result.updated, "deleted": result.deleted}
    count = {"dagster/row_count": result.rows} if labels is None else {"rows_in_range": result.rows}
    return {
        **count,
        **changed,
        "version": result.version,
        "seconds": round(result.seconds, 3),
        "partitions": len(result.partitions),
        "range": f"{result.start} … {result.end}" if labels else "whole table",
    }
