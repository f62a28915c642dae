"""Which definitions run: those that were applied last, and what assembles them."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING

from headrace.catalog import Catalog
from headrace.declared import Edited, deployed_tables, load_own, running_project
from headrace.engine.statements.alter import with_alterations
from headrace.engine.statements.analyses import Analyses
from headrace.engine.statements.apply import Apply, plan
from headrace.engine.statements.assemble import Report, assemble
from headrace.engine.statements.blue_green import Green
from headrace.engine.statements.captured import Captured, Schemas
from headrace.engine.table.table import Registry, is_stg
from headrace.errors import SpecError, TerminalError
from headrace.locks import OrderedLock, Rank
from headrace.progress import Progress
from headrace.results import ApplyResult
from headrace.settings import Settings
from headrace.sources.dsn import source_dsn
from headrace.spec import Project
from headrace.spec.calendar import in_force
from headrace.spec.connector import Connector
from headrace.spec.edit import Edit
from headrace.spec.model import SchemaChangeBehavior, SourceTable, TableName

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)


class Deployment:
    """
    Args:
        project: what the files declare when the server starts.

    Attributes:
        files: the definitions that run, without what statements have altered.
    """

    def __init__(self, project: Project, settings: Settings, catalog: Catalog) -> None:
        self._settings = settings
        self._catalog = catalog
        self._applying = OrderedLock(Rank.APPLY, "the deployment")
        self._edited = Edited()
        self._analyses = Analyses(settings.state / "analyses.json")
        default = SchemaChangeBehavior(settings.schema_change_behavior)
        self._captured = Captured(catalog, self.dsn, self.message_key, default)
        self.files, waiting = running_project(project, deployed_tables(catalog, project, settings.served))
        self._connectors: Mapping[str, Connector] = self.files.connectors
        with_alterations(self.files, catalog.alterations)
        if waiting:
            log.warning("the files declare other rows: `headrace plan` shows it, `headrace apply` does it")

    @property
    def connectors(self) -> Mapping[str, Connector]:
        """By the names of their sources, those too that are about to be applied."""
        return self._connectors

    def connector(self, source: str) -> Connector:
        """That of a source."""
        return self._connectors[source]

    def dsn(self, source: str) -> str:
        """Connection string of a source by its name."""
        return source_dsn(self.connector(source), self._settings.source_environment())

    def replica(self, source: str) -> str | None:
        """Connection string of the standby that comparisons read in its place; None where there is none."""
        server = self._settings.source_replica(source)
        return server and source_dsn(self.connector(source), self._settings.source_environment(), server)

    def message_key(self, table: SourceTable) -> tuple[str, ...]:
        """The key of a table's messages that the connector's file names; () where it names none."""
        return self.connector(table.source).message_key(table.schema, table.table)

    def edited(self, name: TableName) -> list[str]:
        """What of the table's file waits for `headrace apply`."""
        spec, project = self.files.tables.get(name), self.files
        warning = self._edited.warning(spec, project) if spec is not None else None
        return [warning] if warning is not None else []

    def apply(
        self,
        work: Apply,
        spark: SparkSession,
        edit: Edit | None,
        *,
        green: Green | None = None,
        dry_run: bool,
        progress: Progress,
    ) -> ApplyResult:
        """Let the tables be what the files declare, or what one edit of them makes of those that run.

        Args:
            green: builds the changed tables aside, before anything changes.
        Raises:
            SpecError: a file is wrong; nothing was changed.
            TerminalError: the file to edit has changed since it was applied.
        """
        with self._applying:
            if edit is not None:
                edit.check()
            files = edit.project if edit is not None else load_own(self._settings)
            self._connectors = {**self._connectors, **files.connectors}
            sources = self._captured.now(files, self.files)
            project, wanted = self._assembled(spark, files, sources)
            _check_dropped(wanted, work.registry)
            deployed = deployed_tables(self._catalog, files, self._settings.served)

            def begin() -> None:
                if edit is not None:
                    edit.write()
                self._captured.note(sources)
                self.files = files
                with_alterations(files, self._catalog.alterations)  # what a file says otherwise is forgotten

            todo = plan(work.registry, wanted, deployed, files)
            with ExitStack() as after:
                if green is not None:
                    after.callback(green.clear)
                result = work.run(
                    todo,
                    wanted,
                    project,
                    begin=begin,
                    prepare=None if green is None else green.build,
                    dry_run=dry_run,
                    progress=progress,
                )
            return result if green is None else result.model_copy(update={"proofs": green.proofs})

    def follow(
        self, work: Apply, spark: SparkSession, tables: Collection[SourceTable], progress: Progress
    ) -> ApplyResult:
        """Let the tables run by the columns that these captured tables have now.

        Raises:
            TerminalError: a person is to decide.
        """
        with self._applying:
            try:
                sources = self._captured.follow(self.files, tables, strictly=True)
                project, wanted = self._assembled(spark, self.files, sources)
            except SpecError as error:
                behaviors = self._captured.behaviors(self.files)
                if any(behaviors[t] is not SchemaChangeBehavior.TRY_EVOLVE for t in tables):
                    raise
                log.warning("the tables keep the columns that they have: %s", error)
                sources = self._captured.follow(self.files, tables, strictly=False)
                project, wanted = self._assembled(spark, self.files, sources)
            deployed = deployed_tables(self._catalog, self.files, self._settings.served)
            todo = plan(work.registry, wanted, deployed, self.files)
            begin = partial(self._captured.note, sources)
            return work.run(todo, wanted, project, begin=begin, dry_run=False, progress=progress)

    def assemble(self, spark: SparkSession, files: Project, report: Report) -> tuple[Project, Registry]:
        """These declarations as statements have altered them, and their tables as of now, not yet open.

        Args:
            report: told how far it is.
        Raises:
            SpecError: Spark refuses one of them.
            HeadraceError: a source does not answer.
        """
        return self._assembled(spark, files, self._captured.running(files), report)

    def _assembled(
        self,
        spark: SparkSession,
        files: Project,
        sources: Schemas,
        report: Report = lambda message: None,
    ) -> tuple[Project, Registry]:
        project, _, _ = self._catalog.alterations.applied(files)
        registry = assemble(
            spark,
            in_force(project, datetime.now(UTC)),
            sources,
            warehouse=self._settings.warehouse,
            threshold=timedelta(seconds=self._settings.continuous_threshold_seconds),
            shadow_one_in=self._settings.shadow_one_in,
            behaviors=self._captured.behaviors(project),
            analyses=self._analyses,
            report=report,
        )
        return project, registry


def _check_dropped(wanted: Registry, running: Registry) -> None:
    """Raises TerminalError where a text that is new names a column that its source has dropped."""
    for table in wanted:
        old = running.tables.get(table.name)
        if is_stg(table) and table.source.refused:
            continue  # whatever its text
        if table.lacks is not None and (old is None or old.template != table.template):
            raise TerminalError(table.lacks)
