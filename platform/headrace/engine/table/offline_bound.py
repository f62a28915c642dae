"""How far the batch has written a table that no stream writes: the bound stands in the table's own commits.

Such a table holds its partitions up to the bound and no others. A table that streams has no bound; one that
had and is to stream gets all of its partitions first.
"""

from __future__ import annotations

from headrace.engine.table.table import Table
from headrace.errors import TerminalError
from headrace.spec.partitions.completion import RunMode
from headrace.spec.partitions.label_range import LabelRange


def offline(table: Table) -> bool:
    """Whether the batch alone writes the table."""
    return table.spec.run_mode is RunMode.OFFLINE


def unwritten(table: Table, labels: LabelRange | None) -> bool:
    """Whether a range, or the whole table, has no partition that the batch has written."""
    through = table.store.commit.complete_through
    if not offline(table):
        return False
    return table.store.version == 0 or bool(through and labels is not None and labels.start > through)


def check_written(table: Table, labels: LabelRange | None) -> None:
    """Refuse what reaches no partition that the batch has written. Raises TerminalError."""
    name, through = table.name, table.store.commit.complete_through
    if labels is not None and (why := lacking(table)) is not None:
        raise TerminalError(f"`{name}`: {why}")
    if not unwritten(table, labels):
        return
    done = f"the batch has written those up to '{through}'" if through else "the batch has written none yet"
    asked = f"partition '{labels.start}' is not complete" if labels else "its partitions wait to be complete"
    raise TerminalError(
        f'`{name}`: {asked}: {done}. Next: `headrace sql "ALTER MATERIALIZED TABLE {name} REFRESH NEW"` '
        "writes what is complete by now"
    )


def lacking(table: Table) -> str | None:
    """Why a table that is to stream cannot yet: the batch alone has written it, and not all of it."""
    through = table.store.commit.complete_through
    if not through or offline(table):
        return None
    return (
        f"the batch alone has written it, up to partition '{through}': it lacks the later ones. "
        f"Next: `headrace refresh {table.name} --all`"
    )


def refuse_bounded(table: Table) -> None:
    """Raises TerminalError where a change must not be carried on to the table: it has not all partitions."""
    if through := table.store.commit.complete_through:
        why = lacking(table) or f"the batch alone writes it, up to partition '{through}' so far"
        raise TerminalError(f"`{table.name}`: {why}")
