"""What a suite measured: a table for people, JSON for programs, and whether every bar holds."""

from __future__ import annotations

import json
import math
import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import median
from typing import Any

PACKAGES = (*("headrace", "pyspark", "delta-spark", "deltalake", "pyarrow", "sqlglot", "tpchgen-cli"),)

Value = bool | int | float | str | None


@dataclass(frozen=True)
class Result:
    """One measured value.

    Args:
        name: `subject.measure` where a suite measures the same of several subjects, else one phrase. The
            last dot counts: a subject may be a table with its layer.
        unit: of `value`, e.g. `s`; empty where it has none.
        bar: what it must meet, as text (`≥ 22`); None where there is no bar.
        holds: whether it does; None where there is no bar.
    """

    name: str
    value: Value
    unit: str = ""
    bar: str | None = None
    holds: bool | None = None

    def __post_init__(self) -> None:
        if (self.bar is None) != (self.holds is None):
            raise ValueError(f"{self.name}: a bar and whether it holds come together")


def at_least(name: str, value: float, bar: float, unit: str = "") -> Result:
    """A result that must reach `bar`. A value that is not a number does not."""
    return Result(name, value, unit, f"≥ {bar:g}", value >= bar)


def at_most(name: str, value: float, bar: float, unit: str = "") -> Result:
    """A result that must not exceed `bar`. A value that is not a number does."""
    return Result(name, value, unit, f"≤ {bar:g}", value <= bar)


def less_than(name: str, value: float, bar: float, unit: str = "") -> Result:
    """A result that must stay below `bar`. A value that is not a number does not."""
    return Result(name, value, unit, f"< {bar:g}", value < bar)


def spread(subject: str, values: Sequence[float], unit: str = "s") -> list[Result]:
    """The least, the middle and the largest of several runs."""
    measures = {"min": min(values), "median": median(values), "max": max(values)}
    return [Result(f"{subject}.{name}", value, unit) for name, value in measures.items()]


@dataclass(frozen=True)
class Report:
    """All of one run of a suite.

    Args:
        rows: `--rows`, None for the suite's own number.
        quick: whether it was the short form of the suite.
    """

    suite: str
    seed: int
    results: Sequence[Result]
    rows: int | None = None
    quick: bool = False

    @property
    def holds(self) -> bool:
        """Whether every bar holds, and there is one."""
        bars = [r.holds for r in self.results if r.holds is not None]
        return bool(bars) and all(bars)

    def as_dict(self) -> dict[str, Any]:
        return {
            "suite": self.suite,
            "machine": machine(),
            "versions": versions(),
            "seed": self.seed,
            "rows": self.rows,
            "quick": self.quick,
            "results": [asdict(r) for r in self.results],
        }

    def write(self, path: Path) -> None:
        """Write the JSON file, its folder too where there is none.

        NaN and what is beyond all bounds become null: JSON has neither.
        """
        path.parent.mkdir(parents=True, exist_ok=True)
        content = self.as_dict()
        for result in content["results"]:
            value = result["value"]
            result["value"] = None if isinstance(value, float) and not math.isfinite(value) else value
        path.write_text(json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n", "utf-8")

    def tables(self, last: Sequence[Result] = ()) -> list[tuple[list[str], list[list[Value]]]]:
        """Headers and rows to print: the results of subjects, if there are any, then the plain ones.

        Args:
            last: of another run, which are shown beside those of the same names.
        """
        headers, rows = by_subject(self.results)
        before = {name: values for name, *values in by_subject(last, headers[1:])[1]}
        beside = [row for name, *now in rows for row in _beside(name, now, before.get(name))]
        others = {r.name: rounded(r.value) for r in last}
        plain_headers, plain_rows = plain(self.results)
        if last:
            plain_headers.insert(2, LAST)
            plain_rows = [[name, now, others.get(str(name)), *rest] for name, now, *rest in plain_rows]
        return [*([(headers, beside)] if rows else []), (plain_headers, plain_rows)]


LAST = "last run"


def _beside(name: Value, now: list[Value], before: list[Value] | None) -> list[list[Value]]:
    return [[name, *now], *([[f"  {LAST}", *before]] if before else [])]


def by_subject(
    results: Sequence[Result], headers: Sequence[str] | None = None
) -> tuple[list[str], list[list[Value]]]:
    """Headers and rows of the results that several subjects have: a row a subject, a column a measure.

    Args:
        headers: the measures that are wanted, with their units. Default: all.
    """
    subjects: dict[str, dict[str, Value]] = {}
    found: dict[str, None] = {}
    for result in results:
        subject, dot, measure = result.name.rpartition(".")
        if dot:
            header = f"{measure} ({result.unit})" if result.unit else measure
            subjects.setdefault(subject, {})[header] = rounded(result.value)
            found[header] = None
    wanted = list(found) if headers is None else headers
    return ["", *wanted], [[name, *(values.get(h) for h in wanted)] for name, values in subjects.items()]


def plain(results: Sequence[Result]) -> tuple[list[str], list[list[Value]]]:
    """Headers and rows of all other results, and of those that have a bar."""
    rows: list[list[Value]] = [
        [r.name, rounded(r.value), r.unit, r.bar or "", _VERDICT[r.holds]]
        for r in results
        if "." not in r.name or r.bar is not None
    ]
    return ["result", "value", "unit", "bar", ""], rows


_VERDICT = {True: "ok", False: "NOT OK", None: ""}


def rounded(value: Value) -> Value:
    """Three digits, which is what one run can tell."""
    if not isinstance(value, float):
        return value
    return float(f"{value:.3g}") if abs(value) < 100 else round(value, 1)


def machine() -> dict[str, Any]:
    """Where the run took place."""
    import psutil

    return {
        "system": platform.platform(),
        "architecture": platform.machine(),
        "cpus": psutil.cpu_count() or 0,
        "memory_bytes": psutil.virtual_memory().total,
    }


def versions() -> dict[str, str]:
    """Of Python, Java and the packages that decide the figures."""
    from headrace.errors import HeadraceError
    from headrace.java import find_java

    found = {"python": platform.python_version()}
    try:
        found["java"] = str(find_java().version)
    except HeadraceError:
        found["java"] = "none"
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found
