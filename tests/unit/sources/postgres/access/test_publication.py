from __future__ import annotations

from pathlib import Path

import pytest

from headrace.sources.connect import ConnectorFile
from headrace.sources.postgres.access.publication import MODE, as_registered, made_here

OWN = {"plugin.name": "pgoutput", MODE: "filtered"}


def test_debezium_does_not_look_at_the_tables_of_a_filtered_publication() -> None:
    filtered = ConnectorFile("shop", OWN, Path("shop.json"))
    assert made_here(filtered)
    assert as_registered(filtered).config == {**OWN, MODE: "disabled"}


@pytest.mark.parametrize("other", [{MODE: "all_tables"}, {MODE: "disabled"}, {"plugin.name": "decoderbufs"}])
def test_other_connectors_are_registered_as_their_files_say(other: dict[str, str]) -> None:
    as_it_says = ConnectorFile("shop", {**OWN, **other}, Path("shop.json"))
    assert not made_here(as_it_says) and as_registered(as_it_says) == as_it_says
