"""Solvers of 32-bit integers: what they cannot count is refused at once, and what is just small enough they solve."""

from __future__ import annotations

import pytest
from few import few
from others import native, webassembly
from solving import solve
from tiny_graphs import SKIP

from moccasin_mzn.base.doc_links import Page
from moccasin_mzn.base.errors import InputError
from moccasin_mzn.formulations import find_formulation
from moccasin_mzn.graphs.formats import write_graph
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.solvers.minizinc.solvers import LARGEST

FORMS = ("staged", "general", "checkmate-milp", "checkmate-milp-strengthened")
SEVERAL = ("--paging", "--page-out-time", "1", "--page-in-time", "1")


def sums(graph, budget, form="staged"):
    """The largest sums of a model, by name."""
    formulation = find_formulation(form)
    instance = Instance.build(graph, budget, max_computations=2 if formulation.limited else "unlimited")
    return {one.what: sum(one.terms) for one in formulation.sums(formulation.data(instance))}


def stretched(what, factor):
    """`SKIP` with durations or sizes so much larger, but with nothing in common; and a budget that 8 stands for."""
    amounts = [factor * amount + (v == 0) for v, amount in enumerate(getattr(SKIP, what))]
    parts = {"durations": SKIP.durations, "sizes": SKIP.sizes, what: tuple(amounts)}
    return ComputationGraph(SKIP.nodes, parts["durations"], parts["sizes"], SKIP.edges), (
        8 * factor + 1 if what == "sizes" else 8
    )


def at_the_edge(what, form):
    """The least factor with which a sum does not fit."""
    low, high = 1, LARGEST
    while low < high:
        middle = (low + high) // 2
        if max(sums(*stretched(what, middle), form).values()) > LARGEST:
            high = middle
        else:
            low = middle + 1
    return low


def solved(graph, budget, solver, form):
    return solve(graph, budget, solver=solver, formulation=form, search="off", time_limit=120)


@pytest.mark.full
@native
@pytest.mark.parametrize("what", few(["durations", "sizes"], keep=1))
@pytest.mark.parametrize("form", few(FORMS, keep=1))
def test_integers_at_the_limit_of_32_bits_are_solved_and_above_it_refused(what, form):
    factor = at_the_edge(what, form)
    fits, wide = stretched(what, factor - 1), stretched(what, factor)
    found, right = (solved(*fits, solver, form) for solver in ("gecode", "cp-sat"))
    assert (found.status, found.duration) == (right.status, right.duration) == ("optimal", right.bound)
    with pytest.raises(InputError) as caught:
        solved(*wide, "gecode", form)
    total = max(sums(*wide, form).values())
    told = str(caught.value)
    assert told.startswith(
        f"solver gecode has integers of 32 bits, up to {LARGEST}: the total {what[:-1]} in the model "
    )
    assert f" may be {total}, " in told and " of it of node " in told
    assert told.endswith(Page.SOLVERS.after("; cp-sat, highs and scip can count that far"))
    assert solved(*wide, "cp-sat", form).status == "optimal"


@webassembly
@pytest.mark.slow
@pytest.mark.parametrize("what", ["durations", "sizes"])
@pytest.mark.parametrize("form", ["staged", "general"])
@pytest.mark.parametrize("solver", ["chuffed", "gecode_presolver"])
def test_other_solvers_of_32_bits_refuse_the_same(what, form, solver):
    factor = at_the_edge(what, form)
    found, right = (solved(*stretched(what, factor - 1), name, form) for name in (solver, "cp-sat"))
    assert (found.status, found.duration) == (right.status, right.duration)
    with pytest.raises(InputError, match=f"^solver {solver} has integers of 32 bits"):
        solved(*stretched(what, factor), solver, form)


@native
def test_amounts_count_as_the_model_has_them():
    factor = 10**12
    scaled = ComputationGraph(
        SKIP.nodes, [factor * w for w in SKIP.durations], [factor * m for m in SKIP.sizes], SKIP.edges
    )
    result = solve(scaled, 8 * factor, solver="gecode", search="off", time_limit=60)
    assert (result.status, result.duration) == ("optimal", 14 * factor)


@native
@pytest.mark.parametrize(
    "options",
    [
        ("--solver", "gecode"),
        ("--solver", "cp"),  # a tag of Gecode's
        ("--solver", "cp-sat,gecode"),
        ("--solver", "gecode", "--order", "free"),
        ("--solver", "gecode", *SEVERAL),
        ("--solver", "gecode", "--search", "off", *SEVERAL),
    ],
    ids=" ".join,
)
def test_too_large_integers_are_refused_before_any_search(tmp_path, command, options):
    graph, budget = stretched("durations", 10**9)
    write_graph(graph, tmp_path / "wide.json")
    status, out, err = command("solve", tmp_path / "wide.json", "--budget", budget, *options)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert " has integers of 32 bits, " in err and " of it of node x; " in err
