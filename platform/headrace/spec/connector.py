"""A source: one plain Debezium connector file."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from pathlib import Path

from headrace.errors import Location, SpecError
from headrace.spec.model import NAME


@dataclass(frozen=True)
class Connector:
    """`deploy/connectors/<name>.json`; `name` is Debezium's `topic.prefix` and the source's name in SQL."""

    name: str
    path: Path
    config: dict[str, str] = field(hash=False)

    @property
    def database(self) -> str:
        return self.config.get("database.dbname", "")

    @property
    def publication(self) -> str:
        """PostgreSQL's publication that it streams, as Debezium names it."""
        return self.config.get("publication.name", "dbz_publication")

    @property
    def tables(self) -> tuple[str, ...]:
        """The entries of `table.include.list`: `schema.table`, or an expression. Empty: all tables."""
        return _entries(self.config, "table.include.list")

    @property
    def schemas(self) -> tuple[str, ...]:
        """The schemas that the captured tables are in, as far as the file names them."""
        named = _entries(self.config, "schema.include.list")
        return named or tuple(dict.fromkeys(t.split(".")[0] for t in self.tables))

    def message_key(self, schema: str, table: str) -> tuple[str, ...]:
        """The columns that `message.key.columns` names for the table; () where it names none."""
        for entry in self.config.get("message.key.columns", "").split(";"):
            tables, _, columns = entry.strip().rpartition(":")
            if tables and _matches((tables,), f"{schema}.{table}"):
                return tuple(c.strip() for c in columns.split(",") if c.strip())
        return ()

    def captures(self, schema: str, table: str) -> bool:
        """Whether Debezium captures the table: its lists hold anchored, case-insensitive expressions."""
        name = f"{schema}.{table}"
        if (schemas := _entries(self.config, "schema.include.list")) and not _matches(schemas, schema):
            return False
        if _matches(_entries(self.config, "table.exclude.list"), name):
            return False
        return not self.tables or _matches(self.tables, name)


def load_connector(path: Path) -> Connector:
    """Read a connector file; its name, `topic.prefix` and file name must be one."""
    text = path.read_text(encoding="utf-8-sig")
    try:
        content = json.loads(text)
    except json.JSONDecodeError as error:
        raise SpecError(f"is not JSON: {error.msg}", Location(path, error.lineno, error.colno)) from None
    form = 'a Debezium connector file is {"name": "…", "config": {"topic.prefix": "…", …}}'
    if not isinstance(content, dict) or not isinstance(content.get("config"), dict) or "name" not in content:
        raise SpecError("is no connector file", Location(path, 1), form)
    name, config = str(content["name"]), {str(k): str(v) for k, v in content["config"].items()}
    if config.get("topic.prefix") != name or path.stem != name:
        message = (
            f"the file is `{path.stem}`, its name `{name}`, its topic.prefix `{config.get('topic.prefix')}`"
        )
        raise SpecError(
            message, _line_of(path, text, "topic.prefix"), "make the three one: the source's name in SQL"
        )
    if not NAME.fullmatch(name):
        hint = f"names match {NAME.pattern}"
        raise SpecError(f"`{name}` is not a name headrace takes", _line_of(path, text, "name"), hint)
    return Connector(name, path, config)


def _entries(config: dict[str, str], key: str) -> tuple[str, ...]:
    return tuple(e.strip() for e in config.get(key, "").split(",") if e.strip())


def _matches(entries: tuple[str, ...], name: str) -> bool:
    def match(entry: str) -> bool:
        try:
            return re.fullmatch(entry, name, re.IGNORECASE) is not None
        except re.error:  # Java's dialect; Connect tells what it thinks of it
            return True

    return any(match(entry) for entry in entries)


def _line_of(path: Path, text: str, key: str) -> Location:
    lines = (n for n, line in enumerate(text.splitlines(), 1) if f'"{key}"' in line)
    return Location(path, next(lines, 1))
