"""Processes of a soak that die or hang are findings, and the other graphs are soaked all the same."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from soaking.crew import Plan, soak
from soaking.graphs import draw_graph
from soaking.questions import draw_problem, draw_question
from soaking.trial import KINDS, Tally

ROOT = Path(__file__).resolve().parents[2]


def asks_until_it_dies(pipe, folder, plan):
    """Seed 1 kills the process in the middle of a question."""
    while (seed := pipe.recv()) is not None:
        (folder / "files").mkdir(exist_ok=True)
        (folder / "files" / "graph.json").write_text("{}")
        pipe.send(f"solve {folder}/files/graph.json")
        if seed == 1:
            os.abort()
        pipe.send(Tally(Counter(graphs=1)))


def asks_until_it_hangs(pipe, folder, plan):
    """Seed 1 has no end."""
    while (seed := pipe.recv()) is not None:
        pipe.send("solve graph.json")
        time.sleep(600 if seed == 1 else 0)
        pipe.send(Tally(Counter(graphs=1)))


@pytest.mark.few(1)
@pytest.mark.parametrize("jobs", [1, 2])
def test_a_process_that_dies_is_a_finding(tmp_path, jobs):
    tally, _ = soak(Plan(0, 4, jobs, None, None, tmp_path), asks_until_it_dies)
    (finding,) = tally.findings
    assert (finding.seed, tally.counts["graphs"]) == (1, 4)
    assert "the process died with -6" in finding.message
    assert finding.command == f"solve {tmp_path / '1-lost' / 'graph.json'}"
    assert (tmp_path / "1-lost" / "graph.json").read_text() == "{}"


@pytest.mark.full
def test_a_process_that_hangs_is_a_finding(tmp_path):
    tally, _ = soak(Plan(0, 3, 1, None, None, tmp_path, patience=5), asks_until_it_hangs)
    assert [(finding.seed, finding.message) for finding in tally.findings] == [(1, "no end within 5 s")]
    assert tally.counts["graphs"] == 3


def test_no_graph_is_begun_after_the_limit(tmp_path):
    tally, _ = soak(Plan(0, 1000, 1, 0.0, None, tmp_path), asks_until_it_dies)
    assert tally.counts["graphs"] == 0 and tally.findings == []


@pytest.mark.full
def test_soak_script_prints_requests_and_figures(tmp_path):
    command = [sys.executable, ROOT / "scripts" / "soak.py", "--replay", "2", "--only", "strategy", "--keep", tmp_path]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert ended.returncode == 0, ended.stderr
    lines = ended.stdout.splitlines()
    assert sum(" --strategy " in line for line in lines) == 5
    figures = dict([cell.strip() for cell in line.split("|")[1:3]] for line in lines if line.startswith("|"))
    assert (figures["graphs"], figures["asked: strategy"], figures["findings"]) == ("1", "5", "0")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "bad"])
def test_soak_seed_repeats_the_requests(tmp_path, kind):
    first, again = ([*_asked(kind, tmp_path)] for _ in range(2))
    assert first == again and len({tuple(words) for words in first}) > 10


def _asked(kind, folder):
    rng = random.Random(kind)
    for _ in range(20):
        problem = draw_problem(rng, draw_graph(rng, 4)[1])
        question = draw_question(rng, problem, kind, ["cp-sat", "gecode"])
        yield [*question.arguments(folder), (folder / "graph.json").read_text()]
