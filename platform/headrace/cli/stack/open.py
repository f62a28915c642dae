"""open: Dagster in a browser."""

from __future__ import annotations

from headrace.cli._shared.options import Project, load_settings
from headrace.cli._shared.output import note


def open_(project: Project = None) -> None:
    """Open Dagster in a browser, and say where it is."""
    import webbrowser

    from headrace.gateway.errors import NotReachable
    from headrace.services import health

    settings = load_settings(project)
    url = settings.dagster_url
    try:
        health.check(settings, "dagster-webserver")
    except health.Unhealthy as error:
        raise NotReachable(f"no Dagster answers at {url} ({error}): run `headrace up`") from None
    note(url if webbrowser.open(url) else f"no browser could be opened: Dagster is at {url}")
