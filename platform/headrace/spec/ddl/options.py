"""`WITH ('key' = 'value', …)`: the few options there are."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, tzinfo
from enum import StrEnum
from typing import Any, TypeVar, cast

from headrace.errors import did_you_mean
from headrace.spec.calendar import Calendar, NoCalendar, read_calendar, read_zone
from headrace.spec.model import CorrectionPolicy, SchemaChangeBehavior
from headrace.spec.partitions.completion import OPTIONS as COMPLETION
from headrace.spec.partitions.completion import ZONE, Completion, NoCompletion, read_option
from headrace.spec.partitions.labels import FORMATS, is_format
from headrace.spec.publishing import OPTIONS as PUBLISHING
from headrace.spec.publishing import PUBLISH, PUBLISH_TABLE, NoTarget, Target, read_target
from headrace.spec.syntax.cursor import Cursor
from headrace.spec.syntax.text import Word

FORMATTER = ("partition.fields.", ".date-formatter")
CORRECTION = "correction.policy"
CALENDAR = "freshness.calendar"
TIME_ZONE = "freshness.time-zone"
SCHEMA_CHANGE = "schema.change.behavior"
LIMIT = "quarantine.limit"
OWNERS = "owners"

_OWNER = re.compile(r"team:[A-Za-z0-9_\-]+|[^@\s,]+@[^@\s,]+\.[^@\s,]+")
"""As Dagster has them."""

Choice = TypeVar("Choice", bound=StrEnum)


@dataclass
class Options:
    """The options as written, and what they mean once the partition columns are known."""

    pairs: list[tuple[Word, Word]] = field(default_factory=list)
    partition_format: str | None = None
    correction_policy: CorrectionPolicy = CorrectionPolicy.RECOMPUTE
    calendar: Calendar | None = None
    completion: Completion = field(default_factory=Completion)
    schema_change: SchemaChangeBehavior | None = None
    quarantine_limit: int | None = None
    owners: tuple[str, ...] = ()
    target: Target | None = None

    @property
    def written(self) -> tuple[tuple[str, str], ...]:
        return tuple((key.value, value.value) for key, value in self.pairs)


def read_options(cursor: Cursor) -> Options:
    options = Options()
    cursor.expect("(")
    while True:
        key = cursor.string("an option's name")
        cursor.expect("=")
        if any(key.value == other.value for other, _ in options.pairs):
            raise cursor.error(f"option '{key.value}' is given twice", at=key)
        options.pairs.append((key, cursor.string("the option's value")))
        if cursor.accept(")"):
            return options
        if not cursor.accept(","):
            cursor.fail("`,` or `)`")


def resolve(cursor: Cursor, options: Options, partitioned_by: tuple[str, ...], name: str) -> None:
    """Give each option its meaning. Waits for all clauses: WITH may stand before PARTITIONED BY.

    Args:
        name: of the table, `layer.table`.
    """
    prefix, suffix = FORMATTER
    for key, value in options.pairs:
        if key.value == CORRECTION:
            options.correction_policy = _choice(cursor, value, CorrectionPolicy, "correction policy")
        elif key.value == SCHEMA_CHANGE:
            options.schema_change = _choice(cursor, value, SchemaChangeBehavior, "behavior at schema changes")
        elif key.value == LIMIT:
            options.quarantine_limit = _rows(cursor, value)
        elif key.value == OWNERS:
            options.owners = _owners(cursor, value)
        elif key.value in (CALENDAR, TIME_ZONE, *PUBLISHING):
            continue  # together, below
        elif key.value in COMPLETION:
            _read_completion(cursor, options, key, value, partitioned_by)
        elif key.value.startswith(prefix) and key.value.endswith(suffix):
            column = key.value[len(prefix) : -len(suffix)]
            _check_formatter(cursor, key, value, column, partitioned_by)
            options.partition_format = value.value
        else:
            columns = partitioned_by or ("<column>",)
            known = [
                CORRECTION,
                CALENDAR,
                TIME_ZONE,
                SCHEMA_CHANGE,
                LIMIT,
                OWNERS,
                *PUBLISHING,
                *COMPLETION,
                *(f"{prefix}{c}{suffix}" for c in columns),
            ]
            raise cursor.error(f"'{key.value}' is no option", at=key, hint=did_you_mean(key.value, known))
    _read_calendar(cursor, options)
    _read_target(cursor, options, name)


def _read_target(cursor: Cursor, options: Options, name: str) -> None:
    words = {key.value: (key, value) for key, value in options.pairs}
    if PUBLISH_TABLE in words and PUBLISH not in words:
        raise cursor.error(
            f"'{PUBLISH_TABLE}' is that of '{PUBLISH}'", at=words[PUBLISH_TABLE][0], hint="add it"
        )
    if PUBLISH not in words:
        return
    url, named = words[PUBLISH][1], words.get(PUBLISH_TABLE, (None, None))[1]
    try:
        options.target = read_target(url.value, named.value if named else name)
    except NoTarget as error:
        at = named if named and error.option == PUBLISH_TABLE else url
        raise cursor.error(error.reason, at=at, hint=error.hint) from None


def _choice(cursor: Cursor, value: Word, choices: type[Choice], what: str) -> Choice:
    if value.value not in list(choices):
        listed = " or ".join(f"'{c}'" for c in choices)
        raise cursor.error(f"'{value.value}' is no {what}", at=value, hint=f"write {listed}")
    return choices(value.value)


def _rows(cursor: Cursor, value: Word) -> int:
    if not value.value.isdecimal():
        raise cursor.error(f"'{value.value}' is no number of rows", at=value, hint="write e.g. '100'")
    return int(value.value)


def _owners(cursor: Cursor, value: Word) -> tuple[str, ...]:
    found = tuple(owner.strip() for owner in value.value.split(","))
    for owner in found:
        if not _OWNER.fullmatch(owner):
            hint = "write e.g. 'team:sales, ada@shop.example'"
            raise cursor.error(f"'{owner}' is no owner", at=value, hint=hint)
    return found


def _read_calendar(cursor: Cursor, options: Options) -> None:
    words = {key.value: (key, value) for key, value in options.pairs}
    if TIME_ZONE in words and CALENDAR not in words:
        raise cursor.error(f"'{TIME_ZONE}' is that of '{CALENDAR}'", at=words[TIME_ZONE][0], hint="add it")
    if CALENDAR not in words:
        return
    zone: tzinfo = UTC
    if TIME_ZONE in words:
        with _told_at(cursor, word := words[TIME_ZONE][1]):
            zone = read_zone(word.value)
    with _told_at(cursor, word := words[CALENDAR][1]):
        options.calendar = read_calendar(word.value, zone)


def _read_completion(
    cursor: Cursor, options: Options, key: Word, value: Word, partitioned_by: tuple[str, ...]
) -> None:
    prefix, suffix = FORMATTER
    if not any(k.value.startswith(prefix) and k.value.endswith(suffix) for k, _ in options.pairs):
        column = (*partitioned_by, "<column>")[0]
        hint = f"declare PARTITIONED BY ({column}) WITH ('{prefix}{column}{suffix}' = 'yyyyMMddHH')"
        raise cursor.error(f"'{key.value}' needs partitions by time", at=key, hint=hint)
    with _told_at(cursor, value):
        found = {"zone": read_zone(value.value)} if key.value == ZONE else read_option(key.value, value.value)
    options.completion = replace(options.completion, **cast("Any", found))


@contextmanager
def _told_at(cursor: Cursor, word: Word) -> Iterator[None]:
    try:
        yield
    except (NoCalendar, NoCompletion) as error:
        raise cursor.error(error.reason, at=word, hint=error.hint) from None


def _check_formatter(
    cursor: Cursor, key: Word, value: Word, column: str, partitioned_by: tuple[str, ...]
) -> None:
    if column not in partitioned_by:
        hint = did_you_mean(column, partitioned_by) or "declare it in PARTITIONED BY (…)"
        raise cursor.error(f"`{column}` is no partition column", at=key, hint=hint)
    if column != partitioned_by[0]:
        hint = f"put `{column}` first in PARTITIONED BY: a refresh names ranges of the first column"
        raise cursor.error("only the first partition column takes a date-formatter", at=key, hint=hint)
    if not is_format(value.value):
        raise cursor.error(
            f"'{value.value}' is no partition format", at=value, hint="write one of " + ", ".join(FORMATS)
        )
