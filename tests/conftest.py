"""Fixtures for all tests."""

from __future__ import annotations

from pathlib import Path

import pytest
from few import spread
from hypothesis import settings

settings.register_profile("patient", deadline=None)  # machines are shared, and some examples compile
settings.register_profile("few", settings.get_profile("patient"), max_examples=20)
settings.load_profile("few")  # `make test-all` takes the other, which has 100 examples

DEFAULT_RUN = Path(__file__).with_name("default_run.txt")
SHARED = Path(__file__).resolve().parents[1].parent / "shared"


@pytest.hookimpl(tryfirst=True)  # before marks are looked at
def pytest_collection_modifyitems(config, items):
    """Mark what `DEFAULT_RUN` leaves to the full run."""
    keep = kept_cases()
    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        name = item.nodeid.partition("[")[0]
        if name in keep and not any(item.iter_markers("slow")) and not any(item.iter_markers("full")):
            cases.setdefault(name, []).append(item)
    for name, those in cases.items():
        for at in spread(len(those))[keep[name] :]:
            those[at].add_marker(pytest.mark.full)


def kept_cases() -> dict[str, int]:
    """How many cases of a test run by default, by `DEFAULT_RUN`."""
    lines = (line.split(None, 1) for line in DEFAULT_RUN.read_text(encoding="utf-8").splitlines() if line[:1] != "#")
    return {name: int(count) for count, name in lines}


@pytest.fixture
def shared() -> Path:
    """The folder of published graphs, which is not part of the product."""
    if not SHARED.is_dir():
        pytest.skip("the published graphs (../shared) are not here")
    return SHARED


@pytest.fixture
def command(capfd):
    """Runs a command line in this process; returns exit status, stdout and stderr."""

    from moccasin_mzn.cli.main import run

    def call(*arguments):
        status = run([str(argument) for argument in arguments])
        return status, *capfd.readouterr()

    return call
