"""`CREATE`, `ALTER … AS`, `ROLLBACK` and `DROP` as what they are: edits of one layer file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from headrace.errors import TerminalError
from headrace.spec.ddl.header import read_header
from headrace.spec.model import TableName, TableSpec
from headrace.spec.project import Project, with_tables
from headrace.spec.syntax.text import SourceText
from headrace.spec.table import read_table


@dataclass(frozen=True)
class Edit:
    """The project after an edit, and the file that makes it so.

    Args:
        before: the file's text as it must be now, None where there must be none.
        text: the file's new text, None where it goes.
    """

    project: Project
    path: Path
    before: str | None
    text: str | None

    def check(self) -> None:
        """Raises TerminalError: the file has changed since it was applied."""
        if _read(self.path) != self.before:
            raise TerminalError(f"{self.path} is not as it was applied last. Next: `headrace apply`")

    def write(self) -> None:
        """Let the file be as the edit says."""
        _write(self.path, self.text)


def create(project: Project, text: str, *, or_alter: bool) -> Edit:
    """Of `CREATE [OR ALTER] MATERIALIZED TABLE …`, whose text is the file.

    Raises:
        SpecError: the declaration is wrong, with the line and column of the text.
        TerminalError: the table is there, and it is not `OR ALTER`.
    """
    header = read_header(SourceText(_path(project, None), text))
    old = project.tables.get(header.name)
    if old is not None and not or_alter:
        raise TerminalError(
            f"`{header.name}` exists. Next: CREATE OR ALTER MATERIALIZED TABLE {header.name} …"
        )
    spec = read_table(SourceText(_path(project, header.name), text.strip() + "\n"))
    return _edit(project, spec.name, spec)


def with_query(project: Project, table: TableName, query: str) -> Edit:
    """Of `ALTER MATERIALIZED TABLE … AS <query>`. Raises SpecError: the query is wrong."""
    old = project.tables[table]
    header = read_header(SourceText(old.path, old.definition))
    text = old.definition[: header.query_start] + query.strip() + old.definition[header.query_end :]
    return _edit(project, table, read_table(SourceText(old.path, text)))


def rollback(project: Project, table: TableName, former: str | None) -> Edit:
    """Of `ALTER MATERIALIZED TABLE … ROLLBACK`.

    Args:
        former: the definition before the present one.
    Raises:
        SpecError: it is wrong beside the other tables of today.
        TerminalError: there is none.
    """
    if former is None:
        raise TerminalError(
            f"`{table}` had no other definition before. Next: edit its file, then `headrace apply`"
        )
    return _edit(project, table, read_table(SourceText(_path(project, table), former)))


def drop(project: Project, table: TableName) -> Edit:
    """Of `DROP MATERIALIZED TABLE`. Raises TerminalError: other tables read it."""
    if consumers := project.downstream(table):
        names = ", ".join(f"`{name}`" for name in consumers)
        raise TerminalError(f"`{table}` is read by {names}. Next: DROP MATERIALIZED TABLE {consumers[-1]}")
    return _edit(project, table, None)


def _edit(project: Project, name: TableName, spec: TableSpec | None) -> Edit:
    old = project.tables.get(name)
    tables = {n: s for n, s in project.tables.items() if n != name}
    tables |= {} if spec is None else {name: spec}
    return Edit(
        with_tables(project, tables.values()),
        _path(project, name),
        None if old is None else old.definition,
        None if spec is None else spec.definition,
    )


def _path(project: Project, name: TableName | None) -> Path:
    layers = project.directory / "layers"
    return layers / "<statement>" if name is None else layers / name.layer / f"{name.table}.sql"


def _read(path: Path) -> str | None:
    return path.read_text(encoding="utf-8-sig") if path.is_file() else None


def _write(path: Path, text: str | None) -> None:
    if text is None:
        path.unlink(missing_ok=True)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(".sql.new")
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(path)
