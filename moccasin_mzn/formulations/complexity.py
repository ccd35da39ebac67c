"""The size of each formulation, counted in the FlatZinc of an instance, beside its order of growth (paper, 2.5)."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

from moccasin_mzn.files import JsonObject
from moccasin_mzn.formulations.catalogue import formulations
from moccasin_mzn.formulations.formulation import Formulation, Growth
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.solvers.flatzinc.parser import parse
from moccasin_mzn.solvers.flatzinc.syntax import FlatZinc, IntSet
from moccasin_mzn.solvers.minizinc.run import compile_model, dzn_text
from moccasin_mzn.solvers.minizinc.solvers import Backend

KINDS_SHOWN = 3
UNKNOWN = Growth("-", "-", "-", "-")
"""Of a model of one's own, whatever it is like."""


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
    """Of the FlatZinc text."""

    def as_dict(self) -> JsonObject:
        """The object that `complexity --json` prints for it."""
        return asdict(self)


def sizes(instance: Instance, backend: Backend, own: Sequence[Formulation] = ()) -> Iterator[ModelSize]:
    """Compile each formulation for the solver of `backend`, without a warm start, and count.

    Args:
        instance: its `max_computations` is for MOCCASIN; the rivals have no limit.
        own: others beside them, models of one's own.

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
