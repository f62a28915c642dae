"""What Dagster loads: `dagster-webserver -m headrace.orchestration.definitions`, `dg dev`, `dg check defs`.

The project is the directory in HEADRACE_PROJECT, else the current one.
"""

from __future__ import annotations

import os
from pathlib import Path

import dagster as dg

from headrace.orchestration.build import build_definitions
from headrace.settings import Settings


@dg.definitions
def defs() -> dg.Definitions:
    project = Path(os.environ.get("HEADRACE_PROJECT") or Path.cwd())
    return build_definitions(project, start=Settings.load(project).partition_start)
