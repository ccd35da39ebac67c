"""Fixtures for all tests."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import zlib
from pathlib import Path

import pytest
from few import left_out, spread
from hypothesis import settings
from optional import LITERT, TORCH

settings.register_profile("patient", deadline=None)  # machines are shared, and some examples compile
settings.register_profile("few", settings.get_profile("patient"), max_examples=12)
settings.load_profile("few")  # `make test-all` takes the other, which has 100 examples

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in the background of a shell; processes of tests inherit it
    signal.signal(signal.SIGINT, signal.default_int_handler)

os.environ["MOCCASIN_OPERATORS"] = "off"  # what tests measure is not for the user's own plans, nor the other way round
SEEDS = 12
"""The most cases that run by default of a test which takes a seed."""
SHARED = Path(__file__).resolve().parents[1].parent / "shared"


def pytest_addoption(parser):
    parser.addoption("--sample", type=int, default=1, metavar="N", help="of tests marked full, one in N")
    parser.addoption("--sample-seed", default="0", metavar="TEXT", help="another text is another sample")


def pytest_configure(config):
    """Where `-m` has "and not slow", or "and not full", `few` makes no such tests."""
    parts = (config.option.markexpr or "").split(" and ")
    left_out.update(mark for mark in ("slow", "full") if f"not {mark}" in parts)


def pytest_report_header():
    """What is not collected is named."""
    missing = {"PyTorch": TORCH, "LiteRT": LITERT}
    return [f"no {name}: tests that need it are not run" for name, there in missing.items() if not there]


def pytest_sessionstart(session):
    """Have all searches compiled before any test: else those of the first minute would be without them."""
    from moccasin_mzn.cli.install import searches
    from moccasin_mzn.heuristics.compiled_searches import is_kept

    if not hasattr(session.config, "workerinput") and not all(map(is_kept, searches())):
        subprocess.run([sys.executable, "-m", "moccasin_mzn", "compile"], stdout=subprocess.DEVNULL, check=True)


@pytest.hookimpl(tryfirst=True)  # before marks are looked at
def pytest_collection_modifyitems(config, items):
    """Mark as `full` all but a few cases of a test marked `few(count)`, and all but `SEEDS` of one that takes a seed,
    of those that would run by default."""
    cases: dict[tuple[str, int], list[pytest.Item]] = {}
    for item in items:
        mark = item.get_closest_marker("few")
        takes_a_seed = type(getattr(getattr(item, "callspec", None), "params", {}).get("seed")) is int
        keep = mark.args[0] if mark else SEEDS if takes_a_seed else None
        if keep is not None and not any(item.iter_markers("slow")) and not any(item.iter_markers("full")):
            cases.setdefault((item.nodeid.partition("[")[0], keep), []).append(item)
    for (_, keep), those in cases.items():
        for place in spread(len(those))[keep:]:
            those[place].add_marker(pytest.mark.full)


@pytest.hookimpl(specname="pytest_collection_modifyitems", trylast=True)  # of what `-m` has left
def pytest_sample(config, items):
    """Leave one in N of the cases of each test that `make test` does not run, or not as often; the seed draws which."""
    every, seed = config.option.sample, config.option.sample_seed
    cases: dict[str, list[pytest.Item]] = {}
    for item in items if every > 1 else ():
        if any(item.iter_markers("full")) or any(item.iter_markers("hypothesis")):
            cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
    out: set[pytest.Item] = set()
    for name, those in cases.items():
        first = zlib.crc32(f"{seed} {name}".encode()) % every
        out.update(item for place, item in enumerate(those) if place % every != first)
    if out:
        config.hook.pytest_deselected(items=[item for item in items if item in out])
        items[:] = [item for item in items if item not in out]


@pytest.fixture
def shared() -> Path:
    """The folder of published graphs, which is not part of the product."""
    if not SHARED.is_dir():
        pytest.skip("the published graphs (../shared) are not here")
    return SHARED


@pytest.fixture
def graph(request, tmp_path) -> Path:
    """The file of `GRAPH`, the graph of the test's module."""
    from moccasin_mzn.graphs.formats import write_graph

    write_graph(request.module.GRAPH, tmp_path / "graph.json")
    return tmp_path / "graph.json"


@pytest.fixture
def command(capfd):
    """Runs a command line in this process; returns exit status, stdout and stderr."""

    from moccasin_mzn.cli.main import run

    def call(*arguments):
        status = run([str(argument) for argument in arguments])
        return status, *capfd.readouterr()

    return call
