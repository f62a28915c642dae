"""What Spark finds of queries by analysing them: kept, since it takes it a tenth of a second each.

A finding depends on nothing but the texts that are its key, so it stays right as long as they are the same.
"""

from __future__ import annotations

import inspect
import json
import logging
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pyspark

from headrace.engine.refresh.strategies import weighted
from headrace.engine.spark import query, session
from headrace.spec.identity import digest
from headrace.storage.location import replace_text

log = logging.getLogger(__name__)


class Analyses:
    """Findings by the digests of what they were found of.

    Args:
        file: where they stay over restarts; None: in memory alone.
    """

    def __init__(self, file: Path | None = None) -> None:
        self._file = file
        self._known = _read(file) if file is not None else {}
        self._used: dict[str, Any] = {}

    def find(self, analyse: Callable[[], Any], *of: object) -> Any:
        """What `analyse` finds, made of JSON's types; it runs where nobody has yet.

        Args:
            of: all that it looks at.
        """
        key = digest(_code(), *of)
        if key not in self._known:
            self._known[key] = analyse()
        self._used[key] = self._known[key]
        return self._known[key]

    def keep(self) -> None:
        """Write down what was used since the last time, and let go of the rest."""
        known, self._known, self._used = self._known, self._used, {}
        if self._file is None or known == self._known == _read(self._file):
            return
        try:
            replace_text(self._file, json.dumps(self._known))
        except OSError as error:  # the next start takes longer
            log.warning("%s cannot be written: %s", self._file, error)


@cache
def _code() -> str:
    """The Spark that analyses, and the code that asks it."""
    return digest(pyspark.__version__, *map(inspect.getsource, (query, session, weighted)))


def _read(file: Path) -> dict[str, Any]:
    """Nothing where there is no file, or it cannot be read."""
    try:
        known = json.loads(file.read_text())
    except (OSError, ValueError):
        return {}
    return known if isinstance(known, dict) else {}
