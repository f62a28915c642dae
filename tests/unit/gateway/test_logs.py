"""The log as JSON."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from headrace.engine.spark.meter import SHARED, Meter
from headrace.gateway.logs import JsonFormatter


@pytest.fixture
def meter() -> Meter:
    return Meter()


@pytest.fixture
def log(meter: Meter) -> Iterator[logging.Logger]:
    logger, handler = logging.getLogger("headrace.test_logs"), logging.StreamHandler(io.StringIO())
    handler.setFormatter(JsonFormatter(meter.told))
    logger.addHandler(handler)
    logger.propagate = False
    yield logger
    logger.removeHandler(handler)
    logger.propagate = True


def lines(log: logging.Logger) -> list[dict[str, Any]]:
    stream = log.handlers[0].stream  # type: ignore[attr-defined]
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_a_line_is_an_object(log: logging.Logger) -> None:
    log.warning("%d rows of `Ü`\nand more", 3)
    [line] = lines(log)
    assert line.keys() == {"time", "level", "logger", "message"}
    assert line["time"].endswith("Z") and len(line["time"]) == len("2026-11-28T21:40:00.123Z")
    assert (line["level"], line["logger"]) == ("WARNING", "headrace.test_logs")
    assert line["message"] == "3 rows of `Ü`\nand more"


def test_it_says_for_which_table_and_run(log: logging.Logger, meter: Meter) -> None:
    with meter.of(SHARED, "stream", "r1"):
        log.warning("a")
        with meter.of("dws.t", "compaction", "r2"):
            log.warning("b")
        log.warning("c")
    log.warning("d")
    told = [{k: line.get(k) for k in ("table", "work", "run")} for line in lines(log)]
    assert told[0] == told[2] == {"table": None, "work": "stream", "run": "r1"}
    assert told[1] == {"table": "dws.t", "work": "compaction", "run": "r2"}
    assert told[3] == dict.fromkeys(("table", "work", "run"))


def test_what_was_raised_is_one_field(log: logging.Logger) -> None:
    try:
        raise ValueError("no")
    except ValueError:
        log.exception("failed")
    [line] = lines(log)
    assert line["exception"].startswith("Traceback") and line["exception"].endswith("ValueError: no")
