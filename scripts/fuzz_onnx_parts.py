"""Random ONNX networks in parts, next to the networks themselves in ONNX Runtime: equal, or refused.

    python scripts/fuzz_onnx_parts.py [--networks 600] [--seed 0] [--keep FOLDER]

Network k is that of the seed `--seed` + k: `--networks 1 --seed K` runs one again, and prints what was done to it. Each
runs whole, in the order of its file and in a random schedule that recomputes, and in parts three times: cut at random,
in rows or tiles of the command's own, and what these become with operators in place. Outputs have to be the same bit
for bit where sums are exact, else within the rounding that `deploy onnx` accepts; shapes and peaks have to be those
that are planned. One line for each network that is not equal; then how many are equal, refused, different.

- equal: the new model ran, with the planned peak
- refused: a sentence before anything was run, or what the check of `deploy onnx` does not write
- different: what would have been written without it being noticed
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import numpy
import onnx
from onnx_networks import Network, network

from moccasin_mzn.base.errors import InputError
from moccasin_mzn.deploy.onnx_comparing import Reference, reference_of
from moccasin_mzn.deploy.onnx_deployment import Source, deploy, in_parts, read_source
from moccasin_mzn.deploy.onnx_tiling import possible_cuts, tiled_model
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.graphs.importers.onnx.file import OnnxImport
from moccasin_mzn.graphs.tiling.choosing import tilings
from moccasin_mzn.graphs.tiling.cutting import Cuts

EQUAL = "equal"


def results(net: Network, folder: Path, verbose: bool = False) -> Iterator[str]:
    """What became of a network: `EQUAL`, or why not, whole and in parts."""
    path, pick = folder / "network.onnx", random.Random(0)
    onnx.save(net.model(), path)
    numpy.savez(folder / "inputs.npz", x=net.values["x"])
    try:
        whole = read_source(path, OnnxImport(isolated=False))
        former = reference_of(whole.model, folder=folder, inputs=folder / "inputs.npz")
    except InputError as error:
        yield f"refused: {error}"
        return
    for report in former.unlike().values():
        yield f"shape: {report}"
    exact = all(
        value.name in net.exact or net.values[value.name].dtype.kind in "iub" for value in whole.model.graph.output
    )
    yield verdict(whole, former, whole.graph.input_order(), exact)
    yield verdict(whole, former, random_schedule(whole.graph, pick), exact)
    wanted = random_cuts(whole.trace.graph, pick)
    cuts = possible_cuts(whole.model, whole.trace.graph, whole.trace.operators, wanted)
    tiled, _ = tiled_model(whole.model, {whole.trace.operators[v]: own for v, own in cuts.items()})
    if verbose:
        labels = whole.trace.graph.labels or ()
        print(*(f"{labels[v]} {whole.trace.graph.nodes[v]}: {dict(own)}" for v, own in cuts.items()), sep="\n")
    yield compared(former, tiled, None, exact)
    choices = list(tilings(whole.trace.graph, max(whole.graph.working_sets)))
    for in_place in (False, True):
        parts = in_parts(replace(whole, in_place=in_place), pick.choice(choices) if choices else {})
        yield verdict(parts, replace(former, in_place=in_place), random_schedule(parts.graph, pick), exact)


def verdict(source: Source, former: Reference, sequence: tuple[int, ...], exact: bool) -> str:
    """What the check of `deploy onnx` makes of a schedule."""
    try:
        deployed = deploy(source, sequence)
    except InputError as error:
        return f"refused: {error}"
    return compared(former, deployed.model, deployed.planned_values, exact)


def compared(former: Reference, new: onnx.ModelProto, planned: int | None, exact: bool) -> str:
    try:
        found = former.compared(new)
    except InputError as error:
        return f"refused by the check: {error}"
    if not found.equal and not found.is_rounded:
        return f"refused by the check: outputs differ by {found.rounding:.3g} units"
    if exact and not found.equal:
        return f"different: exact outputs, by {found.rounding:.3g} units"
    if planned is not None and found.peak > planned:
        return f"refused by the check: peak {found.peak}, planned {planned}"
    if planned is not None and found.peak < planned and found.late is None:
        return f"peak: {found.peak} measured, {planned} planned"
    return EQUAL


def random_cuts(graph: ComputationGraph, pick: random.Random) -> Mapping[int, Cuts]:
    """Cuts along up to two axes each."""
    cuts: dict[int, dict[int, tuple[int, ...]]] = {}
    for v, operator in enumerate(graph.operators or ()):
        axes = [axis for axis, extent in enumerate(operator.shape) if extent > 1] if operator is not None else []
        for axis in pick.sample(axes, min(len(axes), pick.randint(0, 2))):
            extent = operator.shape[axis]
            inner = {pick.randint(1, extent - 1) for _ in range(pick.randint(1, 3))}
            cuts.setdefault(v, {})[axis] = (0, *sorted(inner), extent)
    return cuts


def random_schedule(graph: ComputationGraph, pick: random.Random) -> tuple[int, ...]:
    """All nodes in a random order, some of them recomputed, further outputs with the first one."""
    further = graph.output_of or (None,) * len(graph.nodes)
    with_it = {v: [u for u, first in enumerate(further) if first == v] for v in range(len(graph.nodes))}
    once = set(graph.computed_once)
    done: set[int] = set()
    sequence: list[int] = []
    while len(done) < len(graph.nodes):
        ready = [v for v in range(len(graph.nodes)) if further[v] is None and set(graph.predecessors[v]) <= done]
        new = [v for v in ready if v not in done]
        again = [v for v in ready if v in done and v not in once]
        v = pick.choice(again if again and pick.random() < 0.2 else new)
        sequence += [v, *with_it[v]]
        done.update((v, *with_it[v]))
    return tuple(sequence)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--networks", type=int, default=600)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", type=Path, help="a folder for the networks that are not equal")
    arguments = parser.parse_args()
    counts: Counter[str] = Counter()
    wrong = 0
    for seed in range(arguments.seed, arguments.seed + arguments.networks):
        net = network(seed)
        with tempfile.TemporaryDirectory() as folder:
            found = [*results(net, Path(folder), arguments.networks == 1)]
            others = [each.replace(f"{folder}/", "") for each in found if each != EQUAL]
            if others and arguments.keep is not None:
                arguments.keep.mkdir(parents=True, exist_ok=True)
                (arguments.keep / f"{seed}.onnx").write_bytes((Path(folder) / "network.onnx").read_bytes())
        counts[others[0].partition(": ")[0] if others else EQUAL] += 1
        counts["models"] += len(found)
        wrong += any(each.startswith("different") for each in others)
        for each in dict.fromkeys(others):
            print(f"{seed}: {each}", flush=True)
    print(f"{arguments.networks} networks, {counts.pop('models'):,} models: {dict(counts)}, different {wrong}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
