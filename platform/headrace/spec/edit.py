"""`CREATE`, `ALTER … AS`, `ROLLBACK` and `DROP` as what they are: edits of layer files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from headrace.errors import TerminalError
from headrace.spec.ddl.header import read_header
from headrace.spec.model import TableName, TableSpec
from headrace.spec.project import Project, with_tables
from headrace.spec.source_file import source_files
from headrace.spec.syntax.text import SourceText
from headrace.spec.table import read_table


@dataclass(frozen=True)
class FileEdit:
    """
    Args:
        before: the file's text as it must be now, None where there must be none.
        text: the file's new text, None where it goes.
    """

    path: Path
    before: str | None
    text: str | None


@dataclass(frozen=True)
class Edit:
    """The project after an edit, and the files that make it so."""

    project: Project
    files: tuple[FileEdit, ...]

    def check(self) -> None:
        """Raises TerminalError: a file has changed since it was applied."""
        for file in self.files:
            if _read(file.path) != file.before:
                raise TerminalError(f"{file.path} is not as it was applied last. Next: `headrace apply`")

    def write(self) -> None:
        """Let the files be as the edit says."""
        for file in self.files:
            write(file)


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


def create_all(project: Project, texts: Mapping[TableName, str]) -> Edit:
    """Of tables that there are not yet, by the texts of their files. Raises SpecError: one is wrong."""
    specs = [read_table(SourceText(_path(project, name), text)) for name, text in texts.items()]
    files = tuple(FileEdit(spec.path, None, spec.definition) for spec in specs)
    return Edit(with_tables(project, [*project.tables.values(), *specs]), files)


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
    """Of `DROP MATERIALIZED TABLE`. Raises TerminalError: other tables read it, or a source file means it."""
    if consumers := project.downstream(table):
        names = ", ".join(f"`{name}`" for name in consumers)
        raise TerminalError(f"`{table}` is read by {names}. Next: DROP MATERIALIZED TABLE {consumers[-1]}")
    for file in source_files(project.directory):
        reads = file.read_by(project.tables[table])
        if reads is not None and file.means(*reads):
            raise TerminalError(
                f"`{table}` would come again, by {file.path}. Next: name {'.'.join(reads)} in its "
                "`tables.exclude`, then DROP"
            )
    return _edit(project, table, None)


def _edit(project: Project, name: TableName, spec: TableSpec | None) -> Edit:
    old = project.tables.get(name)
    tables = {n: s for n, s in project.tables.items() if n != name}
    tables |= {} if spec is None else {name: spec}
    file = FileEdit(
        _path(project, name),
        None if old is None else old.definition,
        None if spec is None else spec.definition,
    )
    return Edit(with_tables(project, tables.values()), (file,))


def _path(project: Project, name: TableName | None) -> Path:
    layers = project.directory / "layers"
    return layers / "<statement>" if name is None else layers / name.layer / f"{name.table}.sql"


def _read(path: Path) -> str | None:
    return path.read_text(encoding="utf-8-sig") if path.is_file() else None


def write(file: FileEdit) -> None:
    """Let the file be as the edit says."""
    if file.text is None:
        file.path.unlink(missing_ok=True)
        return
    file.path.parent.mkdir(parents=True, exist_ok=True)
    temporary = file.path.with_suffix(".sql.new")
    temporary.write_text(file.text, encoding="utf-8")
    temporary.replace(file.path)
