"""The size of each formulation, counted in the FlatZinc of an instance, and its order of growth (paper, 2.5)."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

from moccasin_mzn.base.files import JsonObject
from moccasin_mzn.formulations.catalogue import formulations
from moccasin_mzn.formulations.formulation import Formulation, Growth
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.solvers.flatzinc.parser import parse
from moccasin_mzn.solvers.flatzinc.syntax import FlatZinc, IntSet
from moccasin_mzn.solvers.minizinc.run import compile_model, dzn_text
from moccasin_mzn.solvers.minizinc.solvers import Backend

KINDS_SHOWN = 3
UNKNOWN = Growth("-", "-", "-", "-")
"""The growth of a model of one's own, which is not known."""


@dataclass(frozen=True)
class ModelSize:
    """What is in the FlatZinc of one formulation; constants and fixed variables do not count."""

    formulation: str
    growth: Growth
    booleans: int
    """Bools, and integers of two values 0 and 1."""
    integers: int
    """All others."""
    largest_domain: int
    """Values of the largest domain of an event or stage; without the total duration and without amounts of memory."""
    mean_domain: float
    constraints: int
    kinds: tuple[tuple[str, int], ...]
    """The most frequent constraints, by FlatZinc name."""
    megabytes: float
    """The size of the FlatZinc text, in units of 10^6 bytes."""

    def as_dict(self) -> JsonObject:
        """The object that `complexity --json` prints for it."""
        return asdict(self)


def sizes(instance: Instance, backend: Backend, own: Sequence[Formulation] = ()) -> Iterator[ModelSize]:
    """Compile each formulation for the solver of `backend`, without a warm start, and count.

    Args:
        instance: its `max_computations` is for MOCCASIN; the baselines have no limit.
        own: further formulations, with models of one's own.

    Raises:
        SolverError: MiniZinc failed, or already finds that there is no schedule.
    """
    ours = ((*named, named[1].growth) for form in formulations() for named in form.forms())
    for name, form, growth in itertools.chain(ours, ((form.called, form, UNKNOWN) for form in own)):
        data = form.data(instance)
        text = compile_model(backend, form.program, dzn_text(form.data_items(instance.graph, data)))
        yield _counted(name, growth, parse(text, name), len(text))


def _counted(name: str, growth: Growth, file: FlatZinc, length: int) -> ModelSize:
    booleans, integers, domains = 0, 0, []
    events = _event_variables(file)
    for variable in file.variables.values():
        if variable.value is not None:
            continue
        domain = variable.domain if isinstance(variable.domain, IntSet) else None
        size = None if domain is None else sum(high - low + 1 for low, high in domain.ranges)
        if variable.is_bool or (domain is not None and size == 2 and 0 in domain and 1 in domain):
            booleans += 1
        elif size != 1:
            integers += 1
            if variable.name in events and size is not None:
                domains.append(size)
    kinds = Counter(constraint.name for constraint in file.constraints)
    return ModelSize(
        formulation=name,
        growth=growth,
        booleans=booleans,
        integers=integers,
        largest_domain=max(domains, default=0),
        mean_domain=sum(domains) / len(domains) if domains else 0.0,
        constraints=len(file.constraints),
        kinds=tuple(kinds.most_common(KINDS_SHOWN)),
        megabytes=length / 1e6,
    )


def _event_variables(file: FlatZinc) -> set[str]:
    """Names of the elements of `start` and `end`, which are events."""
    arrays = [file.arrays[name].elements for name in ("start", "end") if name in file.arrays]
    return {element for elements in arrays for element in elements if isinstance(element, str)}


# --- Is the model of a whole instance too large for memory or for the time? -----------------------------------


MODEL_READS = 100_000
"""Reads by copies (edges times the square of C) of the largest instance whose whole model is tried at all: some GB."""
READS_PER_SECOND = 1_000
"""About how many of them are compiled in a second."""
COMPILING_SHARE = 0.25
"""The share of the time left that compiling the whole model may take."""


def reads_by_copies(instance: Instance) -> int:
    """The size of the whole model, but for a factor: for each edge, pairs of copies of its two nodes."""
    most = instance.max_computations
    if isinstance(instance.counts, int):
        return most[0] ** 2 * len(instance.graph.edges)
    return sum(most[u] * most[v] for u, v in instance.graph.edges)


def why_too_large(instance: Instance, seconds: float | None) -> str | None:
    """Why the whole model is left out, as the beginning of a note; None: it is not.

    Args:
        seconds: that are left for compiling and solving; None: no limit.
    """
    reads = reads_by_copies(instance)
    if reads <= MODEL_READS and (seconds is None or reads <= READS_PER_SECOND * COMPILING_SHARE * seconds):
        return None
    time = "" if reads > MODEL_READS else f" for {max(0.0, seconds or 0.0):.0f} s"
    pairs = f"{reads:,} pairs of computations of which one may read the other"
    return f"the whole model is left out, as {pairs} are too many{time}"
