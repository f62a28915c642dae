"""The program of this peer: reads the source table whole and overwrites the three tables, in a loop.

Started as `python driver.py CONFIGURATION`. The topic only tells it when there is anything new: a run begins
with the first event after the run before. It stands alone: nothing of headrace runs here.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import psycopg
from confluent_kafka import Consumer, TopicPartition
from pyspark.sql import SparkSession

TABLES = {
    "stg_orders": (
        "order_id bigint, user_id bigint, product_id int, amount decimal(12,2), status string, "
        "created_at timestamp, updated_at timestamp"
    ),
    "dwd_orders": "order_id bigint, user_id bigint, amount decimal(12,2), logdate string",
    "dws_user_hour": "user_id bigint, logdate string, cnt bigint, amt decimal(22,2)",
}
COLUMNS = [column.split()[0] for column in TABLES["stg_orders"].split(", ")]
QUERIES = {
    "stg_orders": "SELECT * FROM source",
    "dwd_orders": (
        "SELECT order_id, user_id, amount, date_format(created_at, 'yyyyMMddHH') AS logdate "
        "FROM delta.`{stg_orders}` WHERE amount > 1"
    ),
    "dws_user_hour": (
        "SELECT user_id, logdate, count(*) AS cnt, CAST(sum(amount) AS decimal(22,2)) AS amt "
        "FROM delta.`{dwd_orders}` GROUP BY user_id, logdate"
    ),
}

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
    "spark.driver.extraJavaOptions": "-XX:+ExitOnOutOfMemoryError",
}


def copy(dsn: str, file: Path) -> None:
    """The source table as CSV, in one transaction."""
    query = f"COPY (SELECT {', '.join(COLUMNS)} FROM orders) TO STDOUT (FORMAT csv, FORCE_QUOTE (status))"
    with (
        psycopg.connect(dsn, options="-c timezone=UTC -c datestyle=ISO") as connection,
        connection.cursor().copy(query) as rows,
        file.open("wb") as out,
    ):
        for block in rows:
            out.write(block)


def rebuild(spark: SparkSession, source: Path, places: dict[str, str]) -> None:
    """All tables from the file, upstreams first."""
    rows = spark.read.csv(
        str(source), schema=TABLES["stg_orders"], timestampFormat="yyyy-MM-dd HH:mm:ss[.SSSSSS]X"
    )
    rows.createOrReplaceTempView("source")
    for table, query in QUERIES.items():
        spark.sql(f"INSERT OVERWRITE delta.`{places[table]}` {query.format(**places)}")


def main() -> None:
    """Create the tables, then rebuild them whenever the topic has grown."""
    configuration = json.loads(Path(sys.argv[1]).read_text())
    directory = Path(configuration["directory"])
    builder = SparkSession.builder.appName("full_batch").master("local[*]")
    for name, value in {**CONF, **configuration["conf"]}.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("WARN")
    places = {table: str(directory / "warehouse" / table) for table in TABLES}
    for table, columns in TABLES.items():
        spark.sql(f"CREATE TABLE delta.`{places[table]}` ({columns}) USING delta")

    consumer = Consumer({**configuration["kafka"], "group.id": "full_batch"})
    topic = TopicPartition(configuration["topic"], 0)
    done = 0
    (directory / "ready").touch()
    while True:
        _, end = consumer.get_watermark_offsets(topic, timeout=30)
        if end == done:
            time.sleep(0.1)
            continue
        copy(configuration["dsn"], directory / "source.csv")
        rebuild(spark, directory / "source.csv", places)
        done = end


if __name__ == "__main__":
    main()
