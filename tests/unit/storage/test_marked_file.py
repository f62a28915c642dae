"""A file that is replaced only as what it was read as."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from headrace.storage.marked_file import KEPT, MarkedFile


@pytest.fixture
def file(tmp_path: Path) -> MarkedFile:
    return MarkedFile(tmp_path / "marked")


def test_it_is_replaced_as_what_it_was_read_as(file: MarkedFile) -> None:
    assert file.read_marked() is None
    mark = file.write_if("a", None)
    assert mark is not None and file.read_marked() == ("a", mark)
    assert file.write_if("b", None) is None
    later = file.write_if("b", mark)
    assert later is not None and file.read_marked() == ("b", later)
    assert file.write_if("c", mark) is None
    assert file.read_marked() == ("b", later)


def test_one_who_read_it_long_ago_is_refused_though_that_content_is_gone(file: MarkedFile) -> None:
    old = mark = file.write_if("0", None)
    for number in range(3 * KEPT):
        mark = file.write_if(str(number), mark)
    assert mark is not None and old is not None
    assert len(list(file.folder.iterdir())) == KEPT
    for stale in (None, old, str(int(old) + 3)):
        assert file.write_if("late", stale) is None
    assert file.read_marked() == (str(3 * KEPT - 1), mark)
    assert len(list(file.folder.iterdir())) == KEPT


def test_of_many_that_replace_the_same_content_one_does(file: MarkedFile) -> None:
    mark = None
    with ThreadPoolExecutor(4) as pool:
        for number in range(50):
            found = list(pool.map(lambda racer, m=mark: file.write_if(str(racer), m), range(4)))
            [mark] = [each for each in found if each is not None]
            assert file.read_marked() == (str(found.index(mark)), mark), number
