"""A cache directory and a small capture for each test that asks for them."""

from pathlib import Path

import pytest

from nsys_evidence.ingest.synthetic import write_sqlite
from tests.ingest.caching import SMALL


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    return write_sqlite(SMALL, tmp_path / "a.sqlite")
