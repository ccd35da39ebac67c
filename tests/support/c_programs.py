"""Programs of C for tests: networks in parts, compiled with sanitizers and run."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

import numpy as np

from moccasin_mzn.base.errors import InputError
from moccasin_mzn.deploy.c.deployment import folder_of
from moccasin_mzn.deploy.c.network import Network, network_of
from moccasin_mzn.deploy.c.program import Program, program_of
from moccasin_mzn.deploy.c.writing import kernel_texts
from moccasin_mzn.deploy.source import placed
from moccasin_mzn.graphs.importers.tflite import read_model
from moccasin_mzn.graphs.tiling.cutting import cut
from moccasin_mzn.problem.platform import plan_of_sequence
from moccasin_mzn.problem.runtime_plan import RuntimePlan
from moccasin_mzn.search.options import Effort

SANITIZED = "-O1 -g -fsanitize=address,undefined -fno-sanitize-recover=all"
STRICT = "-std=c99 -Wall -Wextra -Wconversion -Werror -pedantic"
compiler = shutil.which("cc")


def network(data: bytes, folder: Path) -> Network:
    path = folder / "model.tflite"
    path.write_bytes(data)
    return network_of(read_model(path), "model")


def in_order(net: Network, cuts=None, seconds: float = 0.2) -> Program:
    """The program that computes all once in the order of the model, or of its parts."""
    graph = net.graph if cuts is None else net.cut(net.graph, cuts)
    plan = RuntimePlan.of(graph, plan_of_sequence(graph.input_order()))
    return program_of(net, graph, placed(plan, 1, Effort(seconds)))


def stacked(net: Network, graph) -> Program:
    """The same, with offsets one after the other: nothing is searched for, and nothing overlaps."""
    plan = RuntimePlan.of(graph, plan_of_sequence(graph.input_order()))
    ends = np.cumsum([0, *(step.size for step in plan.steps)]).tolist()
    return program_of(net, graph, plan.with_offsets(ends[:-1], 1))


@cache
def kernels_object(flags: str = SANITIZED) -> Path:
    """The kernels, compiled once."""
    folder = Path(tempfile.mkdtemp(prefix="kernels"))
    for name, text in kernel_texts().items():
        (folder / name).write_text(text, encoding="utf-8")
    made = folder / "kernels.o"
    subprocess.run([compiler, *STRICT.split(), *flags.split(), "-c", "kernels.c"], cwd=folder, check=True)
    return made


def run(program: Program, folder: Path, sets: int = 1, seed: int = 0, flags: str = SANITIZED) -> str:
    """What the test of a deployed network prints; it is compiled with all warnings as errors."""
    for name, text in folder_of(program, sets, seed).items():
        (folder / name).write_text(text, encoding="utf-8")
    made = kernels_object(flags)
    command = [compiler, *STRICT.split(), *flags.split(), "-o", "test", "test.c", "model.c", str(made), "-lm"]
    found = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr
    found = subprocess.run(["./test"], cwd=folder, capture_output=True, text=True, check=False)
    assert not found.stderr, found.stderr
    return found.stdout


def rescheduled(net: Network, random: np.random.Generator) -> Program:
    """The program of parts cut anywhere, some computed again, with offsets that a search finds."""
    graph = net.cut(net.graph, random_cuts(net, random))
    sequence = list(graph.input_order())
    for _ in range(int(random.integers(0, 6)) if len(sequence) > 1 else 0):  # what is there is computed once more
        at = int(random.integers(1, len(sequence)))
        sequence.insert(at, sequence[int(random.integers(at))])
    plan = placed(RuntimePlan.of(graph, plan_of_sequence(sequence)), int(random.integers(1, 5)), Effort(0.1))
    return program_of(net, graph, plan)


def verdict(data: bytes, seed: int, folder: Path, sets: int = 2, flags: str = SANITIZED) -> str:
    """What becomes of a network whole and in parts: "equal: ...", "refused: ...", or "differs: ..."."""
    try:
        net = network(data, folder)
        programs = [in_order(net, seconds=0.1), rescheduled(net, np.random.default_rng(seed))]
        found = [run(program, folder, sets, seed, flags).strip() for program in programs]
    except InputError as error:
        assert not (folder / "model.c").exists()
        return f"refused: {error}"
    equal = all(text.startswith(f"{sets} of {sets} outputs are equal") for text in found)
    return f"{'equal' if equal else 'differs'}: whole: {found[0]}; in {len(programs[1].calls)} steps: {found[1]}"


def random_cuts(net: Network, random: np.random.Generator) -> dict[int, dict[int, tuple[int, ...]]]:
    """Cuts anywhere along all axes, of all operators."""
    found = {}
    for v, operator in enumerate(net.graph.operators or ()):
        for axis, extent in enumerate(operator.shape if operator is not None else ()):
            inner = random.integers(1, extent, random.integers(0, 3)) if extent > 1 else []
            found.setdefault(v, {})[axis] = tuple(sorted({0, *map(int, inner), extent}))
    return found


__all__ = ["SANITIZED", "compiler", "cut", "in_order", "network", "random_cuts", "run", "stacked", "verdict"]
