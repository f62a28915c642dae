"""The program of this peer: runs of incremental models, one after the other while there are events.

Started as `python driver.py CONFIGURATION`. A run takes the events since the run before; each model is the
SQL that dbt compiles of `materialized='incremental'` with a unique key, and what its users add for rows that
are deleted. It stands alone: nothing of headrace runs here.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from confluent_kafka import Consumer, TopicPartition
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

ORDERS = (
    "order_id bigint, user_id bigint, product_id int, amount decimal(12,2), status string, "
    "created_at timestamp, updated_at timestamp"
)
RUN = "_run bigint"
"""The run that last wrote a row: what the next model reads by."""

TABLES = {
    "stg_orders": f"{ORDERS}, {RUN}",
    "dwd_orders": f"order_id bigint, user_id bigint, amount decimal(12,2), logdate string, {RUN}",
    "dws_user_hour": "user_id bigint, logdate string, cnt bigint, amt decimal(22,2)",
}
PROPERTIES = (
    "delta.enableChangeDataFeed = true, delta.enableDeletionVectors = true, "
    "delta.autoOptimize.autoCompact = true"
)
EVENT = f"before struct<order_id bigint>, after struct<{ORDERS}>"

CONF = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.sql.catalogImplementation": "in-memory",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.shuffle.partitions": "4",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.extraJavaOptions": "-Xss4m -XX:+ExitOnOutOfMemoryError",
}

STG = """
MERGE INTO delta.`{stg_orders}` t USING events s ON t.order_id = s.order_id
WHEN MATCHED AND s.row IS NULL THEN DELETE
WHEN MATCHED THEN UPDATE SET user_id = s.row.user_id, product_id = s.row.product_id, amount = s.row.amount,
  status = s.row.status, created_at = s.row.created_at, updated_at = s.row.updated_at, _run = {run}
WHEN NOT MATCHED AND s.row IS NOT NULL THEN INSERT
  (order_id, user_id, product_id, amount, status, created_at, updated_at, _run)
  VALUES (s.order_id, s.row.user_id, s.row.product_id, s.row.amount, s.row.status, s.row.created_at,
    s.row.updated_at, {run})
"""

GONE = """
SELECT d.order_id, d.logdate FROM delta.`{dwd_orders}` d
LEFT ANTI JOIN (SELECT order_id FROM delta.`{stg_orders}` WHERE amount > 1) s ON d.order_id = s.order_id
"""
"""Rows that a model cannot know of, since its upstream has them no more: found by comparing all."""

DWD = """
MERGE INTO delta.`{dwd_orders}` t USING (
  SELECT order_id, user_id, amount, date_format(created_at, 'yyyyMMddHH') AS logdate
  FROM delta.`{stg_orders}` WHERE amount > 1 AND _run = {run}
) s ON t.order_id = s.order_id
WHEN MATCHED THEN UPDATE SET user_id = s.user_id, amount = s.amount, logdate = s.logdate, _run = {run}
WHEN NOT MATCHED THEN INSERT (order_id, user_id, amount, logdate, _run)
  VALUES (s.order_id, s.user_id, s.amount, s.logdate, {run})
"""

DWD_GONE = """
MERGE INTO delta.`{dwd_orders}` t USING gone s ON t.order_id = s.order_id WHEN MATCHED THEN DELETE
"""

TOUCHED = """
SELECT DISTINCT logdate FROM delta.`{dwd_orders}` WHERE _run = {run} UNION SELECT logdate FROM gone
"""
"""The hours that the run has touched: they are computed again."""

DWS = """
MERGE INTO delta.`{dws_user_hour}` t USING (
  SELECT user_id, logdate, cnt, amt FROM (
    SELECT user_id, logdate, count(*) AS cnt, CAST(sum(amount) AS decimal(22,2)) AS amt
    FROM delta.`{dwd_orders}` LEFT SEMI JOIN touched USING (logdate) GROUP BY user_id, logdate
  ) FULL JOIN (
    SELECT user_id, logdate FROM delta.`{dws_user_hour}` LEFT SEMI JOIN touched USING (logdate)
  ) USING (user_id, logdate)
) s ON t.user_id = s.user_id AND t.logdate = s.logdate
WHEN MATCHED AND s.cnt IS NULL THEN DELETE
WHEN MATCHED AND (t.cnt <> s.cnt OR t.amt <> s.amt) THEN UPDATE SET cnt = s.cnt, amt = s.amt
WHEN NOT MATCHED THEN INSERT (user_id, logdate, cnt, amt) VALUES (s.user_id, s.logdate, s.cnt, s.amt)
"""
"""A group that has no row any more is in no result of its query: it is looked for among those there were."""


def read(spark: SparkSession, kafka: dict[str, str], topic: str, first: int, end: int) -> None:
    """The last event of each key among these offsets, as the view `events`."""
    reader = spark.read.format("kafka").options(**kafka).option("subscribe", topic)
    reader = reader.option("startingOffsets", json.dumps({topic: {"0": first}}))
    messages = reader.option("endingOffsets", json.dumps({topic: {"0": end}})).load()
    events = messages.where("value IS NOT NULL").selectExpr(
        f"from_json(CAST(value AS string), '{EVENT}') AS e", "offset"
    )
    keyed = events.selectExpr(
        "coalesce(e.after.order_id, e.before.order_id) AS order_id",
        "struct(e.after AS row) AS last",
        "offset",
    )
    latest = keyed.groupBy("order_id").agg(F.expr("max_by(last, offset)").alias("last"))
    latest.selectExpr("order_id", "last.row AS row").createOrReplaceTempView("events")


def run_models(spark: SparkSession, places: dict[str, str], run: int) -> None:
    """All models once, upstreams first, over the view `events`."""
    spark.sql(STG.format(**places, run=run))
    # Fixed rows, as in dbt's temporary tables: a cache would be computed again after each MERGE.
    gone = spark.sql(GONE.format(**places)).localCheckpoint()
    gone.createOrReplaceTempView("gone")
    spark.sql(DWD.format(**places, run=run))
    touched = spark.sql(TOUCHED.format(**places, run=run)).localCheckpoint()
    touched.createOrReplaceTempView("touched")
    if gone.count():
        spark.sql(DWD_GONE.format(**places))
    if touched.count():
        spark.sql(DWS.format(**places))


def main() -> None:
    """Create the tables, then run the models whenever the topic has grown."""
    configuration = json.loads(Path(sys.argv[1]).read_text())
    directory = Path(configuration["directory"])
    builder = SparkSession.builder.appName("dbt_incremental").master("local[*]")
    for name, value in {**CONF, **configuration["conf"]}.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("WARN")
    places = {table: str(directory / "warehouse" / table) for table in TABLES}
    for table, columns in TABLES.items():
        create = f"CREATE TABLE delta.`{places[table]}` ({columns}) USING delta"
        spark.sql(f"{create} TBLPROPERTIES ({PROPERTIES})")

    consumer = Consumer({**configuration["kafka"], "group.id": "dbt_incremental"})
    topic = TopicPartition(configuration["topic"], 0)
    done = run = 0
    (directory / "ready").touch()
    while True:
        _, end = consumer.get_watermark_offsets(topic, timeout=30)
        if end == done:
            time.sleep(0.1)
            continue
        run += 1
        read(spark, configuration["spark_kafka"], configuration["topic"], done, end)
        run_models(spark, places, run)
        done = end


if __name__ == "__main__":
    main()
