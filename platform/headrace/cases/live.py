"""A case from rows that a running stack has: a few of each upstream, and what the SQL makes of them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from headrace.cases.model import Case, GivenRow, Step, Upstream, cases_file, cases_of
from headrace.cases.play import Mode, play
from headrace.cases.run import own_sessions
from headrace.cases.sandbox import sandbox
from headrace.encoding import encode
from headrace.errors import Location
from headrace.sources.database import database
from headrace.sources.dsn import source_dsn
from headrace.spec import Project
from headrace.spec.model import TableSpec
from headrace.spec.sql.literals import quoted, text_literal

if TYPE_CHECKING:
    import pyarrow as pa

    from headrace.gateway.client import GatewayClient
    from headrace.settings import Settings
    from headrace.sources.schema import SourceSchema

ABOUT = "Rows of a running stack; what is expected is what the SQL makes of them, read it"

TAKEN = 4
"""Rows that are taken of the first upstream."""

Rows = list[dict[str, Any]]


def write_new(
    settings: Settings, project: Project, spec: TableSpec, client: GatewayClient
) -> tuple[str, Path]:
    """Add a case of the table to its file; of a stg table also what its source is.

    Returns:
        The case's name and the file.
    Raises:
        SpecError: the columns of a captured table that it comes from are not told.
        TransientError: the source's database does not answer.
    """
    source, path = None, cases_file(spec)
    if spec.source is not None:
        connector = project.connectors[spec.source.source]
        dsn = source_dsn(connector, settings.source_environment())
        found = database(dsn).describe([spec.source], lambda t: connector.message_key(t.schema, t.table))
        source = found[spec.source]
    given, name, at = given_rows(spec, client, source), new_name(spec, date.today()), Location(path, 1)
    step = Step({u: tuple(GivenRow(row, at) for row in rows) for u, rows in given.items()}, {}, (), at)
    known = {} if source is None else {source.table: source}
    with own_sessions(settings) as sessions, sandbox(sessions, project, [spec.name], known) as within:
        case = Case(name, "", (step,), at)
        [(_, rows)] = play(within, spec.name, case, Mode.BATCH, within.scratch / "new")
    _write(path, source, list(lines(name, given, _plain(rows), ABOUT)))
    return name, path


def given_rows(spec: TableSpec, client: GatewayClient, source: SourceSchema | None) -> dict[Upstream, Rows]:
    """Some rows of each table that this one reads; of the second on those that have the first one's keys.

    Args:
        source: of a stg table: what it reads, whose rows are told by its own.
    """
    if source is not None:
        held = client.query(f"SELECT * FROM {spec.name} LIMIT {TAKEN}")
        names = [name for name in source.present if name in held.column_names]
        return {source.table: _plain(held.select(names))}
    found: dict[Upstream, Rows] = {}
    known: dict[str, list[Any]] = {}
    for upstream in spec.upstreams:
        key = client.run(f"DESCRIBE MATERIALIZED TABLE {upstream}").result["primary_key"]
        rows = client.query(f"SELECT * FROM {upstream}{_matching(key, known)} LIMIT {TAKEN}")
        for name in rows.column_names:
            known.setdefault(name, rows.column(name).unique().to_pylist())
        found[upstream] = _plain(rows)
    return found


def _matching(key: Sequence[str], known: Mapping[str, Sequence[Any]]) -> str:
    """A WHERE clause for the rows whose key other rows name; "" where none does."""
    asked = [f"{quoted(n)} IN ({', '.join(map(_literal, known[n]))})" for n in key if known.get(n)]
    return f" WHERE {' AND '.join(asked)}" if asked else ""


def _literal(found: Any) -> str:
    encoded = encode(found)
    if encoded is None or isinstance(encoded, int | float):
        return "NULL" if encoded is None else str(encoded)
    return text_literal(str(encoded))


def _plain(rows: pa.Table) -> Rows:
    return [{name: encode(found) for name, found in row.items()} for row in rows.to_pylist()]


def new_name(spec: TableSpec, today: date) -> str:
    """A name that no case of the table has."""
    cases = cases_of(spec)
    taken = {case.name for case in cases.cases} if cases is not None else set()
    names = (f"rows_of_{today:%Y_%m_%d}{suffix}" for suffix in ("", *(f"_{n}" for n in range(2, 1000))))
    return next(name for name in names if name not in taken)


def lines(name: str, given: Mapping[Upstream, Rows], expect: Rows, about: str = "") -> Iterator[str]:
    """The case as YAML, an entry of `cases`."""
    yield f"  - name: {name}"
    if about:
        yield f"    about: {about}"
    yield "    given:"
    for upstream, rows in given.items():
        yield from _listed(f"      {upstream}:", rows, " " * 8)
    yield from _listed("    expect:", expect, " " * 6)


def _listed(head: str, rows: Rows, indent: str) -> Iterator[str]:
    if not rows:
        yield f"{head} []"
        return
    yield head
    for row in rows:
        flow = yaml.safe_dump(row, default_flow_style=True, sort_keys=False, allow_unicode=True, width=10**9)
        yield f"{indent}- {flow.strip()}"


def source_lines(schema: SourceSchema) -> Iterator[str]:
    """The captured table as YAML, the field `source`."""
    yield "source:"
    yield "  columns:"
    for column in schema.columns:
        if not column.dropped:
            yield f"    {_scalar(column.name)}: {_scalar(column.type)}"
    yield f"  key: [{', '.join(map(_scalar, schema.key))}]"


def _scalar(text: str) -> str:
    dumped: str = yaml.safe_dump([text], default_flow_style=True, allow_unicode=True, width=10**9)
    return dumped.strip().removeprefix("[").removesuffix("]")


def _write(path: Path, source: SourceSchema | None, case: Sequence[str]) -> None:
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    if source is not None and not re.search("^source:", text, re.MULTILINE):
        text = "\n".join([*source_lines(source), "", text])
    if not re.search("^cases:", text, re.MULTILINE):
        text = f"{text.rstrip()}\n\ncases:\n"
    path.write_text(f"{text.strip()}\n" + "\n".join(case) + "\n", encoding="utf-8")
