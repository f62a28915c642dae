"""An object store in memory, in place of whichever bucket is asked for."""

from __future__ import annotations

import pytest
from obstore.store import MemoryStore

from headrace.storage.object_store import ObjectStore


@pytest.fixture
def memory_store(monkeypatch: pytest.MonkeyPatch) -> MemoryStore:
    held = MemoryStore()
    monkeypatch.setattr(ObjectStore, "bucket", lambda self, name: held)
    return held
