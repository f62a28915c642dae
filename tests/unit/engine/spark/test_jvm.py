"""Whether Spark's application lives, as its context says."""

from __future__ import annotations

from typing import Any, cast
from unittest.mock import MagicMock

import pytest

from headrace.engine.spark.jvm import application_ended


@pytest.mark.parametrize("stopped", [True, False])
def test_an_application_has_ended_where_its_context_has(stopped: bool) -> None:
    spark = MagicMock()
    spark.sparkContext._jsc.sc.return_value.isStopped.return_value = stopped
    assert application_ended(cast("Any", spark)) is stopped


def test_a_jvm_that_does_not_answer_is_told_by_whoever_watches_it() -> None:
    spark = MagicMock()
    spark.sparkContext._jsc.sc.side_effect = ConnectionError("the JVM is gone")
    assert application_ended(cast("Any", spark)) is False
