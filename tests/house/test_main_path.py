"""The way of a plain `solve` from the command line to the judge, as docs/architecture.md has it: the calls of a run."""

from __future__ import annotations

import re
import sys
import threading
from pathlib import Path

import pytest

import moccasin_mzn.problem.instance as instance_module
from moccasin_mzn.cli.main import run

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "moccasin_mzn"
MOST_FILES = 8


def files_of(frame) -> list[str]:
    """The files of the package on the stack, from the outermost call on; a kernel is one, whatever it is made of."""
    found = []
    while frame is not None:
        path = Path(frame.f_code.co_filename)
        if path.is_relative_to(PACKAGE):
            name = path.relative_to(PACKAGE).as_posix()
            found.append("heuristics" if name.startswith("heuristics/") else name)
        frame = frame.f_back
    return found[::-1]


@pytest.fixture
def ways(monkeypatch):
    """The files through which each verdict was asked for, from the command line on, through all threads."""
    started: dict[int, list[str]] = {}
    found: set[tuple[str, ...]] = set()
    start, judge = threading.Thread.start, instance_module.judge

    def noted_start(thread):
        started[id(thread)] = way_here(2)
        start(thread)

    def noted_judge(*arguments):
        way = [*way_here(2), "problem/judges/schedules.py"]
        found.add(tuple(name for name, before in zip(way, [None, *way], strict=False) if name != before))
        return judge(*arguments)

    def way_here(depth: int) -> list[str]:
        return started.get(id(threading.current_thread()), []) + files_of(sys._getframe(depth))

    monkeypatch.setattr(threading.Thread, "start", noted_start)
    monkeypatch.setattr(instance_module, "judge", noted_judge)
    return found


def test_the_way_to_the_judge_is_short_and_enters_no_file_twice(ways):
    graph = ROOT / "data" / "unet_training.json"  # so large that a bound does not end it before a schedule is found
    assert run(["solve", str(graph), "--budget", "0.7", "--search", "only", "--time-limit", "5"]) == 0
    way = next(way[way.index("cli/solve.py") :] for way in ways if "heuristics" in way)
    assert len(way) <= MOST_FILES and len(set(way)) == len(way)
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    walked = re.findall(r"^\d\. `moccasin_mzn/([\w/.]+?)/?`", text, re.M)
    assert walked == list(way)
