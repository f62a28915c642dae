"""The views of live rows in Spark's catalog, made by several threads."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from harness import Harness
from orders_chain import LAYERS, nine_orders

from headrace.engine.read.views import Views


def test_a_view_is_made_by_several_threads_at_once(harness: Callable[..., Harness]) -> None:
    """As after a first load: the load makes the views, and so does the thread that makes all of them."""
    made = harness({"dwd/paid": LAYERS["dwd/paid"]})
    nine_orders(made)
    paid, threads = made.table("dwd.paid"), 4
    views, together = Views(made.sessions.batch), threading.Barrier(threads)

    def renew() -> None:
        together.wait()
        views.renew(paid)

    with ThreadPoolExecutor(threads) as pool:
        for _ in range(3):
            views.drop(paid.name)
            for one in [pool.submit(renew) for _ in range(threads)]:
                one.result()
    assert made.sessions.batch.table(str(paid.name)).count() == paid.store.frame(made.sessions.batch).count()
    views.drop(paid.name)
