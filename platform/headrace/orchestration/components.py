"""The component that makes a Dagster project of a warehouse project."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import dagster as dg
from pydantic import BaseModel, Field

from headrace.orchestration.build import build_definitions


class LayersParams(BaseModel):
    """What `dg scaffold defs headrace.Layers PATH` takes."""

    project: str = Field(default=".", description="The warehouse project, counted from this project's root.")


class LayersScaffolder(dg.Scaffolder[LayersParams]):
    """Writes the `defs.yaml`."""

    @classmethod
    def get_scaffold_params(cls) -> type[LayersParams]:
        return LayersParams

    def scaffold(self, request: dg.ScaffoldRequest[LayersParams]) -> None:
        dg.scaffold_component(request, {"project": request.params.project})


@dg.scaffold_with(LayersScaffolder)
class Layers(dg.Component, dg.Resolvable, dg.Model):
    """All tables of one headrace project: assets, lineage, partitions, checks and stream control.

    `type: headrace.Layers` in a `defs.yaml`. A new `layers/<layer>/<table>.sql` is a new asset at the next
    reload; no Python and no YAML is touched.
    """

    project: str = "."
    """The directory with `layers/` and `deploy/connectors/`, counted from the Dagster project's root."""

    partition_start: str | None = None
    """Date of the first partition of every table, `YYYY-MM-DD`; without it they begin where the data does."""

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        root = Path(context.project_root)
        start = date.fromisoformat(self.partition_start) if self.partition_start else None
        return build_definitions(root / self.project, start=start)
