"""What a person reads of what was thrown elsewhere."""

from __future__ import annotations

from headrace.errors import raised

TOLD = """[FOREACH_BATCH_USER_FUNCTION_ERROR] Reason: An exception was raised by the Python Proxy.
Return Message: Traceback (most recent call last):
  File "delta/files.py", line 10, in write
OSError: [Errno 27] File too large

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "flow.py", line 1, in process
headrace.errors.TransientError: stg.orders: the disk is full

\tat py4j.Protocol.getReturnValue(Protocol.java:476)
"""


def test_of_a_traceback_its_last_line_is_told() -> None:
    assert raised(TOLD) == "headrace.errors.TransientError: stg.orders: the disk is full"
    assert raised("java.io.IOException: gone") == "java.io.IOException: gone"
    assert (
        raised("Traceback (most recent call last):\n  nothing")
        == "Traceback (most recent call last):\n  nothing"
    )
