"""Files of a new project, by their names in it: settings, connector, and an example of two tables."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

_HERE = Path(__file__).parent
CONNECTOR = _HERE / "connector.json"
"""A Debezium connector file for PostgreSQL, with `@source@` and `@tables@` where these are to stand."""

_EXAMPLE = _HERE / "example"
_EXAMPLE_SOURCE = "app.public."

SETTINGS = """\
# Settings of this project; every one can also be given as HEADRACE_<NAME> in the environment.
# gateway_port = 28080
# postgres_url = "postgresql://user:password@host:5432/database"
# kafka_bootstrap_servers = "host:9092"   # with a login: kafka_security_protocol, kafka_sasl_username
# connect_url = "http://host:8083"
# catalog_url = "postgresql://user:password@host:5432/catalog"
"""

_ALWAYS = {"headrace.toml": SETTINGS, ".gitignore": ".headrace/\n"}
_FOLDERS = ("layers/stg", "layers/dwd", "layers/dws", "deploy/connectors")


def connector(source: str, tables: Iterable[str]) -> str:
    """A connector file.

    Args:
        source: its name.
        tables: entries of `table.include.list`.
    """
    text = CONNECTOR.read_text(encoding="utf-8").replace("@source@", source)
    return text.replace('"@tables@"', json.dumps(",".join(tables)))


def example(source: str) -> dict[str, str]:
    """A stg table, a dws table over it, and a case of each."""
    found = {f"deploy/connectors/{source}.json": connector(source, ["public.orders"])}
    for file in sorted(p for p in _EXAMPLE.rglob("*") if p.is_file()):
        text = file.read_text(encoding="utf-8").replace(_EXAMPLE_SOURCE, f"{source}.public.")
        found[str(file.relative_to(_EXAMPLE))] = text
    return found


def write(directory: Path, files: Mapping[str, str]) -> None:
    """Make the project. Files that are there stay as they are."""
    for folder in _FOLDERS:
        (directory / folder).mkdir(parents=True, exist_ok=True)
    for name, text in {**_ALWAYS, **files}.items():
        if not (directory / name).exists():
            (directory / name).write_text(text, encoding="utf-8")
    for folder in _FOLDERS:  # git keeps no empty one
        if not any((directory / folder).iterdir()):
            (directory / folder / ".gitkeep").touch()
