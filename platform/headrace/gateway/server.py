"""Serving one project: the listener, the tokens, the signals, the end."""

from __future__ import annotations

import argparse
import logging
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.errors import HeadraceError

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Sequence

    import uvicorn

    from headrace.gateway.overview import Overview
    from headrace.gateway.service import ManagedWarehouse, Service
    from headrace.settings import Settings

log = logging.getLogger("headrace.gateway")

_RESULT_BYTES = 512 * 2**20


def main(
    arguments: list[str] | None = None, *, overview: Callable[[Settings], Overview] | None = None
) -> int:
    """Serve one project until SIGTERM or SIGINT; then stop the warehouse and return.

    Args:
        overview: makes what tells of the project beside its warehouse.
    """
    parser = argparse.ArgumentParser(prog="python -m headrace.server", description="The warehouse server.")
    parser.add_argument("--project", type=Path, default=Path(), help="the project directory")
    options = parser.parse_args(arguments)
    logging.basicConfig(
        level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    for talkative in ("py4j", "httpx"):  # each call, each request
        logging.getLogger(talkative).setLevel(logging.WARNING)
    try:
        from headrace.settings import Settings

        settings = Settings.load(options.project)
        logging.getLogger("headrace").setLevel(settings.log_level)
        if settings.log_format == "json":
            _log_as_json()
        serve(settings, overview(settings) if overview is not None else None)
    except HeadraceError as error:
        log.error("%s", error)
        return 2
    return 0


def _log_as_json() -> None:
    from headrace.engine.spark.meter import METER
    from headrace.gateway.logs import JsonFormatter

    for handler in logging.getLogger().handlers:
        handler.setFormatter(JsonFormatter(METER.told))


def serve(settings: Settings, overview: Overview | None = None) -> None:
    """Serve the project until a signal says stop."""
    import uvicorn

    from headrace.gateway.app import create_app
    from headrace.gateway.listening import listen
    from headrace.gateway.rows import ResultRows
    from headrace.gateway.service import Service
    from headrace.tokens import ensure_token

    # Before anything starts: two servers of one project never touch its tables together.
    listener = listen(settings.gateway_port, "gateway_port")
    token, read_token = ensure_token(settings.gateway_token), ensure_token(settings.gateway_read_token)
    rows = ResultRows(settings.state / "results", limit_bytes=_RESULT_BYTES)
    service = Service(lambda: _build(settings), rows)
    config = uvicorn.Config(
        create_app(
            service,
            token=token,
            read_token=read_token,
            overview=overview,
        ),
        log_config=None,
        access_log=False,
        lifespan="off",
        timeout_graceful_shutdown=5,
    )
    server = _server(config, service)
    # uvicorn raises the signal again when it has shut down; the warehouse is stopped after that.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: setattr(server, "should_exit", True))
    end_flight = _serve_flight(service, settings, (token, read_token)) if settings.flight_sql else None
    service.start()
    log.info("serving %s on 127.0.0.1:%d", settings.project, settings.gateway_port)
    try:
        server.run(sockets=[listener])
    finally:
        log.info("stopping")
        if end_flight is not None:
            end_flight()
        service.close()
        log.info("stopped")


def _serve_flight(service: Service, settings: Settings, tokens: Sequence[str]) -> Callable[[], None]:
    from headrace.gateway.flight.server import serve as serve_flight

    end = serve_flight(service, port=settings.flight_sql_port, tokens=tokens)
    log.info("Flight SQL on 127.0.0.1:%d", settings.flight_sql_port)
    return end


def _server(config: uvicorn.Config, service: Service) -> uvicorn.Server:
    import uvicorn

    class Server(uvicorn.Server):
        """Lets waiting clients go at once, instead of waiting for them."""

        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            service.drain()
            await super().shutdown(sockets)

    return Server(config)


def _build(settings: Settings) -> ManagedWarehouse:
    from headrace.catalog import Catalog
    from headrace.declared import load_own
    from headrace.sources.stg_files import write_missing

    for file in write_missing(settings):
        log.info("%s is written", file)
    # A mistake in a layer file is reported before Spark's seconds of loading begin.
    project = load_own(settings)
    from headrace.engine.warehouse.warehouse import Warehouse
    from headrace.store.live.resident import RESIDENT

    RESIDENT.budget = settings.snapshot_bytes
    return Warehouse(project, settings, Catalog(settings.catalog))
