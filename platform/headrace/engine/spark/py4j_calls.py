"""Calls into the JVM whose arguments and results pass py4j at the least cost.

For each argument py4j asks a dozen converters whether it is a list, a map, a date, …, by slow reflection. A
micro-batch makes hundreds of calls, and nearly all of their arguments are strings, numbers and bytes, which
no converter takes.

Bytes that come back, the rows of a plan that runs in the driver, it takes apart into a list of numbers: 90 ms
of Python for 1 MiB, in which no other thread runs.
"""

from __future__ import annotations

from base64 import standard_b64decode
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from py4j.protocol import BYTES_TYPE, register_output_converter

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PLAIN = frozenset((str, int, bool, float, bytes, bytearray, type(None)))


class _Converter(Protocol):
    """As py4j has them."""

    def can_convert(self, object: Any) -> bool: ...

    def convert(self, object: Any, gateway_client: Any) -> Any: ...


class _Others:
    """The converters as one, which is quick to say that it has nothing to do."""

    def __init__(self, converters: Sequence[_Converter]) -> None:
        self._converters = converters  # PySpark adds its own later

    def can_convert(self, object: Any) -> bool:
        return type(object) not in _PLAIN and any(c.can_convert(object) for c in self._converters)

    def convert(self, object: Any, gateway_client: Any) -> Any:
        converter = next(c for c in self._converters if c.can_convert(object))
        return converter.convert(object, gateway_client)


def send_plain_arguments(spark: SparkSession) -> None:
    """From now on ask no converter about an argument that none would take."""
    gateway = spark.sparkContext._gateway
    assert gateway is not None, "the driver's own session has one"
    client = gateway._gateway_client
    client.converters = [_Others(client.converters)]


def receive_bytes_at_once() -> None:
    """From now on decode the bytes that a call returns as a whole, in all gateways of this process."""
    register_output_converter(BYTES_TYPE, _bytes)


def _bytes(encoded: str, _client: object) -> bytearray:
    return bytearray(standard_b64decode(encoded))
