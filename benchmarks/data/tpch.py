"""TPC-H's eight tables: their keys, and their rows as `tpchgen-cli` writes them."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from headrace.errors import TerminalError
from headrace.sources.postgres.types import column
from headrace.sources.schema import SourceSchema
from headrace.spec.model import SourceTable

KEYS = {
    "region": ("r_regionkey",),
    "nation": ("n_nationkey",),
    "supplier": ("s_suppkey",),
    "customer": ("c_custkey",),
    "part": ("p_partkey",),
    "partsupp": ("ps_partkey", "ps_suppkey"),
    "orders": ("o_orderkey",),
    "lineitem": ("l_orderkey", "l_linenumber"),
}
"""Primary keys of TPC-H's specification, clause 1.4; tables in an order in which references exist."""


def generate(cache: Path, scale: float) -> Path:
    """The folder with one Parquet file a table, generated unless an earlier run has done so.

    Raises:
        TerminalError: `tpchgen-cli` is not installed, or fails.
    """
    folder = cache / f"tpch-{scale:g}"
    if folder.is_dir():
        return folder
    beside = Path(sys.executable).with_name("tpchgen-cli")
    program = str(beside) if beside.is_file() else shutil.which("tpchgen-cli")
    if program is None:
        raise TerminalError(
            "tpchgen-cli is not installed. Next: `./headrace setup`, or `uv sync --group dev`"
        )
    cache.mkdir(parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(prefix="tpch-", dir=cache))
    command = [program, "parquet", "-s", f"{scale:g}", "--quiet", "--no-progress", "--output-dir", str(made)]
    ran = subprocess.run(command, capture_output=True, text=True)
    if ran.returncode != 0:
        shutil.rmtree(made)
        raise TerminalError(f"tpchgen-cli failed ({ran.returncode}): {ran.stderr.strip()}")
    made.rename(folder)
    return folder


def source_schema(table: SourceTable, folder: Path) -> SourceSchema:
    """A captured table as PostgreSQL would describe it, by the types of its Parquet file."""
    fields = pq.read_schema(folder / f"{table.table}.parquet")
    columns = tuple(column(f.name, _postgres(f.type)) for f in fields)
    return SourceSchema(table, columns, KEYS[table.table], full_identity=True)


def _postgres(kind: pa.DataType) -> str:
    if pa.types.is_decimal(kind):
        return f"numeric({kind.precision},{kind.scale})"
    return {pa.int64(): "bigint", pa.int32(): "integer", pa.date32(): "date"}.get(kind, "text")
