"""The program of this peer: one Spark application, a streaming query and a MERGE for each table.

Started as `python driver.py CONFIGURATION`, a JSON file that `SparkMerge.start` writes. It stands alone:
nothing of headrace runs here.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StreamingQuery

Apply = Callable[[DataFrame, int], None]

ORDERS = (
    "order_id bigint, user_id bigint, product_id int, amount decimal(12,2), status string, "
    "created_at timestamp, updated_at timestamp"
)
TABLES = {
    "stg_orders": ORDERS,
    "dwd_orders": "order_id bigint, user_id bigint, amount decimal(12,2), logdate string",
    "dws_user_hour": "user_id bigint, logdate string, cnt bigint, amt decimal(22,2)",
}
PROPERTIES = (
    "delta.enableChangeDataFeed = true, delta.enableDeletionVectors = true, "
    # Every batch adds small files, and each MERGE reads them all.
    "delta.autoOptimize.autoCompact = true"
)
EVENT = f"before struct<order_id bigint>, after struct<{ORDERS}>"

CONF = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.sql.catalogImplementation": "in-memory",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # As many as cores: a shuffle of a small batch costs by its partitions.
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.adaptive.enabled": "false",
    "spark.databricks.delta.snapshotPartitions": "2",
    "spark.sql.streaming.pollingDelay": "50ms",
    "spark.scheduler.mode": "FAIR",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.extraJavaOptions": "-Xss4m -XX:+ExitOnOutOfMemoryError",
}

MERGE_STG = """
MERGE INTO delta.`{target}` t USING changed s ON t.order_id = s.order_id
WHEN MATCHED AND s.row IS NULL THEN DELETE
WHEN MATCHED THEN UPDATE SET user_id = s.row.user_id, product_id = s.row.product_id, amount = s.row.amount,
  status = s.row.status, created_at = s.row.created_at, updated_at = s.row.updated_at
WHEN NOT MATCHED AND s.row IS NOT NULL THEN INSERT
  (order_id, user_id, product_id, amount, status, created_at, updated_at)
  VALUES (s.order_id, s.row.user_id, s.row.product_id, s.row.amount, s.row.status, s.row.created_at,
    s.row.updated_at)
"""

MERGE_DWD = """
MERGE INTO delta.`{target}` t USING changed s ON t.order_id = s.order_id
WHEN MATCHED AND NOT s.last.stays THEN DELETE
WHEN MATCHED THEN UPDATE SET user_id = s.last.user_id, amount = s.last.amount, logdate = s.last.logdate
WHEN NOT MATCHED AND s.last.stays THEN INSERT (order_id, user_id, amount, logdate)
  VALUES (s.order_id, s.last.user_id, s.last.amount, s.last.logdate)
"""

MERGE_DWS = """
MERGE INTO delta.`{target}` t USING changed s ON t.user_id = s.user_id AND t.logdate = s.logdate
WHEN MATCHED AND t.cnt + s.cnt = 0 THEN DELETE
WHEN MATCHED THEN UPDATE SET cnt = t.cnt + s.cnt, amt = t.amt + s.amt
WHEN NOT MATCHED THEN INSERT (user_id, logdate, cnt, amt) VALUES (s.user_id, s.logdate, s.cnt, s.amt)
"""


def _last(value: str, order: str) -> Column:
    """Of each group the value with the greatest `order`, a null one too."""
    return F.expr(f"max_by(struct({value}), {order}).{value}").alias(value)


def stg(target: str) -> Apply:
    """The last event of each key in a batch of the topic. Running a batch twice changes nothing."""

    def apply(batch: DataFrame, number: int) -> None:
        events = batch.where("value IS NOT NULL").selectExpr(
            f"from_json(CAST(value AS string), '{EVENT}') AS e", "offset"
        )
        changed = events.selectExpr(
            "coalesce(e.after.order_id, e.before.order_id) AS order_id", "e.after AS row", "offset"
        )
        changed.groupBy("order_id").agg(_last("row", "offset")).createOrReplaceTempView("changed")
        batch.sparkSession.sql(MERGE_STG.format(target=target))

    return apply


def dwd(target: str) -> Apply:
    """The last change of each key in a batch of stg's changes; it goes where it does not pass the filter."""

    def apply(batch: DataFrame, number: int) -> None:
        changed = batch.where("_change_type <> 'update_preimage'").selectExpr(
            "order_id",
            "struct(_change_type <> 'delete' AND coalesce(amount > 1, false) AS stays, user_id, amount, "
            "date_format(created_at, 'yyyyMMddHH') AS logdate) AS last",
            "_commit_version",
        )
        changed.groupBy("order_id").agg(_last("last", "_commit_version")).createOrReplaceTempView("changed")
        batch.sparkSession.sql(MERGE_DWD.format(target=target))

    return apply


