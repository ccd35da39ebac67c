"""Int8 networks as C, and in TensorFlow Lite Micro: bytes, computation, time on this machine, stack and code.

    python scripts/bench_c.py [NETWORK[@BYTES] ... | MODEL.tflite@BYTES ...] [--time-limit 60] [--seed 0]

Rows: TensorFlow Lite Micro as it places tensors, and with our plan of whole layers in the order of the file; C whole; C
in parts within budgets. *arena*: the static array of C; of TensorFlow Lite Micro all that its arena takes, and in it
*tensors* are inputs, outputs and what is between them; for C that is the arena and what the caller has. *MACs*: over
computing everything once. *ms*: the fastest of some runs, C at -O2, TensorFlow Lite Micro with its reference kernels,
as its Python package has them; *over TFLM*: over the faster of its two rows. *stack*, *code*, *constants*: for a
Cortex-M4 where its compiler is there, otherwise for this machine; constants are weights and the tables of steps. Each
row of C has run its test: `equal` in the last column if all outputs are those of LiteRT's reference kernels.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import int8_networks
from row_tables import print_columns

from moccasin_mzn.base.errors import InputError
from moccasin_mzn.deploy.c.deployment import folder_of, plan_in_order
from moccasin_mzn.deploy.c.network import Network, bytes_of, network_of
from moccasin_mzn.deploy.c.program import Program, program_of
from moccasin_mzn.deploy.source import placed, planned
from moccasin_mzn.deploy.tflite_model import planned_model
from moccasin_mzn.graphs.importers.tflite import graph_of, read_model
from moccasin_mzn.problem.platform import plan_of_sequence
from moccasin_mzn.problem.runtime_plan import RuntimePlan
from moccasin_mzn.search.options import Effort

BUDGETS = {
    "mobilenet_chain": (32_768, 21_504, 16_384, 14_336), "mobilenet": (65_536, 49_152, 40_960, 32_768),
    "person_detection": (32_768, 24_576, 16_384, 12_288), "keyword_spotting": (12_288, 10_240, 8_192, 6_144),
    "resnet8": (32_768, 24_576, 16_384, 12_288),
}  # fmt: skip
"""By network the bytes of arenas, from loose to tight."""
TESTS, REPEATS, ROUNDS = 3, 15, 6
"""Inputs of each test; runs of a process, and processes, `PAUSE` seconds apart; the fastest run counts."""
PAUSE = 0.5
"""Seconds."""
ARM = "arm-none-eabi-gcc"
HEAD = ("network", "what", "arena", "tensors", "steps", "MACs", "ms", "over TFLM", "stack", "code", "constants", "test")
TIMER = r"""
#define _POSIX_C_SOURCE 199309L
#include "model.h"
#include <stdio.h>
#include <time.h>
static INPUT input[SIZE_IN]; static OUTPUT output[SIZE_OUT];
int main(void)
{
    double best = 1e9; int at;
    for (at = 0; at < REPEATS; at++) {
        struct timespec a, b; double seconds;
        clock_gettime(CLOCK_MONOTONIC, &a);
        if (model_invoke(input, output) != 0) { return 1; }
        clock_gettime(CLOCK_MONOTONIC, &b);
        seconds = (double)(b.tv_sec - a.tv_sec) + 1e-9 * (double)(b.tv_nsec - a.tv_nsec);
        best = seconds < best ? seconds : best;
    }
    printf("%.9f\n", best); return 0;
}
"""
MICRO = """
import sys, time, numpy
from tflite_micro.python.tflite_micro import runtime
made = runtime.Interpreter.from_file(sys.argv[1], arena_size=2**23)
about = made.get_input_details(0)
made.set_input(numpy.zeros(about["shape"], about["dtype"]), 0)
best = 1e9
for _ in range(int(sys.argv[2])):
    begin = time.perf_counter(); made.invoke(); best = min(best, time.perf_counter() - begin)
