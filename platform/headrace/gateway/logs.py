"""The server's log as JSON, an object a line, for whoever gathers logs of many machines."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

Told = Callable[[int], dict[str, str]]
"""What a thread, by its number, works for: `table`, `work` and `run`, as far as there are any."""


class JsonFormatter(logging.Formatter):
    """`time`, `level`, `logger`, `message`, where one was raised `exception`, and whom the thread works for.

    Spark's own lines have the same names for what they tell; see `engine/spark/log4j2-json.properties`.
    """

    def __init__(self, told: Told) -> None:
        super().__init__()
        self._told = told

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line: dict[str, Any] = {
            "time": at.replace("+00:00", "Z"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        if record.thread is not None:
            line |= self._told(record.thread)
        return json.dumps(line, ensure_ascii=False, default=str)
