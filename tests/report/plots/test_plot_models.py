"""The model with pictures for the MiniZinc IDE: what it hands to the IDE is the schedule it finds.

That it solves as the others do, under MiniZinc 2.10 too, is tested with them (test_checkers.py, test_minizinc_210.py).
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from cases import MODELS, Case, data_text, draw_case, least_duration
from few import few

ROOT = Path(__file__).resolve().parents[3]
PACKAGE = Path(os.environ.get("MINIZINC_WASM") or ROOT / "node_modules" / "minizinc")
MODEL = MODELS / "staged.mzn"


def messages(command: list[str], data: Path) -> list[dict]:
    """What MiniZinc tells the IDE."""
    words = [*command, "--json-stream", "--output-mode", "dzn", str(MODEL), str(data)]
    ended = subprocess.run(words, capture_output=True, text=True, timeout=120, check=True)
    lines = [json.loads(line) for line in ended.stdout.splitlines() if line.startswith("{")]
    assert not [line for line in lines if line["type"] == "error"]
    return lines


def windows(lines: list[dict]) -> tuple[list[dict], list]:
    """What each window is opened with, and its data for the last solution: in 2.6 one section, later one each."""
    opened = [line["message"] for line in lines if line["type"] == "trace"]
    last = [line["output"] for line in lines if line["type"] == "solution"][-1]
    data = last["vis_json"] if "vis_json" in last else [last[f"mzn_vis_{k}"] for k in range(len(opened))]
    return opened, data


def level(case: Case, gantt: dict, event: int) -> int:
    """Memory at an event, of the bars that the picture shows."""
    graph = case.graph
    owners = [v for v in graph.input_order() for _ in range(2 if graph.successors[v] else 1)]
    held = zip(owners, gantt["start"], gantt["dur"], strict=True)
    return sum(graph.sizes[v] for v, start, length in held if start <= event < start + length)


def check(command: list[str], folder: Path, seed: int) -> None:
    """Solve a case and measure its pictures."""
    drawn = draw_case(seed)
    case = Case(drawn.graph, drawn.budget, 2)
    data = folder / "data.dzn"
    data.write_text(data_text(case) + "pictures = true;")
    opened, (gantt, line, duration) = windows(messages(command, data))
    n = len(case.graph.nodes)
    assert [window["userData"]["type"] for window in opened] == ["gantt", "line", "line-time"]
    order = case.graph.input_order()
    copies = [2 if case.graph.successors[v] else 1 for v in order]
    labels = [f"{case.graph.nodes[v]}{again}" for v, most in zip(order, copies, strict=True)
              for again in ("", " again")[:most]]  # fmt: skip
    assert opened[0]["userData"]["labels"] == labels
    assert len(opened[0]["userData"]["colors"]) == len(labels)
    assert str(case.budget) in opened[1]["userData"]["yLabel"]

    best = least_duration(case, "staged")
    assert duration == [best]
    durations = [case.graph.durations[v] for v, most in zip(order, copies, strict=True) for _ in range(most)]
    assert sum(w for w, length in zip(durations, gantt["dur"], strict=True) if length) == best
    points = [(point["x"], point["y"]) for point in line]  # numbers in 2.6, later the lists of a series
    if isinstance(points[0][0], list):
        points = list(zip(*points[0], strict=True))
    assert [stage for stage, _ in points] == list(range(1, n + 1))
    for stage, memory in points:
        assert memory == level(case, gantt, n * (stage - 1) + stage) <= case.budget


@pytest.mark.skipif(shutil.which("minizinc") is None, reason="minizinc is not on PATH")
@pytest.mark.parametrize("seed", few([14, 34], keep=1))
def test_pictures_show_the_schedule(tmp_path, seed):
    check(["minizinc", "--solver", "gecode"], tmp_path, seed)


@pytest.mark.skipif(
    shutil.which("node") is None or not any(PACKAGE.glob("**/minizinc.wasm")),
    reason="node and the npm package minizinc are not here: npm install minizinc, or set MINIZINC_WASM",
)
@pytest.mark.full
def test_pictures_show_the_schedule_under_minizinc_210(tmp_path):
    check(["node", str(ROOT / "scripts" / "minizinc-wasm.cjs"), "--solver", "gecode"], tmp_path, 34)
