"""The mutation check is about today's tree: its texts and its tests are there."""

from __future__ import annotations

import pytest

from mutants import MUTANTS, ROOT, Mutant


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda m: m.name.partition(":")[0])
def test_text_and_tests_are_there(mutant: Mutant) -> None:
    text = (ROOT / "platform" / "headrace" / mutant.file).read_text()
    assert text.count(mutant.text) == 1
    for test in mutant.tests:
        file, _, name = test.partition("::")
        assert f"def {name}" in (ROOT / file).read_text()
