"""What Spark's configuration has beside headrace's own: the user's, and what a cluster needs."""

from __future__ import annotations

import ipaddress
from collections.abc import Collection
from urllib.parse import urlsplit

from headrace.errors import TerminalError
from headrace.settings import LOOPBACK, Settings

DECIDES = (
    *("spark.master", "spark.submit.deployMode"),
    *("spark.sql.extensions", "spark.sql.catalog.spark_catalog"),
)
"""What headrace decides beside what gives rows: on these it stands."""

_LOCAL = ("spark.driver.host", "spark.driver.bindAddress")


def addresses(settings: Settings) -> dict[str, str]:
    """Where executors reach the driver: on loopback, unless the cluster is elsewhere; Spark then knows."""
    master = settings.spark_master
    if master.startswith("local") or _on_loopback(master):
        return dict.fromkeys(_LOCAL, LOOPBACK)
    return {}


def _on_loopback(master: str) -> bool:
    hosts = master.removeprefix("k8s://").partition("://")[2].split(",") if "://" in master else []
    found = [urlsplit(f"//{host.rpartition('//')[2]}").hostname or "" for host in hosts]
    return bool(found) and all(host == "localhost" or _is_loopback(host) for host in found)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def own(settings: Settings, decided: Collection[str]) -> dict[str, str]:
    """The user's configuration.

    Args:
        decided: names that are headrace's own, since they decide rows.
    Raises:
        TerminalError: it names one of these, or what is no name of Spark's.
    """
    given = settings.spark_configuration
    for name in given:
        if not name.startswith("spark."):
            raise TerminalError(f"`spark_conf`: `{name}` is no configuration of Spark. Next: write spark.…")
        if name in decided or name in DECIDES:
            instead = "set `spark_master`" if name == "spark.master" else "leave it out"
            raise TerminalError(f"`spark_conf`: {name} is headrace's own. Next: {instead}")
    return given
