"""Layer files and projects from text."""

from __future__ import annotations

import json
from pathlib import Path

from headrace.spec import Project, SourceTable, TableSpec, load_project, load_table

SHOP_TABLES = ("users", "products", "orders", "order_items", "page_words")
SHOP_COLUMNS = {
    SourceTable("shop", "public", table): tuple(columns.split())
    for table, columns in {
        "users": "user_id name email city created_at updated_at",
        "products": "product_id name category price created_at updated_at",
        "orders": "order_id user_id status amount created_at updated_at",
        "order_items": "item_id order_id product_id quantity price created_at",
        "page_words": "word_id user_id page word created_at",
    }.items()
}
PARTITIONED = "PARTITIONED BY (logdate) WITH ('partition.fields.logdate.date-formatter' = 'yyyyMMddHH')\n"


def write(directory: Path, name: str, text: str) -> Path:
    """`layers/<layer>/<table>.sql` for `name` = `layer.table`."""
    layer, table = name.split(".")
    path = directory / "layers" / layer / f"{table}.sql"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def declaration(name: str, query: str, *, clauses: str = "") -> str:
    """A layer file whose query begins on line 4, after three lines of header (and those of `clauses`)."""
    key = "" if name.startswith("stg.") else " (PRIMARY KEY (a))"
    return f"CREATE MATERIALIZED TABLE {name}{key}\n{clauses}FRESHNESS = INTERVAL '10' SECOND\nAS\n{query}\n"


def load_query(directory: Path, query: str, *, name: str = "dws.t", clauses: str = "") -> TableSpec:
    return load_table(write(directory, name, declaration(name, query, clauses=clauses)))


def write_shop(directory: Path, *, include: str | None = None, source: str = "shop") -> Path:
    """The connector file of a source."""
    path = directory / "deploy" / "connectors" / f"{source}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    config = {
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "topic.prefix": source,
        "database.dbname": source,
        "table.include.list": include or ",".join(f"public.{t}" for t in SHOP_TABLES),
    }
    path.write_text(json.dumps({"name": source, "config": config}, indent=2))
    return path


def load_queries(directory: Path, **queries: str) -> Project:
    """A project of tables `layer__table=query`, with the source `shop`."""
    write_shop(directory)
    for key, query in queries.items():
        name = key.replace("__", ".")
        write(directory, name, declaration(name, query))
    return load_project(directory)
