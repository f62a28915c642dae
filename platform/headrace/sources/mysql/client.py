"""Connections to MySQL and MariaDB."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, cast
from urllib.parse import unquote, urlsplit

import pymysql
from pymysql.constants import FIELD_TYPE
from pymysql.converters import conversions
from pymysql.cursors import Cursor, SSCursor

from headrace.errors import TransientError
from headrace.sources.stream import binlog

Rows = Sequence[tuple[Any, ...]]

_LOST, _DENIED = (2002, 2003, 2006, 2013, 1053, 1205), (1044, 1045, 1142, 1227)


def quoted(*names: str) -> str:
    """A name as SQL reads it."""
    return ".".join("`" + name.replace("`", "``") + "`" for name in names)


def microseconds(text: str | bytes) -> int:
    """Of a TIME: it goes from -838:59:59 to 838:59:59."""
    plain = text.decode() if isinstance(text, bytes) else text
    sign = -1 if plain.startswith("-") else 1
    hours, minutes, seconds = plain.lstrip("-").split(":")
    whole, _, fraction = seconds.partition(".")
    total = (int(hours) * 60 + int(minutes)) * 60 + int(whole)
    return sign * (total * 1_000_000 + int(fraction.ljust(6, "0") or 0))


_CONVERSIONS: dict[Any, Any] = {**conversions, FIELD_TYPE.TIME: microseconds}


@dataclass(frozen=True)
class Client:
    """One connection. Methods raise TransientError where the server does not answer."""

    connection: Any

    def rows(self, query: str, arguments: Sequence[object] | Mapping[str, object] = ()) -> Rows:
        """All rows of a query."""
        with answering(), self.connection.cursor(Cursor) as cursor:
            cursor.execute(query, arguments or None)
            return cast(Rows, cursor.fetchall())

    def streamed(self) -> Any:
        """A cursor that does not hold all rows at once."""
        return self.connection.cursor(SSCursor)

    def close(self) -> None:
        self.connection.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    @property
    def maria(self) -> bool:
        """Whether it is MariaDB."""
        return "mariadb" in str(self.connection.get_server_info()).lower()

    @property
    def version(self) -> tuple[int, ...]:
        """Of the server."""
        text = str(self.connection.get_server_info()).removeprefix("5.5.5-")
        found = re.match(r"(\d+)\.(\d+)\.(\d+)", text)
        return tuple(map(int, found.groups())) if found else ()

    @property
    def user(self) -> str:
        """Who is connected, as GRANT names it."""
        [(user,)] = self.rows("SELECT CURRENT_USER()")
        name, _, host = str(user).rpartition("@")
        return f"'{name}'@'{host}'"

    def variables(self, *names: str) -> dict[str, str]:
        """The server's variables of these names that there are."""
        asked = ", ".join(["%s"] * len(names))
        rows = self.rows(f"SHOW GLOBAL VARIABLES WHERE Variable_name IN ({asked})", names)
        return {str(name).lower(): str(value) for name, value in rows}

    def log_position(self) -> int | None:
        """Where the binary log stands now; None where there is none."""
        newer = not self.maria and self.version >= (8, 2)
        rows = self.rows("SHOW BINARY LOG STATUS" if newer else "SHOW MASTER STATUS")
        return binlog.number(str(rows[0][0]), int(rows[0][1])) if rows else None

    def logs(self) -> list[str]:
        """The files of the binary log that are there."""
        return [str(row[0]) for row in self.rows("SHOW BINARY LOGS")]


@contextmanager
def answering() -> Iterator[None]:
    """What means that the server does not answer, as TransientError."""
    try:
        yield
    except pymysql.MySQLError as error:
        if isinstance(error, pymysql.InterfaceError) or (error.args and error.args[0] in _LOST):
            raise silent(error) from error
        raise


def silent(error: Exception) -> TransientError:
    """Of a server that does not answer."""
    says = error.args[1] if len(error.args) > 1 else error
    return TransientError(f"the source database does not answer: {says}. Next: `headrace status`")


def denied(error: BaseException) -> bool:
    """Whether the server refuses what it was asked for want of a privilege."""
    return isinstance(error, pymysql.MySQLError) and bool(error.args) and error.args[0] in _DENIED


def connect(dsn: str) -> Client:
    """A connection with UTC timestamps, in autocommit mode.

    Raises:
        TransientError: the server does not answer, or not to this user.
    """
    url = urlsplit(dsn)
    try:
        return Client(
            pymysql.connect(
                host=url.hostname or "127.0.0.1",
                port=url.port or 3306,
                user=unquote(url.username or ""),
                password=unquote(url.password or ""),
                charset="utf8mb4",
                autocommit=True,
                connect_timeout=10,
                conv=_CONVERSIONS,
                # Zeros of dates and the like are what they are, and every text may be compared.
                init_command="SET time_zone = '+00:00', sql_mode = '', net_write_timeout = 3600",
            )
        )
    except pymysql.MySQLError as error:
        raise silent(error) from error
