"""A warehouse of a suite's layer files: the engine as the warehouse server drives it, without its servers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.engine.compaction.compaction import compact
from headrace.engine.spark.sessions import Sessions
from headrace.engine.statements.assemble import assemble
from headrace.engine.table.table import Registry, Table
from headrace.errors import SpecError
from headrace.sources.schema import SourceSchema
from headrace.spec import Project, load_project
from headrace.spec.model import SourceTable, TableName

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RUN = "bench"
COMPACT_AFTER = 20_000
"""Changed keys after which a table is compacted, as the warehouse server does."""


@dataclass
class Warehouse:
    """All tables, opened.

    Args:
        refused: why a layer file did not load, by its table's name.
    """

    sessions: Sessions
    registry: Registry
    refused: dict[str, str] = field(default_factory=dict)

    def table(self, name: str) -> Table:
        return self.registry[TableName.parse(name)]

    def derived(self) -> list[Table]:
        """Tables that read tables, upstreams first."""
        return [t for t in self.registry if t.spec.source is None]

    def compact(self, *, after: int = COMPACT_AFTER) -> None:
        """Bring forward the snapshots of tables that are cold or have a tail of more than `after` keys."""
        for table in self.registry:
            if table.store.cold or table.store.tail_rows > after:
                compact(self.sessions.batch, table, run_id=RUN)


def open_warehouse(
    spark: SparkSession,
    directory: Path,
    schemas: Callable[[Project], Mapping[SourceTable, SourceSchema]],
) -> Warehouse:
    """Load the project in `directory/project`, create its tables in `directory/warehouse` and open them.

    A layer file that is refused is moved out of the project and told about, so that the others can run.

    Args:
        schemas: the schemas of the project's source tables.
    """
    project_directory = directory / "project"
    sessions = Sessions.of(spark)
    refused: dict[str, str] = {}
    while True:
        try:
            project = load_project(project_directory)
            registry = assemble(
                sessions.batch,
                project,
                schemas(project),
                warehouse=directory / "warehouse",
                threshold=timedelta(minutes=30),
            )
        except SpecError as error:
            path = error.location.path
            if path.suffix != ".sql" or not path.is_file():
                raise
            refused[f"{path.parent.name}.{path.stem}"] = str(error)
            path.rename(path.with_suffix(".refused"))
            continue
        break
    for table in registry:
        table.store.create(table.template)
        table.store.open()
    return Warehouse(sessions, registry, refused)
