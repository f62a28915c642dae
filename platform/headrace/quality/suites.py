"""`<table>.checks.yml`: a Great Expectations suite in GX's own type names and kwargs. Imports no GX.

checks:
  - type: expect_column_values_to_be_between
    kwargs: {column: cnt, min_value: 1}
    severity: warning          # critical (default), warning or info
    name: plausible_count      # default: the type and its columns
    description: Nobody orders nothing
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from headrace.errors import Location, SpecError, did_you_mean
from headrace.quality.doors import refused
from headrace.spec.model import TableSpec
from headrace.spec.syntax.nodes import Nodes

_FIELDS = ("type", "kwargs", "severity", "name", "description")
_CHECK_NAME = re.compile(r"[A-Za-z0-9_]+")


class Severity(StrEnum):
    """GX's severities. A critical expectation holds before rows are committed; see `blocking`."""

    CRITICAL = "critical"
    WARNING = "warning"
    INFO = "info"


@dataclass(frozen=True)
class Expectation:
    """One expectation: `type` and `kwargs` are GX's own."""

    name: str
    type: str
    kwargs: Mapping[str, Any]
    severity: Severity
    location: Location
    description: str = ""


@dataclass(frozen=True)
class Suite:
    """The expectations of one file, in its order. Names are unique."""

    path: Path
    expectations: tuple[Expectation, ...]


def suite_file(spec: TableSpec) -> Path:
    """Where the table's suite is, or would be: beside its layer file."""
    return spec.path.with_name(f"{spec.path.stem}.checks.yml")


def suite_page(directory: Path, table: str) -> Path:
    """The page of a table's suite in the Data Docs that are in a directory."""
    layer, _, name = table.partition(".")
    return directory / "expectations" / layer / f"{name}.html"


def suite_of(spec: TableSpec) -> Suite | None:
    """The suite beside the table's layer file, or None where there is no such file."""
    path = suite_file(spec)
    if not path.is_file():
        return None
    suite = load_suite(path)
    constraints = {c.name for c in spec.constraints}
    for expectation in suite.expectations:
        if expectation.name in constraints:
            raise SpecError(
                f"`{expectation.name}` is a constraint of {spec.name} already",
                expectation.location,
                hint="give the expectation another `name:`",
            )
    return suite


def load_suite(path: Path) -> Suite:
    """Read and check a suite. Raises SpecError with file, line and column."""
    reader = _Reader(path)
    root = reader.root()
    if root is None:
        return Suite(path, ())
    expectations = tuple(reader.expectations(root))
    seen: dict[str, Expectation] = {}
    for expectation in expectations:
        if (first := seen.get(expectation.name)) is not None:
            raise SpecError(
                f"two checks are called `{expectation.name}` (the first in line {first.location.line})",
                expectation.location,
                hint="give one of them a `name:`",
            )
        seen[expectation.name] = expectation
    return Suite(path, expectations)


@cache
def known_types() -> frozenset[str]:
    """GX's expectation types, from the names of its modules: importing it costs seconds."""
    found = importlib.util.find_spec("great_expectations")
    names: set[str] = set()
    for location in (found.submodule_search_locations or ()) if found else ():
        names.update(p.stem for p in (Path(location) / "expectations" / "core").glob("*expect*.py"))
    return frozenset(names)


class _Reader(Nodes):
    """Turns YAML nodes into expectations."""

    def expectations(self, root: yaml.Node) -> Iterator[Expectation]:
        fields = self.mapping(root, "the file", allowed=("checks",))
        if "checks" not in fields:
            raise self.error(root, "`checks` is missing", "begin the file with `checks:` and a list")
        for node in self.sequence(fields["checks"], "checks"):
            yield self._expectation(node)

    def _expectation(self, node: yaml.Node) -> Expectation:
        fields = self.mapping(node, "a check", allowed=_FIELDS)
        if "type" not in fields:
            raise self.error(
                node, "a check needs a `type`", "e.g. `type: expect_column_values_to_not_be_null`"
            )
        kind = self.text(fields["type"], "type")
        if known_types() and kind not in known_types():
            raise self.error(
                fields["type"], f"unknown expectation `{kind}`", did_you_mean(kind, known_types())
            )
        kwargs: dict[str, Any] = {}
        if "kwargs" in fields:
            kwargs_node = fields["kwargs"]
            self.mapping(kwargs_node, "`kwargs`")
            kwargs = self.value(kwargs_node)
        if (why := refused(kind, kwargs)) is not None:
            raise self.error(fields.get("kwargs", node), why, "look at the checked rows alone")
        severity = Severity.CRITICAL
        if "severity" in fields:
            text = self.text(fields["severity"], "severity")
            if text not in list(Severity):
                known = ", ".join(Severity)
                raise self.error(fields["severity"], f"unknown severity `{text}`", f"one of {known}")
            severity = Severity(text)
        name = self.text(fields["name"], "name") if "name" in fields else _default_name(kind, kwargs)
        if not _CHECK_NAME.fullmatch(name):
            raise self.error(fields.get("name", node), f"`{name}` is no check name: letters, digits and _")
        said = self.text(fields["description"], "description") if "description" in fields else ""
        return Expectation(name, kind, kwargs, severity, self.location(node), said)


def _default_name(kind: str, kwargs: Mapping[str, Any]) -> str:
    columns = [kwargs.get(k) for k in ("column", "column_A", "column_B")]
    columns += kwargs.get("column_list") or []
    return "__".join([kind, *(str(c) for c in columns if c)])
