"""What follows a correction: readers see the rows, and consumers do with them what they declare."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headrace.engine.flow.flow import Flow
from headrace.engine.read.views import Views
from headrace.engine.table.table import Table


@dataclass(frozen=True)
class Publication:
    views: Views
    flows: Sequence[Flow]

    def corrected(self, table: Table, *, changed: bool = True) -> None:
        """Show the rows, and let the consumers do with the corrections what they declare."""
        self.views.renew_if_old(table)
        for flow in list(self.flows) if changed else ():
            flow.settle()
