"""What `headrace status` says about a service, and which services there are."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field

ServiceName = Literal[
    "postgres", "kafka", "connect", "warehouse", "dagster-code", "dagster-webserver", "dagster-daemon"
]
ServiceState = Literal["STOPPED", "STARTING", "UNHEALTHY", "RUNNING", "STOPPING", "FAILED", "EXTERNAL"]


class ServiceStatus(BaseModel):
    """One line of `headrace status`. `RUNNING` means that its health check answers."""

    name: ServiceName
    state: ServiceState
    pid: int | None = None
    rss_bytes: int = Field(default=0, description="of the process and everything it started")
    port: int | None = None
    detail: str = Field(default="", description="what is wrong and what to run; empty where nothing is")
