"""`moccasin_mzn.solve` with the result as searches give it."""

from __future__ import annotations

from moccasin_mzn.api.request import prepared
from moccasin_mzn.api.solve import answer


def solve(graph, budget, *, order="input", count_fixed=False, on_progress=None, **given):
    given = {name: value for name, value in given.items() if value is not None}
    return answer(prepared(given)(graph, budget=budget, order=order, count_fixed=count_fixed), on_progress)
