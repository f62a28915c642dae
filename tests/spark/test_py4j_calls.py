"""Plain values go into the JVM as they are, others as PySpark converts them; bytes come back as a whole."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from py4j import protocol
from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.parametrize(
    "value",
    [
        "text",
        "",
        7,
        2**40,
        True,
        1.5,
        None,
        b"\x00\xff",
        bytearray(b"ab"),
        Decimal("1.20"),
        date(2026, 11, 26),
        datetime(2026, 11, 26, 12, 30),
        [1, 2, 3],
        np.int64(5),
        np.array([1.5, 2.5]),
    ],
    ids=repr,
)
def test_a_literal_of_every_kind_comes_back(spark: SparkSession, value: Any) -> None:
    [(found,)] = spark.range(1).select(F.lit(value)).collect()
    assert found == (value.tolist() if isinstance(value, np.generic | np.ndarray) else value)


def test_collections_are_java_s_own(spark: SparkSession) -> None:
    jvm = spark._jvm
    assert jvm is not None
    assert jvm.java.util.ArrayList(["a", "b"]).size() == 2
    assert jvm.java.util.HashMap({"a": 1}).get("a") == 1
    assert jvm.java.util.HashSet({1, 2}).size() == 2


def test_no_converter_is_asked_about_a_plain_argument(spark: SparkSession) -> None:
    gateway = spark.sparkContext._gateway
    assert gateway is not None
    asked: list[Any] = []

    class Asking:
        def can_convert(self, object: Any) -> bool:
            asked.append(object)
            return False

    [others] = gateway._gateway_client.converters
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(others, "_converters", [Asking(), *others._converters])
        assert gateway.jvm.java.lang.Integer.parseInt("7") == 7
        assert asked == []
        gateway.jvm.java.util.ArrayList(["one"])
        assert ["one"] in asked


def test_bytes_come_back_as_a_whole(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    def by_one(encoded: str) -> bytearray:
        raise AssertionError(f"{len(encoded)} characters are decoded number by number")

    monkeypatch.setattr(protocol, "decode_bytearray", by_one)
    jvm = spark._jvm
    assert jvm is not None
    sent = bytes(range(256)) * 5
    found = jvm.java.nio.ByteBuffer.wrap(sent).array()
    assert (type(found), found) == (bytearray, sent)
    assert jvm.java.nio.ByteBuffer.allocate(0).array() == b""
