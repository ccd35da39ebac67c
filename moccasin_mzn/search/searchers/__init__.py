"""The searches that there are, in the order in which they start. A new one is a class and an entry here."""

from __future__ import annotations

from moccasin_mzn.search.runner import Searcher
from moccasin_mzn.search.searchers.along import AlongInputOrder, AlongOrders, AlongStages
from moccasin_mzn.search.searchers.any_order import Annealing, FlowCovers, Proof, Starts
from moccasin_mzn.search.searchers.given_order import Local, Relaxation
from moccasin_mzn.search.searchers.model import Model
from moccasin_mzn.search.searchers.plans import PlanSearch

SEARCHERS: tuple[Searcher, ...] = (
    Local(), Relaxation(), AlongStages(), Annealing(), Starts(), FlowCovers(), Proof(), AlongInputOrder(),
    AlongOrders(), PlanSearch(), Model(),
)  # fmt: skip
