"""A layer file → a frozen TableSpec; a directory of them → a Project. No Spark, no network."""

from __future__ import annotations

from headrace.spec.connector import Connector, load_connector
from headrace.spec.model import Reference, SourceTable, TableName, TableSpec
from headrace.spec.project import Project, ProjectErrors, load_project
from headrace.spec.table import load_table

__all__ = [
    "Connector",
    "Project",
    "ProjectErrors",
    "Reference",
    "SourceTable",
    "TableName",
    "TableSpec",
    "load_connector",
    "load_project",
    "load_table",
]