print("seconds", best, flush=True)
made.print_allocations()
"""


@dataclass(frozen=True)
class Row:
    """What was measured of one way to run a network."""

    arena: int
    tensors: int
    seconds: float
    steps: int | None = None
    work: float | None = None
    stack: int | None = None
    code: int | None = None
    constants: int | None = None
    test: str = ""

    def cells(self, network: str, what: str, micro: float | None) -> list[str]:
        def text(value: int | float | None, form: str = ",") -> str:
            return "" if value is None else format(value, form)

        over = "" if micro is None else f"{self.seconds / micro:.2f}"
        return [
            network, what, text(self.arena), text(self.tensors), text(self.steps), text(self.work, ".3f"),
            f"{1000 * self.seconds:.2f}", over, text(self.stack), text(self.code), text(self.constants), self.test,
        ]  # fmt: skip


# --- TensorFlow Lite Micro ------------------------------------------------------------------------------------


def micro_row(path: Path) -> Row | None:
    """TensorFlow Lite Micro's arena by its recording interpreter, and its time; None: its package is not there."""
    command, seconds = [sys.executable, "-c", MICRO, str(path), str(REPEATS)], []
    for _ in range(ROUNDS):
        found = subprocess.run(command, capture_output=True, text=True, check=False)
        if found.returncode:
            return None
        printed = found.stdout + found.stderr
        seconds.append(float(re.search(r"seconds ([\d.e-]+)", printed)[1]))  # type: ignore[index]
        time.sleep(PAUSE)
    arena, head = (int(re.search(rf"{word} (\d+) bytes", printed)[1]) for word in ("total", "head"))  # type: ignore[index]
    return Row(arena, head, min(seconds))


def planned_file(path: Path, effort: Effort) -> Path:
    """The model with the offsets of a plan of whole layers, in the order of the file."""
    model = read_model(path)
    graph = graph_of(model, path.stem)
    plan = placed(RuntimePlan.of(graph, plan_of_sequence(graph.input_order())), 16, effort)
    new = path.with_suffix(".planned.tflite")
    new.write_bytes(planned_model(model, plan))
    return new


# --- C --------------------------------------------------------------------------------------------------------


def c_row(program: Program, folder: Path) -> Row:
    """Build, test and measure a program."""
    network = program.network
    for name, text in folder_of(program, TESTS).items():
        (folder / name).write_text(text)
    tested = subprocess.run(["make", "-s"], cwd=folder, capture_output=True, text=True, check=False)
    test = "equal" if tested.returncode == 0 and f"{TESTS} of {TESTS}" in tested.stdout else "NOT EQUAL"
    ends = sum(map(bytes_of, (*network.inputs, *network.outputs)))
    stack, code, constants = sizes(folder)
    return Row(
        program.arena, program.arena + ends, c_seconds(network, folder), len(program.calls), program.work, stack, code,
        constants, test,
    )  # fmt: skip


def c_seconds(network: Network, folder: Path) -> float:
    """The fastest run at -O2."""
    types = {"INT8": "int8_t", "FLOAT32": "float"}
    (given,), (made,) = network.inputs, network.outputs
    texts = {"INPUT": types[given.kind], "OUTPUT": types[made.kind], "SIZE_IN": str(bytes_of(given)),
             "SIZE_OUT": str(bytes_of(made)), "REPEATS": str(REPEATS)}  # fmt: skip
    defined = [f"-D{name}={text}" for name, text in texts.items()]
    (folder / "timer.c").write_text(TIMER)
    command = ["cc", "-std=c99", "-O2", *defined, "-o", "timer", "timer.c", "model.c", "kernels.c", "-lm"]
    subprocess.run(command, cwd=folder, check=True)
    found = []
    for _ in range(ROUNDS):
        found.append(float(subprocess.run(["./timer"], cwd=folder, capture_output=True, text=True, check=True).stdout))
        time.sleep(PAUSE)
    return min(found)


