"""What Dagster loads: `dagster-webserver -m headrace.orchestration.definitions`, `dg dev`, `dg check defs`.

The project is the directory in HEADRACE_PROJECT, else the current one.
"""

from __future__ import annotations

import os
from pathlib import Path

import dagster as dg

from headrace.orchestration.build import build_definitions


@dg.definitions
def defs() -> dg.Definitions:
    return build_definitions(Path(os.environ.get("HEADRACE_PROJECT") or Path.cwd()))
