"""What each check of a table found last, whoever asked for it."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import cast

import sqlalchemy as sa

from headrace.catalog.database import reading
from headrace.catalog.schema import check_evaluation as e
from headrace.results import CheckEvaluation

log = logging.getLogger(__name__)


class Evaluations:
    """The newest evaluation of each check. Thread-safe; they survive the process."""

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine

    def note(self, found: Iterable[CheckEvaluation]) -> None:
        """Keep these in place of what their checks found before. What cannot be kept is lost with a warning:
        who asked for the check has its answer."""
        try:
            self._keep(found)
        except sa.exc.SQLAlchemyError as error:
            log.warning("evaluations of checks are not recorded: %s", str(error).splitlines()[0])

    def _keep(self, found: Iterable[CheckEvaluation]) -> None:
        with self._engine.begin() as connection:
            for evaluation in found:
                own = (e.c.table_name == evaluation.table) & (e.c.check_name == evaluation.check)
                connection.execute(sa.delete(e).where(own))
                connection.execute(
                    sa.insert(e).values(
                        table_name=evaluation.table,
                        check_name=evaluation.check,
                        kind=evaluation.kind,
                        passed=evaluation.passed,
                        labels=evaluation.labels,
                        evaluated_at=evaluation.evaluated_at.astimezone(UTC).replace(tzinfo=None),
                        result=json.dumps(evaluation.result),
                    )
                )

    def all(self, table: str | None = None) -> list[CheckEvaluation]:
        """Of one table or all of them, by table and check."""
        select = sa.select(e).order_by(e.c.table_name, e.c.check_name)
        if table is not None:
            select = select.where(e.c.table_name == table)
        with reading(self._engine) as connection:
            return [_evaluation(row) for row in connection.execute(select).mappings()]


def _evaluation(row: sa.RowMapping) -> CheckEvaluation:
    return CheckEvaluation(
        table=row["table_name"],
        check=row["check_name"],
        kind=row["kind"],
        passed=row["passed"],
        labels=row["labels"],
        evaluated_at=cast(datetime, row["evaluated_at"]).replace(tzinfo=UTC),
        result=json.loads(row["result"]),
    )
