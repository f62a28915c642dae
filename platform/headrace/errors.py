"""Every error headrace raises on purpose: terminal (a person must act) or transient (try again)."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

_EXCEPTION = re.compile(r"[A-Za-z_][\w.]*: \S")
"""How the last line of a traceback begins."""


class HeadraceError(Exception):
    """Base class. The message says what is wrong, where, and which command comes next."""


class TerminalError(HeadraceError):
    """Trying again cannot help: the input or the warehouse must be changed first."""


class TransientError(HeadraceError):
    """The same call may succeed later (a service restarts, a commit lost a race)."""


class Cancelled(HeadraceError):
    """The statement was cancelled by its owner; nothing of it was committed."""


class ConstraintViolated(TerminalError):
    """A row breaks a constraint declared `ON VIOLATION FAIL`, or two rows share a primary key."""


class NeedsResync(TerminalError):
    """Input was lost that headrace cannot prove absent: the table halts instead of skipping it."""


class SnapshotAnew(NeedsResync):
    """The connector began its first snapshot anew: the table's source is read again.

    Args:
        position: of the source's log, at which it has read; 0 where it is not known.
    """

    def __init__(self, message: str, position: int = 0) -> None:
        super().__init__(message)
        self.position = position


class SourceChanged(TerminalError):
    """The source has other columns than a stg table reads: what came since was made with them."""


class UnknownName(TerminalError):
    """A table, column or source that does not exist."""


@dataclass(frozen=True)
class Location:
    """Where in a layer file something stands. Lines and columns count from 1."""

    path: Path
    line: int
    column: int = 1

    def __str__(self) -> str:
        return f"{self.path}:{self.line}:{self.column}"


class SpecError(TerminalError):
    """A layer file that cannot be accepted.

    Args:
        message: what is wrong, in one sentence.
        location: file, line and column, always shown first as `file:line:column`.
        hint: what to write or run instead.
    """

    def __init__(self, message: str, location: Location, hint: str | None = None) -> None:
        super().__init__(f"{location}: {message}" + (f"\n  hint: {hint}" if hint else ""))
        self.reason = message
        self.location = location
        self.hint = hint


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A hint that names the closest known names, or lists what there is. Empty where nothing is known."""
    names = sorted(known)
    close = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
    if close:
        return "did you mean " + " or ".join(f"`{c}`" for c in close) + "?"
    return "known: " + ", ".join(f"`{n}`" for n in names[:20]) if names else ""


def raised(told: str) -> str:
    """What was raised in Python, of a text that has its traceback among other things; else all of it."""
    _, traceback, lines = told.partition("Traceback (most recent call last)")
    found = [line for line in lines.splitlines() if _EXCEPTION.match(line)]
    return found[-1] if traceback and found else told
