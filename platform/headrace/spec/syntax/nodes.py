"""YAML nodes, which know their lines, as mappings and texts with errors that say where."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import yaml
from yaml.constructor import SafeConstructor
from yaml.reader import ReaderError

from headrace.errors import Location, SpecError, did_you_mean
from headrace.spec.syntax.text import SourceText, advance

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""In Python alone it takes a tenth of the time of `headrace plan`; wheels of every system have the other."""


class Nodes:
    """Those of one file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def root(self) -> yaml.Node | None:
        """The file's; None where it is empty. Raises SpecError: it is not YAML, or not UTF-8."""
        text = SourceText.read(self.path).text
        with suppress(yaml.YAMLError):
            return yaml.compose(text, _LOADER)
        try:  # again: this one says better what is wrong, and where
            return yaml.compose(text, yaml.SafeLoader)
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
            raise SpecError(f"not YAML: {error.problem}", Location(self.path, line, column)) from None
        except ReaderError as error:
            at = advance(Location(self.path, 1), text[: error.position])
            message = f"not YAML: U+{ord(text[error.position]):04X} may not stand in it"
            raise SpecError(message, at, "write it as an escape") from None

    def mapping(
        self, node: yaml.Node, what: str, *, allowed: tuple[str, ...] | None = None
    ) -> dict[str, yaml.Node]:
        """Its fields. Raises SpecError: it is no mapping, or has a field twice or one that is not allowed."""
        if not isinstance(node, yaml.MappingNode):
            raise self.error(node, f"{what} must be a mapping")
        fields: dict[str, yaml.Node] = {}
        for key, value in node.value:
            name = self.text(key, "a key")
            if allowed is not None and name not in allowed:
                raise self.error(key, f"{what} has no field `{name}`", did_you_mean(name, allowed))
            if name in fields:
                raise self.error(key, f"`{name}` stands twice")
            fields[name] = value
        return fields

    def sequence(self, node: yaml.Node, what: str) -> list[yaml.Node]:
        """Its entries. Raises SpecError: it is no list."""
        if not isinstance(node, yaml.SequenceNode):
            raise self.error(node, f"`{what}` must be a list")
        return list(node.value)

    def text(self, node: yaml.Node, what: str) -> str:
        """Raises SpecError: it is none."""
        if isinstance(node, yaml.ScalarNode) and isinstance(found := self.value(node), str):
            return found
        raise self.error(node, f"`{what}` must be text")

    def value(self, node: yaml.Node) -> Any:
        """What the node says, as Python has it. Raises SpecError: it is no plain data, or holds itself."""
        try:
            return SafeConstructor().construct_object(node, deep=True)
        except (yaml.YAMLError, ValueError, RecursionError) as error:
            why = getattr(error, "problem", None) or str(error).splitlines()[0]
            raise self.error(node, f"no plain data: {why}") from None

    def location(self, node: yaml.Node) -> Location:
        return Location(self.path, node.start_mark.line + 1, node.start_mark.column + 1)

    def error(self, node: yaml.Node, message: str, hint: str | None = None) -> SpecError:
        return SpecError(message, self.location(node), hint)
