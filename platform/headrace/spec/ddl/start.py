"""`START_MODE`: from where a new or changed table is computed. The names are those of Flink's FLIP-557."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum

from headrace.spec.syntax.cursor import Cursor
from headrace.spec.syntax.interval import NoInterval, interval, read_interval


class StartPosition(StrEnum):
    FROM_BEGINNING = "FROM_BEGINNING"
    FROM_NOW = "FROM_NOW"
    FROM_TIMESTAMP = "FROM_TIMESTAMP"


RESUME_OR = "RESUME_OR_"
MODES = (*StartPosition, *(f"{RESUME_OR}{p}" for p in StartPosition))

_MOMENT = re.compile(r"\d{4}-\d\d-\d\d( \d\d:\d\d(:\d\d)?)?")


@dataclass(frozen=True)
class StartMode:
    """
    Args:
        position: where the table starts.
        resume: a table that has rows starts where it has come to instead.
        before: FROM_NOW: how long before now.
        at: FROM_TIMESTAMP: the moment, in UTC.
    """

    position: StartPosition
    resume: bool = False
    before: timedelta = timedelta(0)
    at: datetime | None = None

    def moment(self, now: datetime, reached: datetime | None) -> datetime | None:
        """When the table starts, in UTC; None for the beginning.

        Args:
            reached: up to when its present rows go; None where it has none.
        """
        if self.resume and reached is not None:
            return reached
        match self.position:
            case StartPosition.FROM_BEGINNING:
                return None
            case StartPosition.FROM_NOW:
                return now - self.before
            case StartPosition.FROM_TIMESTAMP:
                return self.at

    def __str__(self) -> str:
        name = f"{RESUME_OR if self.resume else ''}{self.position}"
        if self.at is not None:
            return f"{name}('{self.at:%Y-%m-%d %H:%M:%S}')"
        return f"{name}({self.before})" if self.before else name


def read_start_mode(cursor: Cursor) -> StartMode:
    """What stands after `START_MODE =`. Raises SpecError."""
    word = cursor.one_of(*MODES)
    resume, position = word.startswith(RESUME_OR), StartPosition(word.removeprefix(RESUME_OR))
    if position is StartPosition.FROM_TIMESTAMP:
        return StartMode(position, resume, at=_moment(cursor))
    if position is StartPosition.FROM_NOW and cursor.accept("("):
        return StartMode(position, resume, before=_before(cursor))
    return StartMode(position, resume)


def _moment(cursor: Cursor) -> datetime:
    cursor.expect("(")
    cursor.accept("TIMESTAMP")
    word = cursor.string("a time such as '2026-11-01 00:00:00', in UTC,")
    cursor.expect(")")
    try:
        if not _MOMENT.fullmatch(word.value):
            raise ValueError
        return datetime.fromisoformat(word.value).replace(tzinfo=UTC)
    except ValueError:
        hint = "write it like FROM_TIMESTAMP('2026-11-01 00:00:00'), in UTC"
        raise cursor.error(f"`{word.value}` is no time", at=word, hint=hint) from None


def _before(cursor: Cursor) -> timedelta:
    form = "write FROM_NOW(INTERVAL '7' DAY)"
    amount, unit = read_interval(cursor, "`{}` is no unit of an interval", form)
    cursor.expect(")")
    try:
        return interval(amount.value, unit)
    except NoInterval as error:
        raise cursor.error(error.reason, at=amount, hint=form) from error
