"""One layer file → one TableSpec."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from sqlglot import exp

from headrace.errors import SpecError
from headrace.spec.ddl.header import Header, read_header
from headrace.spec.ddl.options import CORRECTION, SCHEMA_CHANGE
from headrace.spec.ddl.start import StartMode, StartPosition
from headrace.spec.model import CorrectionPolicy, TableSpec
from headrace.spec.partitions.completion import LATE, RUN_MODE, LateData, RunMode
from headrace.spec.partitions.labels import cannot_keep, parse_label
from headrace.spec.sql.parameters import check_parameters
from headrace.spec.sql.query import Query, parse_query, position
from headrace.spec.sql.references import find_references
from headrace.spec.syntax.text import SourceText

PER_ROW = "stg keeps one row per source row; aggregate, join and filter by other tables in dwd or dws"


def load_table(path: Path) -> TableSpec:
    """Read a layer file.

    Raises:
        SpecError: the file breaks a rule that one file alone can break, with file, line and column.
    """
    return read_table(SourceText.read(Path(path)))


@lru_cache(maxsize=1024)
def read_table(source: SourceText) -> TableSpec:
    """The table that a layer file's text declares. Raises as `load_table`.

    What was applied last is mostly what the files still say, so the same text is read once.
    """
    path = source.path
    header = read_header(source)
    _check_place(path, header)
    query = Query(source, header.query_start, header.query_end)
    parsed = parse_query(query)
    references = find_references(query, parsed, layer=header.name.layer)
    check_parameters(query, partitioned=header.options.partition_format is not None)
    _check_key(header)
    _check_offline(source, header)
    if header.name.layer == "stg":
        _check_stg_mode(header)
        _check_stg(query, parsed, len(references))
    elif header.options.schema_change is not None:
        at = next(key.start for key, _ in header.options.pairs if key.value == SCHEMA_CHANGE)
        hint = "set it of the stg table that reads the source"
        raise source.error(f"'{SCHEMA_CHANGE}' is of tables that read a source", at, hint)
    start = source.location(query.start)
    spec = TableSpec(
        name=header.name,
        path=path,
        query=query.text,
        query_ast=parsed,
        query_line=start.line,
        query_column=start.column,
        references=references,
        primary_key=header.elements.primary_key,
        key_location=header.elements.key_location,
        freshness=header.freshness,
        partitioned_by=header.partitioned_by,
        partition_location=header.partition_location,
        partition_format=header.options.partition_format,
        refresh_mode=header.refresh_mode,
        refresh_policy=header.refresh_policy,
        correction_policy=header.options.correction_policy,
        constraints=header.elements.constraints,
        comment=header.comment,
        options=header.options.written,
        definition=source.text,
        calendar=header.options.calendar,
        start=header.start,
        immutable_before=header.immutable_before.value if header.immutable_before else None,
        completion=header.options.completion,
        schema_change=header.options.schema_change,
        quarantine_limit=header.options.quarantine_limit,
        owners=header.options.owners,
        target=header.options.target,
    )
    _check_immutable(source, header, spec)
    return spec


def _check_immutable(source: SourceText, header: Header, spec: TableSpec) -> None:
    """What keeps partitions as they are needs partitions by time, which no row leaves."""
    label = header.immutable_before
    where = source.location(label.start) if label is not None else header.start_location
    if spec.completion.run_mode is RunMode.BUSINESS:
        where = where or header.name_location
    elif where is None or (label is None and spec.start == StartMode(StartPosition.FROM_BEGINNING)):
        return
    if (why := cannot_keep(spec)) is not None:
        raise SpecError(f"{spec.name} cannot keep partitions as they are: {why}", where)
    if label is not None:
        try:
            parse_label(spec, label.value)
        except SpecError as error:
            raise source.error(error.reason, label.start, error.hint) from None


def _check_place(path: Path, header: Header) -> None:
    expected = (header.name.layer, f"{header.name.table}.sql")
    if (path.absolute().parent.name, path.name) != expected:
        raise SpecError(
            f"the file declares {header.name}, but is {path.absolute().parent.name}/{path.name}",
            header.name_location,
            f"move it to layers/{'/'.join(expected)}, or declare the table it is named after",
        )


def _check_key(header: Header) -> None:
    if header.name.layer == "stg":
        if header.elements.key_location:
            hint = "remove PRIMARY KEY: the key of a stg table is its source table's"
            raise SpecError("a stg table declares no key", header.elements.key_location, hint)
    elif not header.elements.primary_key:
        hint = f"write CREATE MATERIALIZED TABLE {header.name} (PRIMARY KEY (…)) …"
        raise SpecError(f"{header.name} has no PRIMARY KEY", header.name_location, hint)


def _check_offline(source: SourceText, header: Header) -> None:
    """What says how a stream does things has no place beside a batch that writes alone."""
    options = header.options
    if options.completion.run_mode is not RunMode.OFFLINE:
        return
    places = {key.value: key.start for key, _ in options.pairs}

    def refuse(option: str, what: str, why: str, hint: str) -> SpecError:
        return source.error(f"{what} '{RunMode.OFFLINE}': {why}", places[option], hint)

    if header.name.layer == "stg":
        why = "events of its source are applied as they come"
        raise refuse(RUN_MODE, "no stg table is", why, f"set '{RUN_MODE}' of a table that reads it")
    if header.refresh_mode is not None:
        what = "REFRESH_MODE has no place in a table that is"
        raise refuse(RUN_MODE, what, "its batch writes alone", "remove it")
    if options.completion.late is LateData.IGNORE:
        why = "partitions that change late run again, else they would not be what the query gives"
        hint = f"remove it, or write '{RUN_MODE}' = '{RunMode.BUSINESS}', which closes partitions for good"
        raise refuse(LATE, f"'{LATE}' = '{LateData.IGNORE}' has no place in a table that is", why, hint)
    if options.correction_policy is CorrectionPolicy.SKIP:
        why = "its batch reads what it reads with the corrections"
        what = f"'{CORRECTION}' = '{CorrectionPolicy.SKIP}' has no place in a table that is"
        raise refuse(CORRECTION, what, why, "remove it")


def _check_stg_mode(header: Header) -> None:
    mode = header.options.completion.run_mode
    if mode is not RunMode.REAL_TIME:
        raise SpecError(
            f"a stg table runs in no mode but '{RunMode.REAL_TIME}': its batch is its source, not '{mode}'",
            header.name_location,
            f"set '{RUN_MODE}' of a table that reads it",
        )


def _check_stg(query: Query, parsed: exp.Query, references: int) -> None:
    if not isinstance(parsed, exp.Select) or references > 1:
        raise query.error("a stg table reads one source table", 0, PER_ROW)
    for kind, what in (
        (exp.Join, "a join"),
        (exp.CTE, "a common table expression"),
        (exp.Subquery, "a subquery"),
        (exp.Group, "GROUP BY"),
        (exp.Distinct, "DISTINCT"),
        (exp.Limit, "LIMIT"),
        (exp.AggFunc, "an aggregate"),
        (exp.Window, "a window"),
        (exp.Lateral, "LATERAL"),
        (exp.UDTF, "a generator"),
        (exp.Having, "HAVING"),
    ):
        if node := parsed.find(kind):
            raise query.error(f"a stg table has no place for {what}", position(node), PER_ROW)
