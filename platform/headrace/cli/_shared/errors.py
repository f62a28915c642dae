"""Exit codes, and errors as one plain line with a hint."""

from __future__ import annotations

import os
import sys

from headrace.errors import Cancelled, HeadraceError, SpecError, TerminalError, UnknownName
from headrace.gateway.errors import NotReachable, StatementRefused

FAILED = 1
"""What was asked about is not equal, not well, or failed."""
USAGE = 2
"""The command, a setting or a layer file is wrong."""
UNREACHABLE = 3
"""The service that must answer does not."""
INTERRUPTED = 130


class UsageError(TerminalError):
    """The command line or the project directory is wrong."""


def exit_code(error: HeadraceError) -> int:
    """The exit code of a command that ended with this error."""
    match error:
        case NotReachable():
            return UNREACHABLE
        case UsageError() | SpecError() | UnknownName() | StatementRefused():
            return USAGE
        case _:
            return FAILED


def debugging() -> bool:
    """Whether tracebacks are wanted."""
    return os.environ.get("HEADRACE_DEBUG", "") not in ("", "0")


def show(error: BaseException) -> int:
    """Print the error to stderr and return the exit code."""
    if isinstance(error, KeyboardInterrupt | Cancelled):
        print("headrace: cancelled", file=sys.stderr)
        return INTERRUPTED
    if isinstance(error, HeadraceError):
        print(f"headrace: {error}", file=sys.stderr)
        return exit_code(error)
    lines = str(error).strip().splitlines()
    print(f"headrace: {type(error).__name__}: {lines[0] if lines else 'no message'}", file=sys.stderr)
    print("  hint: this is a mistake in headrace; HEADRACE_DEBUG=1 shows where", file=sys.stderr)
    return FAILED
