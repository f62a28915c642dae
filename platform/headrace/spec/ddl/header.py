"""The DDL around a query: Flink's materialized table, with the expectations Spark users know."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta

from headrace.errors import Location, did_you_mean
from headrace.spec.ddl import options
from headrace.spec.ddl.elements import Elements, read_elements
from headrace.spec.ddl.options import Options
from headrace.spec.ddl.start import StartMode, read_start_mode
from headrace.spec.model import LAYERS, NAME, RefreshMode, RefreshPolicy, TableName
from headrace.spec.syntax.cursor import Cursor
from headrace.spec.syntax.interval import NoInterval, interval, read_interval
from headrace.spec.syntax.text import SourceText, Word


@dataclass
class Header:
    """What stands before AS, and the slice `query_start:query_end` that stands after it."""

    name: TableName
    name_location: Location
    elements: Elements
    comment: str | None = None
    partitioned_by: tuple[str, ...] = ()
    partition_location: Location | None = None
    options: Options = field(default_factory=Options)
    freshness: timedelta | None = None
    refresh_mode: RefreshMode | None = None
    refresh_policy: RefreshPolicy = RefreshPolicy.AUTO
    start: StartMode | None = None
    start_location: Location | None = None
    immutable_before: Word | None = None
    query_start: int = 0
    query_end: int = 0


def read_header(source: SourceText) -> Header:
    cursor = Cursor(source)
    if not cursor.words:
        raise source.error("the file is empty", 0, "start with CREATE MATERIALIZED TABLE layer.table")
    cursor.expect("CREATE")
    if cursor.accept("OR"):
        cursor.expect("ALTER")
    cursor.expect("MATERIALIZED", "TABLE")
    location = cursor.location()
    name = _table_name(cursor)
    header = Header(name, location, read_elements(cursor))
    _read_clauses(cursor, header)
    _read_extent(cursor, header)
    return header


def _table_name(cursor: Cursor) -> TableName:
    parts = [cursor.name("a table name `layer.table`")]
    while cursor.accept("."):
        parts.append(cursor.name("a name"))
    written = ".".join(p.value for p in parts)
    if len(parts) != 2:
        raise cursor.error(
            f"`{written}` has {len(parts)} part{'s' * (len(parts) != 1)}",
            at=parts[0],
            hint="write layer.table",
        )
    layer, table = parts
    if layer.value not in LAYERS:
        raise cursor.error(
            f"`{layer.value}` is no layer", at=layer, hint="the layers are " + ", ".join(LAYERS)
        )
    return TableName(layer.value, checked_name(cursor, table))


def checked_name(cursor: Cursor, word: Word) -> str:
    if not NAME.fullmatch(word.value):
        raise cursor.error(
            f"`{word.value}` is not a name headrace takes",
            at=word,
            hint=f"names match {NAME.pattern}: lower case, digits and underscores, at most 63",
        )
    return word.value


def _read_clauses(cursor: Cursor, header: Header) -> None:
    seen: dict[str, Location] = {}
    while not cursor.at("AS"):
        for clause in CLAUSES:
            if cursor.at(*clause.split()):
                break
        else:
            _fail_on_clause(cursor)
        if clause in seen:
            raise cursor.error(f"{clause} is declared twice", hint=f"the first is at {seen[clause]}")
        seen[clause] = cursor.location()
        cursor.expect(*clause.split())
        CLAUSES[clause](cursor, header)
    if "FRESHNESS" not in seen:
        raise cursor.source.error(
            f"{header.name} declares no FRESHNESS",
            cursor.offset,
            "add FRESHNESS = INTERVAL '10' SECOND, or FRESHNESS = DOWNSTREAM, before AS",
        )
    options.resolve(cursor, header.options, header.partitioned_by, str(header.name))


def _fail_on_clause(cursor: Cursor) -> None:
    word = cursor.word
    if word and word.upper in ("SELECT", "FROM"):
        raise cursor.error(f"syntax error: expected `AS` before `{word.text}`")
    if word and word.text == "(":
        cursor.fail("a clause or `AS`; PRIMARY KEY and CONSTRAINT stand right after the table's name:")
    if word and (hint := did_you_mean(word.upper, CLAUSES)) and hint.startswith("did you mean"):
        raise cursor.error(f"syntax error: `{word.text}` begins no clause", hint=hint)
    cursor.fail("one of " + ", ".join(f"`{c}`" for c in [*CLAUSES, "AS"]))


def _comment(cursor: Cursor, header: Header) -> None:
    cursor.accept("=")
    header.comment = cursor.string("the comment").value


def _partitioned_by(cursor: Cursor, header: Header) -> None:
    header.partition_location = cursor.location()
    words = cursor.names("a partition column")
    header.partitioned_by = tuple(checked_name(cursor, w) for w in words)
    if len(set(header.partitioned_by)) < len(words):
        raise cursor.source.error("a partition column is named twice", words[0].start)


def _with(cursor: Cursor, header: Header) -> None:
    header.options = options.read_options(cursor)


def _freshness(cursor: Cursor, header: Header) -> None:
    cursor.expect("=")
    if cursor.accept("DOWNSTREAM"):
        return
    form = "FRESHNESS = INTERVAL '10' SECOND, MINUTE, HOUR or DAY, or FRESHNESS = DOWNSTREAM"
    if not cursor.at("INTERVAL"):
        raise cursor.error("the freshness is an INTERVAL or DOWNSTREAM", hint=form)
    amount, unit = read_interval(cursor, "a freshness is not counted in {}", form)
    try:
        header.freshness = interval(amount.value, unit)
    except NoInterval as error:
        raise cursor.error(error.reason, at=amount, hint=error.hint or form) from error


def _refresh_mode(cursor: Cursor, header: Header) -> None:
    cursor.expect("=")
    header.refresh_mode = RefreshMode(cursor.one_of(*RefreshMode))


def _refresh_policy(cursor: Cursor, header: Header) -> None:
    cursor.expect("=")
    header.refresh_policy = RefreshPolicy(cursor.one_of(*RefreshPolicy))


def _start_mode(cursor: Cursor, header: Header) -> None:
    cursor.expect("=")
    header.start_location = cursor.location()
    header.start = read_start_mode(cursor)


def _immutable(cursor: Cursor, header: Header) -> None:
    form = "write IMMUTABLE WHERE (column < '…') with the partition column and a label"
    cursor.expect("(")
    column = cursor.name("the partition column")
    if header.partitioned_by and column.value != header.partitioned_by[0]:
        message = f"`{column.value}` is not the partition column `{header.partitioned_by[0]}`"
        raise cursor.error(message, at=column, hint=form)
    cursor.expect("<")
    header.immutable_before = cursor.string("a partition label")
    cursor.expect(")")


def _read_extent(cursor: Cursor, header: Header) -> None:
    cursor.expect("AS")
    query = cursor.words[cursor.index :]
    ends = [i for i, w in enumerate(query) if w.text == ";"]
    if ends and ends[0] + 1 < len(query):
        after = query[ends[0] + 1]
        raise cursor.error("a layer file holds one statement", at=after, hint="one file a table")
    query = query[: ends[0]] if ends else query
    if not query:
        raise cursor.error("there is no query after AS")
    header.query_start, header.query_end = query[0].start, query[-1].end


CLAUSES: dict[str, Callable[[Cursor, Header], None]] = {
    "COMMENT": _comment,
    "PARTITIONED BY": _partitioned_by,
    "WITH": _with,
    "FRESHNESS": _freshness,
    "REFRESH_MODE": _refresh_mode,
    "REFRESH_POLICY": _refresh_policy,
    "START_MODE": _start_mode,
    "IMMUTABLE WHERE": _immutable,
}
