"""Whether a store keeps to conditional puts, on which the commits of all tables rest."""

from __future__ import annotations

import uuid
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from obstore.exceptions import BaseError

from headrace.errors import TerminalError
from headrace.storage.object_path import ObjectPath

RACES, RACERS = 20, 4
"""Of servers that looked first and wrote then, one let several win in every third race, another in most."""


def require(folder: ObjectPath) -> None:
    """Let some clients put the same new key at once, again and again: each time one must be the first.

    Raises:
        TerminalError: of one race several were told that they had won; or the folder cannot be written.
    """
    try:
        _races(folder)
    except (BaseError, OSError) as error:
        said = str(error).partition("\n")[0]
        raise TerminalError(
            f"the warehouse `{folder}` cannot be written: {said}. Next: look whether the bucket is there, "
            "and after `warehouse_url` and the settings `s3_…`"
        ) from error


def _races(folder: ObjectPath) -> None:
    name = f"probe-{uuid.uuid4().hex}"
    places = [folder / f"{name}-{number}" for number in range(RACES)]
    try:
        with ThreadPoolExecutor(RACERS) as racers:
            for place in places:
                _race(place, racers)
    finally:
        with suppress(BaseError, OSError):  # what a put said counts
            for place in places:
                place.unlink()


def _race(place: ObjectPath, racers: ThreadPoolExecutor) -> None:
    marks = [racers.submit(place.write_if, str(number), None) for number in range(RACERS)]
    won = sum(mark.result() is not None for mark in marks)
    if won != 1:
        raise TerminalError(
            f"the object store of `{place.parent}` does not keep to conditional puts: of {RACERS} that put "
            f"the same new object at once, {won} were told that they did. It would lose commits of tables. "
            "Next: let `warehouse_url` name a store that keeps to `If-None-Match`"
        )
