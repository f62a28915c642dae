"""The gateway's statements: text in, frozen dataclasses out."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import cast

from sqlglot.tokens import Token, TokenType

from headrace.errors import did_you_mean
from headrace.gateway.cursor import Cursor
from headrace.gateway.queries import check_query
from headrace.gateway.statements import (
    Alter,
    AlterQuery,
    Apply,
    Changes,
    Check,
    Create,
    Describe,
    Drop,
    DropDeadLetters,
    DropReader,
    Erase,
    Explain,
    LoadSource,
    ParsedStatement,
    Publish,
    Refresh,
    RefreshNew,
    ReplayDeadLetters,
    Resume,
    Resync,
    Rewind,
    Rollback,
    Select,
    SetImmutable,
    ShowAccounting,
    ShowChecks,
    ShowCosts,
    ShowDeadLetters,
    ShowPartitions,
    ShowQuarantine,
    ShowReaders,
    ShowTables,
    ShowWorkflows,
    Suspend,
    Verify,
)
from headrace.moment import moment
from headrace.results import Start
from headrace.spec.alteration import DOWNSTREAM, PROPERTIES, Property, freshness_text
from headrace.spec.model import RefreshMode
from headrace.spec.partitions.label_range import LabelRange
from headrace.spec.project import ELSEWHERE_HINT
from headrace.spec.syntax.interval import UNITS, NoInterval, interval

READER_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
READER_HINT = "letters, digits, `.`, `_` and `-`, at most 63"

_VALUES = (TokenType.NUMBER, TokenType.STRING)

Tables = Mapping[str, str | None]
"""Materialized tables, each with its partition column."""

_EDIT = "edit the table's file under layers/, then run `headrace plan` and `headrace apply`"
_MATERIALIZED = ("MATERIALIZED", "TABLE")


def parse(sql: str, tables: Tables, elsewhere: Mapping[str, str] | None = None) -> ParsedStatement:
    """Read one statement. Raises StatementError with line and column.

    Args:
        sql: the statement; a trailing `;` is fine.
        tables: the materialized tables there are, each with its partition column.
        elsewhere: those that another server keeps, and what is said of each.
    """
    parser = _Parser(sql, tables, elsewhere or {})
    statement = parser.statement()
    if not isinstance(statement, Select):
        parser.cursor.end()
    return statement


class _Parser:
    def __init__(self, sql: str, tables: Tables, elsewhere: Mapping[str, str]) -> None:
        self.cursor = Cursor(sql)
        self._tables = tables
        self._elsewhere = elsewhere

    def statement(self) -> ParsedStatement:
        first = self.cursor.tokens[0]
        word = first.text.upper()
        if word in ("SELECT", "WITH"):
            return Select(check_query(self.cursor, self._tables, self._elsewhere))
        if word in ("INSERT", "UPDATE", "DELETE", "MERGE", "TRUNCATE"):
            self.cursor.fail(f"{word} is refused: only a table's own query writes it", _EDIT)
        branches: dict[str, Callable[[], ParsedStatement]] = {
            "SHOW": self._show,
            "DESCRIBE": lambda: Describe(self._materialized()),
            "DESC": lambda: Describe(self._materialized()),
            "EXPLAIN": lambda: Explain(self._materialized(), self.cursor.accept("HISTORY")),
            "CREATE": self._create,
            "ALTER": self._alter,
            "DROP": self._drop,
            "APPLY": self._apply,
            "VERIFY": self._verify,
            "CHECK": lambda: Check(table := self._table(), self._partition((table,))),
            "CHANGES": self._changes,
            "LOAD": self._load,
        }
        if word not in branches:
            known = ["SELECT", "WITH", *branches]
            self.cursor.fail(f"`{first.text}` begins no statement", did_you_mean(word, known))
        self.cursor.keyword((word,))
        return branches[word]()

    def _show(self) -> ParsedStatement:
        one, words = ("PARTITIONS", "QUARANTINE", "ACCOUNTING"), ("WORKFLOWS", "CHECKS", "COSTS")
        match self.cursor.keyword(("MATERIALIZED", "DEAD", "ALL", "READERS", *one, *words)):
            case "ACCOUNTING":
                return ShowAccounting(self._table())
            case "QUARANTINE":
                return ShowQuarantine(self._table())
            case "PARTITIONS":
                return ShowPartitions(self._table())
            case "CHECKS":
                return ShowChecks(self._table() if self.cursor.peek() else None)
            case "WORKFLOWS":
                return ShowWorkflows()
            case "COSTS":
                return ShowCosts(self._hours())
            case "MATERIALIZED":
                self.cursor.keywords("TABLES")
                return ShowTables()
            case "READERS":
                return ShowReaders(self._table() if self.cursor.peek() else None)
            case "ALL":
                self.cursor.keywords("DEAD", "LETTERS")
                return ShowDeadLetters(self._table() if self.cursor.peek() else None, settled=True)
        self.cursor.keywords("LETTERS")
        return ShowDeadLetters(self._table() if self.cursor.peek() else None)

    def _hours(self) -> int:
        """`LAST n HOURS`, a day where it does not follow."""
        if not self.cursor.accept("LAST"):
            return 24
        hours = self.cursor.integer("hours")
        self.cursor.keywords("HOURS")
        return hours

    def _places(self) -> tuple[tuple[int, int], ...]:
        """`AT 'partition:offset', …`, where it follows."""
        if not self.cursor.accept("AT"):
            return ()
        found = [self._place()]
        while self.cursor.accept(","):
            found.append(self._place())
        return tuple(found)

    def _place(self) -> tuple[int, int]:
        token = self.cursor.peek()
        text = self.cursor.string("a place such as '0:17', partition and offset,")
        partition, _, offset = text.partition(":")
        if not (partition.isdecimal() and offset.isdecimal()):
            self.cursor.fail(f"`{text}` is no place", "write '0:17', partition and offset", token=token)
        return int(partition), int(offset)

    def _create(self) -> Create:
        """What follows is read as a layer file is."""
        begin = self.cursor.tokens[0]
        or_alter = self.cursor.accept("OR")
        if or_alter:
            self.cursor.keywords("ALTER")
        self.cursor.keywords(*_MATERIALIZED)
        self.cursor.rest("a table's name")
        return Create(self.cursor.sql[begin.start : self.cursor.tokens[-1].end + 1], or_alter)

    def _apply(self) -> Apply:
        blue_green = self.cursor.accept("BLUE")
        if blue_green:
            self.cursor.keywords("GREEN")
        return Apply(self._dry_run(), blue_green)

    def _drop(self) -> Drop | DropReader:
        if self.cursor.keyword(("MATERIALIZED", "READER")) == "READER":
            return self._drop_reader()
        self.cursor.keywords("TABLE")
        if not self.cursor.accept("IF"):
            return Drop(self._table())
        self.cursor.keywords("EXISTS")
        name, _ = self._written("a table name, such as `dws.user_hour`")
        return Drop(name if name in self._tables else None)

    def _drop_reader(self) -> DropReader:
        name = self.cursor.string("a reader's name in quotes")
        self.cursor.keywords("ON")
        return DropReader(name, self._table())

    def _alter(self) -> ParsedStatement:
        table = self._materialized()
        match self.cursor.keyword(
            (
                *("SUSPEND", "RESUME", "REFRESH", "RESYNC", "REPLAY", "DROP", "SET", "RESET", "REWIND"),
                *("ROLLBACK", "ERASE", "PUBLISH", "AS"),
            )
        ):
            case "SUSPEND":
                return Suspend(table)
            case "RESUME":
                return Resume(table)
            case "REFRESH":
                return self._refresh(table)
            case "SET" if self.cursor.accept("IMMUTABLE"):
                return SetImmutable(table, self._immutable(table))
            case "RESET" if self.cursor.accept("IMMUTABLE"):
                return SetImmutable(table, None)
            case "SET":
                what = self._property()
                self.cursor.keywords("=")
                value = self._freshness() if what == "FRESHNESS" else self.cursor.keyword(RefreshMode)
                return Alter(table, what, value)
            case "RESET":
                return Alter(table, self._property(), None)
            case "REWIND":
                return self._rewind(table)
            case "RESYNC":
                dry_run = self._dry_run()
                where = self.cursor.rest("a condition") if self.cursor.accept("WHERE") else ""
                return Resync(table, dry_run, where)
            case "REPLAY":
                self.cursor.keywords("DEAD", "LETTERS")
                return ReplayDeadLetters(table, self._places())
            case "DROP":
                self.cursor.keywords("DEAD", "LETTERS")
                places = self._places()
                self.cursor.keywords("REASON")
                return DropDeadLetters(table, self.cursor.string("a reason in quotes"), places)
            case "ROLLBACK":
                return Rollback(table)
            case "PUBLISH":
                return Publish(table, self._dry_run())
            case "ERASE":
                key = self._key()
                if history := self.cursor.accept("WITH"):
                    self.cursor.keywords("HISTORY")
                return Erase(table, key, history, self._dry_run())
            case _:
                return AlterQuery(table, self.cursor.rest("a query"))

    def _key(self) -> tuple[tuple[str | None, str], ...]:
        """`KEY (value)` or `KEY (column = value, …)`."""
        self.cursor.keywords("KEY", "(")
        if (token := self.cursor.peek()) is None or token.token_type in _VALUES:
            found: list[tuple[str | None, str]] = [(None, self._value())]
        else:
            found = [self._key_column()]
            while self.cursor.accept(","):
                found.append(self._key_column())
        self.cursor.keywords(")")
        return tuple(found)

    def _key_column(self) -> tuple[str, str]:
        column, _ = self.cursor.name("a key column, or its value in quotes")
        self.cursor.keywords("=")
        return column, self._value()

    def _value(self) -> str:
        """A number, or a text in quotes, which may be a value of any type."""
        token = self.cursor.peek()
        if token is not None and token.token_type is TokenType.NUMBER:
            return str(self.cursor.integer("a value"))
        return self.cursor.string("a value in quotes")

    def _property(self) -> Property:
        return cast("Property", self.cursor.keyword(PROPERTIES))

    def _immutable(self, table: str) -> str:
        """`WHERE (column < 'label')`."""
        start = self.cursor.peek()
        if (partition := self._tables[table]) is None:
            self.cursor.fail(f"`{table}` has no partitions", token=start)
        self.cursor.keywords("WHERE", "(")
        column, token = self.cursor.name("the partition column")
        if column != partition:
            self.cursor.fail(f"`{table}` is partitioned by `{partition}`, not by `{column}`", token=token)
        self.cursor.keywords("<")
        label = self.cursor.string("a partition label in quotes")
        self.cursor.keywords(")")
        return label

    def _freshness(self) -> str:
        if self.cursor.keyword(("INTERVAL", DOWNSTREAM)) == DOWNSTREAM:
            return DOWNSTREAM
        token = self.cursor.peek()
        amount = self.cursor.string("the interval's number in quotes, such as '10'")
        unit = self.cursor.keyword([*UNITS, *(f"{unit}S" for unit in UNITS)]).removesuffix("S")
        try:
            return freshness_text(interval(amount, unit))
        except NoInterval as error:
            self.cursor.fail(error.reason, error.hint, token=token)

    def _refresh(self, table: str) -> Refresh | RefreshNew:
        if self.cursor.accept("NEW"):
            turn = self.cursor.string("a turn in quotes") if self.cursor.accept("TURN") else None
            return RefreshNew(table, turn)
        if self.cursor.accept("ALL"):
            return Refresh(table, None, *self._cascade())
        labels = self._partition((table,))
        if labels is None and (column := self._tables[table]) is not None:
            self.cursor.expected(
                "`PARTITION`",
                f"name the range: REFRESH PARTITION ({column} BETWEEN '…' AND '…'), or REFRESH ALL",
            )
        return Refresh(table, labels, *self._cascade())

    def _cascade(self) -> tuple[bool, bool]:
        """`CASCADE [DRY RUN]`, where it follows."""
        if not self.cursor.accept("CASCADE"):
            return False, False
        return True, self._dry_run()

    def _dry_run(self) -> bool:
        """Whether `DRY RUN` follows."""
        dry_run = self.cursor.accept("DRY")
        if dry_run:
            self.cursor.keywords("RUN")
        return dry_run

    def _rewind(self, table: str) -> Rewind:
        self.cursor.keywords("TO")
        to: int | datetime
        if self.cursor.keyword(("VERSION", "TIMESTAMP")) == "VERSION":
            to = self.cursor.integer("a changelog version")
        else:
            token = self.cursor.peek()
            text = self.cursor.string("a time in quotes, such as '2026-11-22 19:30:00'")
            try:
                to = moment(text)
            except ValueError as error:
                self.cursor.fail(
                    str(error), "write '2026-11-22 19:30:00', in UTC, or with +02:00", token=token
                )
        cascade = self.cursor.accept("CASCADE")
        return Rewind(table, to, cascade, self._dry_run())

    def _verify(self) -> Verify:
        names: list[str] = []
        if self.cursor.peek() and not any(map(self._at, ("PARTITION", "WITHOUT", "REPAIR"))):
            names.append(self._table())
            while self.cursor.accept(","):
                names.append(self._table())
        labels = self._partition(tuple(names))
        source = not self.cursor.accept("WITHOUT")
        if not source:
            self.cursor.keywords("SOURCE")
        return Verify(tuple(dict.fromkeys(names)), labels, source, self.cursor.accept("REPAIR"))

    def _changes(self) -> Changes:
        table = self._table()
        start: Start = None
        if self.cursor.accept("FROM"):
            match self.cursor.keyword(("VERSION", "SNAPSHOT", "LATEST")):
                case "VERSION":
                    start = self.cursor.integer("a changelog version")
                case "SNAPSHOT":
                    start = "SNAPSHOT"
                case _:
                    start = "LATEST"
        reader = None
        if self.cursor.accept("READER"):
            token = self.cursor.peek()
            reader = self.cursor.string("a reader's name in quotes")
            if not READER_NAME.fullmatch(reader):
                self.cursor.fail(f"`{reader}` is no name of a reader", READER_HINT, token=token)
        return Changes(table, start, reader)

    def _load(self) -> LoadSource:
        self.cursor.keywords("SOURCE")
        return LoadSource(self.cursor.name("a source, such as `shop`")[0])

    def _materialized(self) -> str:
        self.cursor.keywords(*_MATERIALIZED)
        return self._table()

    def _table(self) -> str:
        name, first = self._written("a table name, such as `dws.user_hour`")
        if name in self._elsewhere:
            self.cursor.fail(self._elsewhere[name], ELSEWHERE_HINT, token=first)
        if name not in self._tables:
            self.cursor.fail(f"no table `{name}`", did_you_mean(name, self._tables), token=first)
        return name

    def _written(self, what: str) -> tuple[str, Token]:
        """A name of several parts, and where it begins."""
        name, first = self.cursor.name(what)
        while self.cursor.accept("."):
            name += "." + self.cursor.name("the rest of a table name")[0]
        return name, first

    def _partition(self, tables: tuple[str, ...]) -> LabelRange | None:
        """`PARTITION (column = 'A')` or `PARTITION (column BETWEEN 'A' AND 'B')`, where it follows."""
        start = self.cursor.peek()
        if not self.cursor.accept("PARTITION"):
            return None
        for table in tables:
            if self._tables[table] is None:
                self.cursor.fail(f"`{table}` has no partitions", token=start)
        self.cursor.keywords("(")
        column, token = self.cursor.name("the partition column")
        known = {c for t in tables or self._tables if (c := self._tables[t]) is not None}
        for table in tables:
            if (actual := self._tables[table]) != column:
                self.cursor.fail(f"`{table}` is partitioned by `{actual}`, not by `{column}`", token=token)
        if not tables and column not in known:
            self.cursor.fail(
                f"no table is partitioned by `{column}`", did_you_mean(column, known), token=token
            )
        if self.cursor.keyword(("=", "BETWEEN")) == "=":
            label = self.cursor.string("a partition label in quotes")
            labels = LabelRange(label, label)
        else:
            low = self.cursor.string("a partition label in quotes")
            self.cursor.keywords("AND")
            labels = LabelRange(low, self.cursor.string("a partition label in quotes"))
        self.cursor.keywords(")")
        return labels

    def _at(self, word: str) -> bool:
        token = self.cursor.peek()
        return token is not None and token.text.upper() == word
