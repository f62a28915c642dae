"""Calls into the JVM whose arguments are sent as they are.

For each argument py4j asks a dozen converters whether it is a list, a map, a date, …, by slow reflection. A
micro-batch makes hundreds of calls, and nearly all of their arguments are strings, numbers and bytes, which
no converter takes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

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
