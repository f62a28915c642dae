"""The query of a layer file: parsed, checked for what no layer file may hold, its upstreams found."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from sqlglot import exp
from sqlglot.dialects import Spark
from sqlglot.errors import ParseError, SqlglotError
from sqlglot.tokens import Token

from headrace.errors import SpecError, did_you_mean
from headrace.spec.syntax.text import SourceText

TABLE_FUNCTIONS = (
    *("range", "stack", "json_tuple", "explode", "explode_outer", "posexplode", "posexplode_outer"),
    *("inline", "inline_outer", "variant_explode", "variant_explode_outer"),
)
FILE_FORMATS = {
    *("delta", "parquet", "csv", "json", "orc", "text", "avro", "xml", "binaryfile"),
    *("kafka", "iceberg", "hudi"),
}
DML = {
    *("INSERT", "UPDATE", "DELETE", "MERGE", "CREATE", "DROP", "ALTER", "TRUNCATE"),
    *("SET", "USE", "CACHE", "REFRESH"),
}
CONSTRUCTS = {  # what stands in a Table node's arguments, and why it may not
    "version": "a version is pinned by headrace, per refresh",
    "when": "a version is pinned by headrace, per refresh",
    "changes": "headrace reads the changes",
}


@dataclass(frozen=True)
class Query:
    """The slice of the file after AS; errors are raised at positions within it."""

    source: SourceText
    start: int
    end: int

    @property
    def text(self) -> str:
        return self.source.text[self.start : self.end]

    def error(self, message: str, offset: int, hint: str | None = None) -> SpecError:
        return self.source.error(message, self.start + offset, hint)


def parse_query(query: Query) -> exp.Query:
    opening = query_tokens(query.text)[0]
    if opening.text.upper() in DML:
        hint = "AS is followed by one SELECT; headrace writes the table"
        raise query.error(f"a layer file holds no {opening.text.upper()}", opening.start, hint)
    try:
        parsed = Spark().parser().parse(list(query_tokens(query.text)), query.text)
    except ParseError as error:
        raise _syntax_error(query, error) from None
    except SqlglotError as error:
        raise query.error(f"syntax error: {error}", 0) from None
    if len(parsed) != 1 or not isinstance(parsed[0], exp.Query):
        raise query.error("AS is not followed by a query", 0, "write one SELECT (or WITH … SELECT)")
    _refuse_constructs(query, parsed[0])
    return parsed[0]


def tables(parsed: exp.Query) -> list[exp.Table]:
    """All relations by name; what a BROADCAST hint names is not read."""
    return [t for t in parsed.find_all(exp.Table) if not t.find_ancestor(exp.Hint)]


@lru_cache(maxsize=512)
def query_tokens(text: str) -> tuple[Token, ...]:
    """The tokens of a query that was read before, so they cannot fail. Kept: they are asked for often."""
    return tuple(Spark().tokenize(text))


def _syntax_error(query: Query, error: ParseError) -> SpecError:
    detail = error.errors[0] if error.errors else {}
    if not detail.get("line"):
        return query.error(f"syntax error: {error}", 0)
    lines = query.text.split("\n")
    # sqlglot names the last character of the token.
    end = sum(len(line) + 1 for line in lines[: detail["line"] - 1]) + detail["col"]
    highlight = detail.get("highlight") or ""
    description = detail["description"].split(" for <class")[0].replace("<class 'sqlglot.expressions.", "<")
    message = f"syntax error near `{highlight}`: {description[0].lower()}{description[1:]}"
    return query.error(message, max(end - len(highlight), 0))


def _refuse_constructs(query: Query, parsed: exp.Query) -> None:
    for gap_start, gap in _gaps(query.text):
        if hint_at := re.search(r"/\*\+", re.sub(r"--[^\n]*", lambda m: " " * len(m[0]), gap)):
            raise query.error("a hint stands only after SELECT", gap_start + hint_at.start())
    for hint in parsed.find_all(exp.Hint):
        for item in hint.expressions:
            if item.name.upper() == "OPTIONS":
                at = query.text.upper().find("OPTIONS", query.text.find("/*+"))
                raise query.error("options of a read cannot be set by a hint", at, "remove OPTIONS(…)")
    for select in parsed.find_all(exp.Select):
        if select.args.get("into"):
            raise query.error("SELECT … INTO writes a table", position(select), "headrace writes the table")
    if placeholder := parsed.find(exp.Placeholder):
        written = "?" if placeholder.name in ("", "?") else f":{placeholder.name}"
        tokens = [t for t in query_tokens(query.text) if query.text.startswith(written, t.start)]
        known = "the parameters are ${start_date} and ${end_date}"
        raise query.error(f"`{written}` is no parameter", tokens[0].start if tokens else 0, known)
    if sample := parsed.find(exp.TableSample):
        raise query.error("a sample is not the same rows twice", position(sample.parent or sample))
    for table in tables(parsed):
        _refuse_table(query, table)


def _refuse_table(query: Query, table: exp.Table) -> None:
    for construct, why in CONSTRUCTS.items():
        if table.args.get(construct):
            raise query.error(f"`{table.name}` is read with {construct.upper()}", position(table), why)
    if isinstance(table.this, exp.Identifier):
        if "/" in table.name or table.db.lower() in FILE_FORMATS:
            written = f"{table.db}.`{table.name}`" if table.db else f"`{table.name}`"
            hint = "declare it as a materialized table or a source; lineage cannot follow files"
            raise query.error(f"{written} reads files behind headrace's back", position(table), hint)
        return
    name = table.this.name if isinstance(table.this, exp.Anonymous) else table.this.key
    if name.lower() not in TABLE_FUNCTIONS:
        at = max(query.text.lower().find(name.lower()), 0)
        known = did_you_mean(name, TABLE_FUNCTIONS)
        hint = (
            known if known.startswith("did you mean") else "table functions that read input are not followed"
        )
        raise query.error(f"`{name}(…)` is no table function a layer may read", at, hint)


def _gaps(text: str) -> list[tuple[int, str]]:
    """What stands between tokens: white space and comments."""
    tokens = query_tokens(text)
    ends = [t.end + 1 for t in tokens]
    return [(end, text[end : t.start]) for end, t in zip(ends, tokens[1:], strict=False) if t.start > end]


def position(node: exp.Expr) -> int:
    """The first position within the query of what `node` holds; 0 where sqlglot keeps none."""
    starts = [i.meta["start"] for i in node.find_all(exp.Identifier) if "start" in i.meta]
    return min(starts, default=0)
