"""The chain as a declarative pipeline: automatic change capture into a Delta table, and two views of it."""

from __future__ import annotations

import json

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

EVENT = (
    "op string, before struct<order_id bigint>, "
    "after struct<order_id bigint, user_id bigint, product_id int, "
    "amount decimal(12,2), status string, created_at timestamp, updated_at timestamp>"
)

COLUMNS = ("user_id", "product_id", "amount", "status", "created_at", "updated_at")

spark = SparkSession.active()


@dp.temporary_view
def order_events() -> DataFrame:
    topic = spark.readStream.format("kafka").option("startingOffsets", "earliest")
    topic = topic.options(**json.loads(spark.conf.get("peer.kafka") or "{}"))
    events = topic.option("subscribe", spark.conf.get("peer.topic")).load().where("value IS NOT NULL")
    parsed = events.selectExpr(f"from_json(CAST(value AS string), '{EVENT}') AS e", "offset")
    return parsed.selectExpr(
        "coalesce(e.after.order_id, e.before.order_id) AS order_id",
        *(f"e.after.{name}" for name in COLUMNS),
        "e.op",
        "offset",
    )


dp.create_streaming_table("stg_orders", format="delta")
dp.create_auto_cdc_flow(
    target="stg_orders",
    source="order_events",
    keys=["order_id"],
    sequence_by="offset",
    apply_as_deletes="op = 'd'",
    except_column_list=["op", "offset"],
)


@dp.materialized_view
def dwd_orders() -> DataFrame:
    return spark.sql(
        "SELECT order_id, user_id, amount, date_format(created_at, 'yyyyMMddHH') AS logdate "
        "FROM stg_orders WHERE amount > 1"
    )


@dp.materialized_view
def dws_user_hour() -> DataFrame:
    return spark.sql(
        "SELECT user_id, logdate, count(*) AS cnt, sum(amount) AS amt "
        "FROM dwd_orders GROUP BY user_id, logdate"
    )
