"""The gateway over HTTP: statements in, progress and results out. Loopback only, with a token."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Iterator
from typing import Annotated, Any, BinaryIO

from fastapi import Depends, FastAPI, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, StreamingResponse
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException
from starlette.middleware.trustedhost import TrustedHostMiddleware

from headrace.encoding import encode
from headrace.errors import HeadraceError, TerminalError, TransientError, UnknownName
from headrace.gateway.overview import DIGEST, Overview
from headrace.gateway.service import Forbidden, Service

log = logging.getLogger(__name__)

ARROW = "application/vnd.apache.arrow.stream"
_CHUNK = 1 << 20


class Submission(BaseModel):
    """A statement to run."""

    model_config = ConfigDict(extra="forbid")

    sql: str = Field(max_length=1_000_000)


class Unauthorized(TerminalError):
    """A call without the right token."""


class RowsGone(TerminalError):
    """The statement has no rows, or they are kept no longer."""


class OtherSettings(TerminalError):
    """The client has other settings than the server."""


def create_app(service: Service, *, token: str, read_token: str, overview: Overview | None = None) -> FastAPI:
    """The HTTP application of one warehouse.

    Args:
        service: the warehouse and its statements.
        token: what clients must present as `Authorization: Bearer …`.
        read_token: what those may present that only read.
        overview: tells of the project; None: nothing does, and clients look themselves.
    """
    app = FastAPI(title="headrace", docs_url=None, redoc_url=None, openapi_url=None)
    # A web page of another site may make a browser call loopback under that site's name.
    app.add_middleware(TrustedHostMiddleware, allowed_hosts=["127.0.0.1", "localhost"], www_redirect=False)
    for kind in (HeadraceError, RequestValidationError, HTTPException, Exception):
        app.add_exception_handler(kind, _on_error)
    full, read = (f"Bearer {known}".encode() for known in (token, read_token))

    def reading(request: Request) -> bool:
        """Whether the caller may read alone."""
        given = request.headers.get("authorization", "").encode()
        if secrets.compare_digest(given, full):
            return False
        if secrets.compare_digest(given, read):
            return True
        raise Unauthorized("the token is missing or wrong")

    guarded = [Depends(reading)]

    @app.get("/health")
    def health() -> Response:
        answer = service.health()
        return JSONResponse(answer, status_code=200 if answer["state"] == "ready" else 503)

    @app.get("/status", dependencies=guarded)
    def status() -> Any:
        return JSONResponse(encode(service.status()))

    @app.get("/jvm", dependencies=guarded)
    def jvm() -> Any:
        return JSONResponse(encode(service.jvm()))

    @app.get("/metrics", dependencies=guarded)
    def metrics() -> Response:
        from headrace.gateway.metrics import CONTENT_TYPE

        return Response(service.metrics(), media_type=CONTENT_TYPE)

    def own(request: Request) -> Overview:
        """The overview, for a client that means the same settings."""
        if overview is None or request.headers.get(DIGEST) != overview.digest:
            raise OtherSettings("the server was started with other settings")
        return overview

    @app.get("/services", dependencies=guarded)
    def services(tells: Overview = Depends(own)) -> Any:
        return JSONResponse(encode(tells.services()))

    @app.get("/plan", dependencies=guarded)
    def plan(tells: Overview = Depends(own)) -> Any:
        return JSONResponse(encode(tells.plan()))

    @app.get("/plan/{table}", dependencies=guarded)
    def planned(table: str, history: bool = False, tells: Overview = Depends(own)) -> Any:
        return JSONResponse(encode(tells.explain(table, history=history)))

    @app.post("/statements", status_code=202)
    def submit(submission: Submission, reads: bool = Depends(reading)) -> Any:
        return encode(service.submit(submission.sql, reading=reads))

    @app.get("/statements", dependencies=guarded)
    def statements() -> Any:
        return encode(service.jobs.all())

    @app.get("/statements/{id}", dependencies=guarded)
    def statement(id: str, wait: Annotated[float, Query(ge=0, le=30)] = 0) -> Any:
        return encode(service.jobs.get(id, wait))

    @app.delete("/statements/{id}")
    def cancel(id: str, reads: bool = Depends(reading)) -> Any:
        return encode(service.cancel(id, reading=reads))

    @app.get("/statements/{id}/rows", dependencies=guarded)
    def rows(id: str) -> Response:
        stream = service.jobs.rows(id)
        if stream is None:
            raise RowsGone(f"statement {id} has no rows, or they are kept no longer: submit it again")
        return StreamingResponse(_chunks(stream), media_type=ARROW)

    return app


def _on_error(_request: Request, error: Exception) -> Response:
    match error:
        case Unauthorized():
            status = 401
        case Forbidden():
            status = 403
        case UnknownName():
            status = 404
        case RowsGone():
            status = 410
        case OtherSettings():
            status = 409
        case TransientError():
            status = 503
        case HeadraceError() | RequestValidationError():
            status = 422
        case HTTPException():
            status = error.status_code
        case _:
            status = 500
            log.error("a request failed", exc_info=error)
    headers = {"WWW-Authenticate": "Bearer"} if status == 401 else None
    return JSONResponse({"error": _message(error)}, status_code=status, headers=headers)


def _message(error: Exception) -> str:
    match error:
        case HeadraceError():
            return str(error)
        case RequestValidationError():
            problems = (f"{'.'.join(map(str, e['loc'][1:]))}: {e['msg']}" for e in error.errors())
            return "the request cannot be read: " + "; ".join(problems)
        case HTTPException():
            return str(error.detail)
        case _:
            first = (str(error).strip().splitlines() or [""])[0]
            return f"{type(error).__name__}: {first[:500]} (details in the server's log)"


def _chunks(stream: BinaryIO) -> Iterator[bytes]:
    with stream:
        while chunk := stream.read(_CHUNK):
            yield chunk