def dws(target: str) -> Apply:
    """The differences of a batch of dwd's changes, by group. A batch that runs again is skipped by Delta."""

    def apply(batch: DataFrame, number: int) -> None:
        spark = batch.sparkSession
        batch.createOrReplaceTempView("changes")
        spark.sql(
            "SELECT user_id, logdate, sum(weight) AS cnt, sum(weight * amount) AS amt FROM ("
            " SELECT user_id, logdate, amount,"
            " IF(_change_type IN ('insert', 'update_postimage'), 1, -1) AS weight FROM changes) "
            "GROUP BY user_id, logdate HAVING cnt <> 0 OR amt <> 0"
        ).createOrReplaceTempView("changed")
        spark.conf.set("spark.databricks.delta.write.txnAppId", "dws_user_hour")
        spark.conf.set("spark.databricks.delta.write.txnVersion", str(number))
        spark.sql(MERGE_DWS.format(target=target))

    return apply


def session(conf: dict[str, str]) -> SparkSession:
    """The application, with this configuration beside its own."""
    builder = SparkSession.builder.appName("spark_merge").master("local[*]")
    for name, value in {**CONF, **conf}.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("WARN")
    return spark


def main() -> None:
    """Create the tables, start the queries and wait; ends only with an error."""
    configuration = json.loads(Path(sys.argv[1]).read_text())
    directory = Path(configuration["directory"])
    spark = session(configuration["conf"])
    places = {table: str(directory / "warehouse" / table) for table in TABLES}
    for table, columns in TABLES.items():
        create = f"CREATE TABLE delta.`{places[table]}` ({columns}) USING delta"
        spark.sql(f"{create} TBLPROPERTIES ({PROPERTIES})")

    def changes(table: str) -> DataFrame:
        reader = spark.readStream.format("delta").option("readChangeFeed", "true")
        return reader.option("startingVersion", "0").load(places[table])

    def start(table: str, source: DataFrame, apply: Apply) -> StreamingQuery:
        spark.sparkContext.setLocalProperty("spark.scheduler.pool", table)
        writer = source.writeStream.queryName(table).foreachBatch(apply).trigger(processingTime="0 seconds")
        return writer.option("checkpointLocation", str(directory / "checkpoints" / table)).start()

    kafka = spark.readStream.format("kafka").options(**configuration["spark_kafka"])
    topic = kafka.option("subscribe", configuration["topic"]).option("startingOffsets", "earliest").load()
    queries = [
        start("stg_orders", topic, stg(places["stg_orders"])),
        start("dwd_orders", changes("stg_orders"), dwd(places["dwd_orders"])),
        start("dws_user_hour", changes("dwd_orders"), dws(places["dws_user_hour"])),
    ]
    while not all(query.status["message"].startswith("Waiting for") for query in queries):
        if any(query.exception() for query in queries):
            break
        time.sleep(0.1)
    (directory / "ready").touch()
    spark.streams.awaitAnyTermination()
    sys.exit("a query ended")


if __name__ == "__main__":
    main()
