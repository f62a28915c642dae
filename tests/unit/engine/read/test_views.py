"""Views are made for those who see them."""

from __future__ import annotations

import threading
from typing import Any, cast
from unittest.mock import MagicMock

from headrace.engine.read.views import Views
from headrace.spec.model import TableName


def test_where_spark_connect_is_not_served_no_view_is_made() -> None:
    spark, table = MagicMock(), MagicMock()
    views = Views(cast("Any", spark), shown=False)
    views.begin([table], threading.Event())
    views.renew(table)
    views.renew_if_old(table)
    views.drop(TableName("dws", "t"))
    views.join()
    spark.sql.assert_not_called()
