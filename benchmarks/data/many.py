"""A project of many tables over one database: chains of one captured table, one of dwd and some of dws."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import psycopg
from psycopg.sql import SQL, Identifier

from benchmarks.runner import project_files
from headrace.settings import SOURCE_ROLE

AGGREGATES = 3
"""Tables of dws in a chain; with its stg and its dwd table it has five."""

FRESHNESS = ("'10' SECOND", "'1' MINUTE", "'5' MINUTE", "'20' MINUTE")
"""What the chains declare, in turn: all of them stream."""

_STG = """CREATE MATERIALIZED TABLE stg.{name}
FRESHNESS = DOWNSTREAM
AS
SELECT *
FROM {source}.public.{name}
"""
_DWD = """CREATE MATERIALIZED TABLE dwd.{name} (PRIMARY KEY (id))
PARTITIONED BY (logdate)
WITH ('partition.fields.logdate.date-formatter' = 'yyyyMMdd')
FRESHNESS = DOWNSTREAM
AS
SELECT id, user_id, amount, date_format(created_at, 'yyyyMMdd') AS logdate
FROM stg.{name}
WHERE amount > 1
  AND date_format(created_at, 'yyyyMMdd') >= ${{start_date}}
  AND date_format(created_at, 'yyyyMMdd') <= ${{end_date}}
"""
_DWS = """CREATE MATERIALIZED TABLE dws.{name}_{number} (PRIMARY KEY (user_id, logdate))
PARTITIONED BY (logdate)
WITH ('partition.fields.logdate.date-formatter' = 'yyyyMMdd')
FRESHNESS = INTERVAL {freshness}
AS
SELECT user_id, logdate, COUNT(*) AS cnt, SUM(amount) AS amt
FROM dwd.{name}
WHERE logdate >= ${{start_date}} AND logdate <= ${{end_date}} AND amount > {number}
GROUP BY user_id, logdate
"""
_CREATE = """
CREATE TABLE {name} (id bigint PRIMARY KEY, user_id bigint, amount numeric(12,2), created_at timestamptz);
ALTER TABLE {name} REPLICA IDENTITY FULL, OWNER TO headrace_source;
INSERT INTO {name}
SELECT g, g % 10, g, timestamptz '2026-11-01 00:00Z' + g * interval '1 hour' FROM generate_series(1, {rows}) g
"""


@dataclass(frozen=True)
class ManyTables:
    """
    Args:
        tables: about how many, in whole chains.
        rows: of each captured table.
        source: which the chains come of; those of several sources may stand in one project.
        database: where its tables are. Default: the embedded server's own.
        freshness: what the chains declare, in turn.
    """

    tables: int
    rows: int = 100
    source: str = "chain"
    database: str = "${env:HEADRACE_SOURCE_DATABASE}"
    freshness: tuple[str, ...] = FRESHNESS

    @property
    def chains(self) -> list[str]:
        return [f"{self.source[0]}{number:03}" for number in range(max(1, self.tables // (AGGREGATES + 2)))]

    @property
    def count(self) -> int:
        return len(self.chains) * (AGGREGATES + 2)

    def write(self, project: Path) -> None:
        """The layer files and the connector, in a folder without them."""
        template = project_files("orders") / "deploy" / "connectors" / "chain.json"
        connector = project / "deploy" / "connectors" / f"{self.source}.json"
        connector.parent.mkdir(parents=True, exist_ok=True)
        content = json.loads(template.read_text("utf-8").replace("headrace_chain", f"headrace_{self.source}"))
        content["name"] = self.source
        content["config"] |= {
            "topic.prefix": self.source,
            "database.dbname": self.database,
            "table.include.list": ",".join(f"public.{name}" for name in self.chains),
        }
        connector.write_text(json.dumps(content, indent=2), "utf-8")
        for layer in ("stg", "dwd", "dws"):
            (project / "layers" / layer).mkdir(parents=True, exist_ok=True)
        for place, name in enumerate(self.chains):
            freshness = self.freshness[place % len(self.freshness)]
            stg = _STG.format(name=name, source=self.source)
            (project / "layers" / "stg" / f"{name}.sql").write_text(stg, "utf-8")
            (project / "layers" / "dwd" / f"{name}.sql").write_text(_DWD.format(name=name), "utf-8")
            for number in range(AGGREGATES):
                text = _DWS.format(name=name, number=number, freshness=freshness)
                (project / "layers" / "dws" / f"{name}_{number}.sql").write_text(text, "utf-8")

    def create(self, dsn: str) -> None:
        """The captured tables."""
        with psycopg.connect(dsn, autocommit=True) as connection:
            names = map(Identifier, (connection.info.dbname, SOURCE_ROLE))
            connection.execute(SQL("GRANT CREATE ON DATABASE {} TO {}").format(*names))
            for name in self.chains:
                connection.execute(_CREATE.format(name=name, rows=self.rows).encode())
