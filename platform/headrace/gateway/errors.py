"""What a client of the gateway may meet. Light to import."""

from __future__ import annotations

from headrace.errors import TerminalError, TransientError


class NotReachable(TransientError):
    """No warehouse server answers, or it is not ready to take statements."""


class StatementRefused(TerminalError):
    """The server refused the statement before running it: it cannot be read, or names what does not exist."""


class StatementFailed(TerminalError):
    """The statement ran and failed; running it again cannot help."""


class StatementInterrupted(TransientError):
    """The statement ran into something that may be over when it is run again."""
