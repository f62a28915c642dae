"""What a table's new rows must hold to: FAIL constraints and the primary key."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from headrace.engine.rows.diff import check_unique, duplicate_key
from headrace.engine.spark.query import VIOLATED, with_violations
from headrace.engine.table.table import Table
from headrace.errors import ConstraintViolated
from headrace.store.schema import INSERT, KIND, UPDATE_AFTER

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def check_violations(result: pa.Table, table: Table) -> None:
    """Raises ConstraintViolated where a row breaks a FAIL constraint."""
    for position, constraint in enumerate(table.spec.constraints):
        column = f"{VIOLATED}{position}"
        if column not in result.column_names:
            continue
        broken = result.filter(result.column(column))
        if broken.num_rows:
            shown = {c: broken.column(c)[0].as_py() for c in table.store.schema.key}
            raise ConstraintViolated(
                f"{constraint.location}: `{table.name}`: {broken.num_rows} rows break constraint "
                f"`{constraint.name}` EXPECT ({constraint.expression}), the first with key {shown}; nothing "
                "was committed. Next: correct the data or the constraint, then "
                f"`headrace resume {table.name}`"
            )


def check_changes(changes: DataFrame, table: Table) -> None:
    """Constraints and key uniqueness of the rows a large change brings. Raises ConstraintViolated."""
    from pyspark.sql import functions as F

    new = changes.where(F.col(KIND).isin(INSERT, UPDATE_AFTER))
    key = list(table.store.schema.key)
    twice = new.groupBy(*key).count().where("count > 1").limit(1).collect()
    if twice:
        raise duplicate_key(str(table.name), table.store.schema, tuple(twice[0][c] for c in key))
    check_constraints(changes, table)


def check_constraints(changes: DataFrame, table: Table) -> None:
    """FAIL constraints of the rows a large change brings. Raises ConstraintViolated."""
    from pyspark.sql import functions as F

    key = list(table.store.schema.key)
    marked = with_violations(changes.where(F.col(KIND).isin(INSERT, UPDATE_AFTER)), table.spec)
    for position, constraint in enumerate(table.spec.constraints):
        column = f"{VIOLATED}{position}"
        if column not in marked.columns:
            continue
        broken = marked.where(F.col(column)).limit(1).collect()
        if broken:
            shown = {c: broken[0][c] for c in key}
            raise ConstraintViolated(
                f"{constraint.location}: `{table.name}`: rows break constraint `{constraint.name}` EXPECT "
                f"({constraint.expression}), one with key {shown}; nothing was committed. "
                f"Next: correct the data or the constraint, then `headrace resume {table.name}`"
            )


def gathered(changes: DataFrame, table: Table, count: int) -> pa.Table | DataFrame:
    """The changes, in the driver where it can hold them: its append and its compaction take less time.

    Args:
        changes: kept; stored columns and `_kind`.
        count: number of their rows.
    Raises:
        ConstraintViolated: a new row breaks a FAIL constraint or the primary key.
    """
    if count > table.limits.changes:
        check_changes(changes, table)
        return changes
    check_constraints(changes, table)
    rows = changes.toArrow()
    new = rows.filter(pc.is_in(rows.column(KIND), pa.array([INSERT, UPDATE_AFTER])))
    check_unique(new, table.store.schema, table=str(table.name))
    return rows
