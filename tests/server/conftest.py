"""A demo capture, and servers and commands that keep to directories of their own."""

from pathlib import Path

import pytest

from nsys_evidence.ingest.synthetic import demo_capture, write_sqlite
from tests.server.wire import Place


@pytest.fixture(scope="session")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The demo capture."""
    return write_sqlite(demo_capture()[0], tmp_path_factory.mktemp("demo") / "demo.sqlite")


@pytest.fixture(scope="session")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """A cache and a state directory for the whole session."""
    return Place(tmp_path_factory.mktemp("place"))


@pytest.fixture
def own_place(tmp_path: Path) -> Place:
    """A cache and a state directory for one test."""
    return Place(tmp_path / "place")


@pytest.fixture
def commands(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands of this process keep to the session's directories."""
    for name, value in place.environment.items():
        monkeypatch.setenv(name, value)
