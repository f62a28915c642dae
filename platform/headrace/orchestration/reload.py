"""Loading the definitions again, as the page's button does, from inside of them."""

from __future__ import annotations

import logging
import threading

import dagster as dg
from dagster._core.errors import DagsterUserCodeUnreachableError
from dagster._core.remote_origin import GrpcServerCodeLocationOrigin

TIMEOUT_SECONDS = 180

log = logging.getLogger(__name__)


def reload_definitions(context: dg.SensorEvaluationContext) -> bool:
    """Ask the code server that runs this sensor to load everything anew, once the sensor has ended.

    Returns:
        Whether there is one to ask; Dagster's own development server loads when its user asks.
    """
    origin = context.code_location_origin
    if not isinstance(origin, GrpcServerCodeLocationOrigin):
        return False

    def ask() -> None:
        try:
            origin.create_client().reload_code(timeout=TIMEOUT_SECONDS)
        except DagsterUserCodeUnreachableError as error:  # the next tick asks again
            log.warning("the definitions were not loaded again: %s", error)

    # Not in the sensor itself: the process that it runs in is replaced.
    threading.Thread(target=ask, name="reload-definitions", daemon=True).start()
    return True
