"""`ALTER MATERIALIZED TABLE … SET` and `RESET`: what statements set of tables over their files."""

from __future__ import annotations

import logging
from dataclasses import replace

from headrace.catalog import Catalog
from headrace.catalog.alterations import Alterations
from headrace.engine.supervisor.supervisor import Supervisor
from headrace.engine.table.table import Table
from headrace.results import AlterResult
from headrace.spec import Project
from headrace.spec.alteration import (
    Alteration,
    Property,
    altered,
    check_alteration,
    declared,
    freshness_text,
)

log = logging.getLogger(__name__)


def with_alterations(project: Project, alterations: Alterations) -> Project:
    """The project as statements have altered it. What a file says otherwise since then is dropped."""
    project, _, outdated = alterations.applied(project)
    for found in outdated:
        log.warning("%s: %s = %s counts no more: its file changed", found.table, found.what, found.value)
        alterations.drop(found.table, found.what)
    return project


def alter(
    project: Project,
    catalog: Catalog,
    supervisor: Supervisor,
    table: Table,
    what: Property,
    value: str | None,
) -> AlterResult:
    """Set a property of the table, or let its file count again (None); flows and schedule follow.

    Args:
        project: what the files declare.
    Raises:
        TerminalError: the table cannot have it.
    """
    spec = project.tables[table.name]
    check_alteration(spec, what, value)
    # Noted before it is done: a server that is killed in between does it when it starts.
    if value is None:
        catalog.alterations.drop(table.name, what)
    else:
        catalog.alterations.set(Alteration(table.name, what, value, declared(spec, what)))
    new = altered(spec, catalog.alterations.of(table.name))
    with supervisor.declaring:
        running = supervisor.arrangement.project
        moved = supervisor.declare(replace(running, tables={**running.tables, new.name: new}))
    return AlterResult(
        table=str(table.name),
        freshness=freshness_text(table.spec.freshness),
        mode=str(table.mode),
        mode_reason=table.mode_reason,
        file=declared(spec, what),
        moved={str(t.name): str(t.mode) for t in moved},
    )
