"""Fixtures for all tests."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("patient", deadline=None)  # machines are shared, and some examples compile
settings.register_profile("few", settings.get_profile("patient"), max_examples=20)
settings.load_profile("few")  # `make test-all` takes the other, which has 100 examples

SHARED = Path(__file__).resolve().parents[1].parent / "shared"


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