def sizes(folder: Path) -> tuple[int, int, int]:
    """Stack, code and constants in bytes."""
    arm = shutil.which(ARM) is not None
    compiler = [ARM, "-mcpu=cortex-m4", "-mthumb"] if arm else ["cc", "-fno-pic"]
    subprocess.run(
        [*compiler, "-std=c99", "-O2", "-fstack-usage", "-c", "model.c", "kernels.c"], cwd=folder, check=True
    )
    printed = subprocess.run(
        ["arm-none-eabi-size" if arm else "size", "model.o", "kernels.o"], cwd=folder, capture_output=True, text=True,
        check=True,
    ).stdout.splitlines()[1:]  # fmt: skip
    model, kernels = (list(map(int, line.split()[:3])) for line in printed)
    usage = {}
    for line in ((folder / "model.su").read_text() + (folder / "kernels.su").read_text()).splitlines():
        place, size, _ = line.split("\t")
        name = place.rsplit(":", 1)[-1]
        usage["mc_run" if name.startswith("mc_run") else name] = int(size)
    own = [size for name, size in usage.items() if name.startswith("mc_") and name != "mc_run"]
    helpers = sorted(size for name, size in usage.items() if not name.startswith(("mc_", "model_")))
    stack = usage["model_invoke"] + usage["mc_run"] + max(own) + sum(helpers[-2:])  # two helpers deep at most
    return stack, kernels[0], model[0] + model[1]


def programs(network: Network, budgets: Sequence[int], limit: float, seed: int) -> Iterator[tuple[str, Program | None]]:
    """The network whole, and in parts within budgets; None: no schedule was found."""
    from functools import partial

    from moccasin_mzn.api.question import Question
    from moccasin_mzn.api.solve import answer
    from moccasin_mzn.api.tiling import Target
    from moccasin_mzn.base.option import flag
    from moccasin_mzn.search.call import Call

    yield "C whole", program_of(network, network.graph, plan_in_order(network.graph, 1, Effort(10.0)))
    how = {"time_limit": limit, "seed": seed, "threads": 2}
    for budget in budgets:
        question = Question(budget, tile="auto", addresses=True, how=how, spelled=flag)
        note = partial(print, file=sys.stderr)
        call = Call()
        result = answer(question.request(network.graph, note, target=Target(network.cut)), call)
        what = f"C within {budget:,}"
        yield what, program_of(network, result.problem.graph, planned(result)) if result.valid else None


def measured(name: str, path: Path, budgets: Sequence[int], arguments: argparse.Namespace) -> Iterator[list[str]]:
    """The rows of a network."""
    network = network_of(read_model(path), name)
    micro = micro_row(path)
    if micro is None:
        yield [name, "TensorFlow Lite Micro: not installed, or does not run it", *[""] * (len(HEAD) - 2)]
    else:
        ours = micro_row(planned_file(path, Effort(10.0)))
        both = {"TFLM": micro, "TFLM, our plan": ours}
        micro = min((row for row in both.values() if row is not None), key=lambda row: row.seconds)
        yield from (row.cells(name, what, micro.seconds) for what, row in both.items() if row is not None)
    for what, program in programs(network, budgets, arguments.time_limit, arguments.seed):
        if program is None:
            yield [name, what, "none found", *[""] * (len(HEAD) - 3)]
            continue
        with tempfile.TemporaryDirectory() as folder:
            yield c_row(program, Path(folder)).cells(name, what, None if micro is None else micro.seconds)


def main(given: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("networks", nargs="*", help="names, NAME@BYTES, or MODEL.tflite@BYTES")
    parser.add_argument("--time-limit", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args(given)
    print_columns(HEAD, rows(arguments))


def rows(arguments: argparse.Namespace) -> Iterator[list[str]]:
    """The rows of all networks, or why there are none."""
    for one in arguments.networks or BUDGETS:
        name, _, budget = one.partition("@")
        budgets = (int(budget),) if budget else BUDGETS.get(name, ())
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / f"{Path(name).stem}.tflite"
            try:
                path.write_bytes(int8_networks.NETWORKS[name]() if name in BUDGETS else Path(name).read_bytes())
                yield from measured(Path(name).stem, path, budgets, arguments)
            except (InputError, OSError) as error:
                yield [Path(name).stem, str(error), *[""] * (len(HEAD) - 2)]


if __name__ == "__main__":
    main()
