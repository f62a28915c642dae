"""What the server tells of its project beside its warehouse.

A command could find it out itself, and does where no server answers: but importing what that needs takes a
command longer than all else it does, and the server has it at hand.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from pydantic import BaseModel

    from headrace.results import Explanation, PlannedProject

DIGEST = "X-Headrace-Settings"
"""Header by which a client says whose settings it means: those of the server, or it looks itself."""


class Overview(Protocol):
    """Of one project, by the settings that the server was started with."""

    @property
    def digest(self) -> str:
        """That of these settings."""
        ...

    def services(self) -> Sequence[BaseModel]:
        """Every service's state."""
        ...

    def plan(self) -> PlannedProject:
        """What its files say now. Raises SpecError where they are wrong."""
        ...

    def explain(self, table: str, *, history: bool) -> Explanation:
        """What one table's file says now. Raises SpecError where it is wrong."""
        ...
