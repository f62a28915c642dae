"""`VERIFY` of every table, again and again, beside whatever else goes on."""

from __future__ import annotations

import time

from headrace.demo.background import Background
from headrace.errors import TerminalError
from headrace.gateway.client import GatewayClient
from headrace.results import ParityResult
from headrace.settings import Settings


class Verifying(Background):
    """Compares until left. A context manager, which raises where a table differed.

    Attributes:
        took: seconds of each `VERIFY` that has ended; leaving waits for the one that is under way.
    """

    def __init__(self, settings: Settings) -> None:
        super().__init__("verifying", "VERIFY beside the load")
        self.took: list[float] = []
        self._settings = settings

    def _work(self) -> None:
        with GatewayClient(self._settings) as client:
            while not self._stopping.is_set():
                begun = time.monotonic()
                found = [ParityResult.model_validate(result) for result in client.run("VERIFY").result]
                self.took.append(time.monotonic() - begun)
                if wrong := [f"{r.table} against {r.against}" for r in found if not r.equal]:
                    raise TerminalError(f"these differ: {', '.join(wrong)}")
