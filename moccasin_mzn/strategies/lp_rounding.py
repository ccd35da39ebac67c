"""Checkmate's approximation (Jain et al., MLSys 2020, section 5): the linear relaxation of its MILP, rounded.

The relaxation, at a budget smaller by a share EPSILON, gives in fractions which outputs S* are kept between stages.
What is kept at least to a threshold is kept, everything else is dropped; then the least recomputation is added that
makes it a schedule. Rounding may miss the budget: the share only makes that less likely.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from moccasin_mzn.base.errors import InputError
from moccasin_mzn.formulations import find_formulation
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.strategies.strategy import Stop, Strategy, complete, sequence_of

EPSILON = 0.1
"""Share of the budget that the relaxation does without, as published."""
THRESHOLDS = tuple(tenth / 10 for tenth in range(1, 10))


def lp_rounding(instance: Instance, stop: Stop) -> Iterator[Sequence[int]]:
    """One schedule for each threshold, from the relaxation at (1 - EPSILON) M, or at M if that is infeasible.

    None if even that is infeasible, as then there is no staged schedule at all, or if time is up.

    Raises:
        InputError: MiniZinc is missing, or it or the LP solver failed.
    """
    for budget in (int((1 - EPSILON) * instance.budget), instance.budget):
        kept = relaxed_keeping(replace(instance, budget=budget), stop)
        if kept is not None or stop():
            break
    if kept is None:
        return
    for threshold in THRESHOLDS:
        computed = complete(instance.graph, instance.order, kept >= threshold)
        yield sequence_of(instance.order, computed)


def relaxed_keeping(instance: Instance, stop: Stop) -> np.ndarray | None:
    """S* of the relaxation, n x n fractions: how much of output i is kept from stage t - 1 into stage t.

    None if the relaxation is infeasible, or time is up.
    """
    from moccasin_mzn.base.environment import StoppedError
    from moccasin_mzn.solvers.flatzinc.parser import parse
    from moccasin_mzn.solvers.linear.isolated import RelaxationError, relaxed_values
    from moccasin_mzn.solvers.minizinc.run import compile_model, dzn_text
    from moccasin_mzn.solvers.minizinc.solvers import find_backend

    form = find_formulation("checkmate-milp")
    data = form.data(instance)
    text = dzn_text(form.data_items(instance.graph, data))
    try:
        flat = compile_model(find_backend("highs"), form.file, text, stop)
        value = relaxed_values(flat, stop)
    except StoppedError:
        return None
    except RelaxationError as error:
        raise InputError(f"the linear relaxation: {error}") from None
    if value is None:
        return None
    n, elements = len(instance.order), parse(flat).arrays["S"].elements
    kept = [value[item] if isinstance(item, str) else float(item) for item in elements]
    return np.array(kept).reshape(n, n)


LP_ROUNDING = Strategy(
    name="checkmate-lp-rounding",
    title="Checkmate's LP relaxation, rounded at nine thresholds",
    source="Jain et al., MLSys 2020, section 5",
    guarantee="none: a rounded schedule may exceed the budget",
    schedules=lp_rounding,
    family="rounding",
)

STRATEGIES = (LP_ROUNDING,)
