"""The models of addresses under MiniZinc 2.10, run as WebAssembly, against brute force."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from address_cases import draw_buffers, draw_instance
from arena_oracle import least_arena_by_brute_force, shortest_in_arena

from moccasin_mzn.formulations import find_formulation, models_folder
from moccasin_mzn.machine.addresses.allocate import model_items
from moccasin_mzn.machine.addresses.joint import joint_data
from moccasin_mzn.solvers.minizinc.drivers import webassembly_folder
from moccasin_mzn.solvers.minizinc.run import dzn_text

ROOT = Path(__file__).resolve().parents[3]
RUNNER = ROOT / "scripts" / "minizinc-wasm.cjs"
PACKAGE = Path(os.environ.get("MINIZINC_WASM") or webassembly_folder() / "node_modules" / "minizinc")

pytestmark = pytest.mark.skipif(
    shutil.which("node") is None or not any((f / "minizinc.wasm").is_file() for f in (PACKAGE, PACKAGE / "dist")),
    reason="node or the npm package minizinc is not here",
)


def answer(folder: Path, model: str, items) -> str:
    """What MiniZinc 2.10 prints, with Gecode."""
    data = folder / "data.dzn"
    data.write_text(dzn_text(items))
    command = ["env", f"MINIZINC_WASM={PACKAGE}", "node", RUNNER, "--solver", "gecode", "--output-mode", "dzn"]
    command += ["--output-objective", models_folder() / model, data]
    ended = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=300, check=False)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def objective(text: str) -> int | None:
    """Of the best solution; None if there is none."""
    if "UNSATISFIABLE" in text:
        return None
    assert "==========" in text
    return int(re.findall(r"_objective = (\d+)", text)[-1])


@pytest.mark.full
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 3))])
def test_addresses_model_finds_the_least_arena_with_minizinc_2_10(tmp_path, seed):
    buffers, alignment = draw_buffers(seed)
    found = objective(answer(tmp_path, "addresses.mzn", model_items(buffers, alignment, 1, None, None)))
    assert found == least_arena_by_brute_force([(b.start, b.end, b.size) for b in buffers], alignment)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["staged", "general"])
@pytest.mark.parametrize("seed", range(3))
def test_joint_models_run_with_minizinc_2_10(tmp_path, seed, name):
    instance, alignment = draw_instance(seed)
    data, step = joint_data(instance, alignment, name == "staged")
    items = find_formulation(name).data_items(instance.graph, data)
    items |= {"alignment": step}
    found = objective(answer(tmp_path, f"{name}.mzn", items))
    most, staged = instance.max_computations[0], name == "staged"
    least = shortest_in_arena(instance.graph, instance.budget, alignment, most, staged)
    assert (None if found is None else found * data.duration_scale) == least
