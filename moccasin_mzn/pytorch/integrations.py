"""Plans in the loops of libraries: one line, and the first batch of each shape is planned when it comes. ::

Plans(model, budget="8GiB").install()                               a loop of your own, Accelerate, DDP
Trainer(..., callbacks=[TransformersCallback(budget="8GiB")])       transformers
Trainer(callbacks=[LightningCallback(budget="8GiB")])               Lightning
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from moccasin_mzn.base.arguments import check_keywords
from moccasin_mzn.base.doc_links import Page
from moccasin_mzn.base.errors import InputError
from moccasin_mzn.problem.budget import Budget
from moccasin_mzn.pytorch.call import Step
from moccasin_mzn.pytorch.errors import PlanError
from moccasin_mzn.pytorch.loops import ByShape, Installed, install, planned_module, remove
from moccasin_mzn.pytorch.planning import plan
from moccasin_mzn.pytorch.plans import Plan
from moccasin_mzn.pytorch.trust import Checks, checked_every
from moccasin_mzn.search.options import model_options

if TYPE_CHECKING:
    import torch
    from torch.utils._pytree import PyTree

    LightningCallback: type[Any]
    TransformersCallback: type[Any]

AskedBudget = str | int | float | Fraction | Budget


class Plans:
    """Plans of a network for the shapes that come, and the modes that it is in then: each is made with the first batch
    of its shape, and where nothing has to be recomputed to stay within the budget, the network runs as it is."""

    def __init__(
        self, model: torch.nn.Module, *, budget: AskedBudget, check_every: int | None = None, **options: Any
    ) -> None:
        """Make a plan for nothing yet.

        Args:
            budget: see `plan`; a fraction, or "least", is of the first batch, and becomes an amount for the others.
            check_every: a number of steps, the last of which is compared to the step as it is before it is run, both on
                copies of the state; a PlanError is raised if it differs. It takes the memory of the step without a plan
                and the time of two steps. None: only a first step of each plan is compared, see `plan`.
            options: others of `plan`, but for the inputs.

        Raises:
            InputError: the network is not a module, or compiled, or `check_every` is no number of steps.
            TypeError: an option is unknown.
        """
        known = {*inspect.signature(plan).parameters} - {"model", "inputs", "kwargs", "shapes", "how"}
        check_keywords("Plans", options, [*known, *model_options()])
        self.model, self.budget, self.options = model, budget, options
        self._step = Step(model, options.get("loss"))
        self._checks = Checks(checked_every(check_every), options.get("verify", True))
        self._run: ByShape | None = None
        self._installed: Installed | None = None

    @property
    def plans(self) -> tuple[Plan, ...]:
        """The plans that were made, by the order in which their shapes came."""
        return () if self._run is None else tuple(each for each in self._run.plans if isinstance(each, Plan))

    def _plan(self, args: tuple[PyTree, ...], kwargs: dict[str, PyTree], budget: int | None) -> Plan:
        return plan(self.model, args, kwargs=kwargs, budget=self.budget if budget is None else budget, **self.options)

    def _by_shape(self, original: Callable[..., PyTree], installed: bool) -> ByShape:
        return ByShape(self.model, self._plan, original, self.plans, installed, self._checks)

    def module(self) -> torch.nn.Module:
        """A module to train with in place of the network, see `Plan.module`."""
        self._run = self._by_shape(self._step, installed=False)
        return planned_module(self.model, self._run, has_loss=self._step.loss is not None)

    def install(self) -> Plans:
        """Let the network's own `forward` run the plans, until `remove`; returns this.

        Raises:
            PlanError: the network has a plan already, or hooks, or the loss is part of the plans.
        """
        if self._step.loss is not None:
            raise PlanError("the loss is part of the plan, the network returns none: use module()")
        run = self._by_shape(self.model.forward, installed=True)
        self._installed = install(self.model, run)
        self._run = run
        return self

    def remove(self) -> None:
        """Give the network its own `forward` back.

        Raises:
            PlanError: nothing is installed.
        """
        remove(self.model, self._installed)
        self._installed = None


class _WhileTraining:
    """Plans that are installed while a library trains."""

    def __init__(self, *, budget: AskedBudget, **options: Any) -> None:
        self.budget, self.options = budget, options
        self.plans: Plans | None = None
        """The plans of the last training."""

    def _begin(self, model: torch.nn.Module) -> None:
        self.plans = Plans(model, budget=self.budget, **self.options).install()

    def _end(self) -> None:
        if self.plans is not None and self.plans._installed is not None:
            self.plans.remove()

    def _check_called(self, what: str) -> None:
        """Refuse a training that goes on without the plans.

        Raises:
            PlanError: the network that they are installed in was not called.
        """
        if self.plans is not None and not self.plans.plans:
            self._end()
            raise PlanError(what, Page.TRAINER)


# --- Callbacks of libraries: classes that are made when they are asked for, as their bases are the libraries' -----


@cache
def _transformers() -> type[Any]:
    from transformers import TrainerCallback

    class TransformersCallback(_WhileTraining, TrainerCallback):
        """Has a Trainer of transformers train within a budget: the arguments are those of `Plans` but the network."""

        def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            self._end()  # of a training that has ended by an error
            self._begin(kwargs["model"])

        def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            self._check_called(
                "the trainer does not call the network that it was given: install Plans in the one it calls"
            )

        def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            self._end()

    return TransformersCallback


@cache
def _lightning() -> type[Any]:
    name = "lightning.pytorch" if find_spec("lightning") else "pytorch_lightning"
    library: Any = import_module(name)

    class LightningCallback(_WhileTraining, library.Callback):
        """Has a Trainer of Lightning train within a budget."""

        def __init__(self, *, budget: AskedBudget, submodule: str | None = None, **options: Any) -> None:
            """Make the callback.

            Args:
                budget: see `Plans`, also for the options.
                submodule: name of the network that `training_step` calls; None: the one that has all parameters, or the
                    LightningModule itself, if it has a `forward`.
            """
            super().__init__(budget=budget, **options)
            self.submodule = submodule

        def on_train_start(self, trainer: Any, module: Any) -> None:
            self._begin(_inner(module, self.submodule, library.LightningModule.forward))

        def on_train_batch_end(self, *args: Any, **kwargs: Any) -> None:
            self._check_called("training_step does not call the network that is planned: name it by submodule=")

        def on_train_end(self, *args: Any) -> None:
            self._end()

        def on_exception(self, *args: Any) -> None:
            self._end()

    return LightningCallback


def _inner(module: torch.nn.Module, name: str | None, none: object) -> torch.nn.Module:
    """The network within a LightningModule.

    Args:
        name: of it; None: it is found.
        none: the `forward` of a module that has none of its own.

    Raises:
        InputError: it cannot be found.
    """
    if name is not None:
        return module.get_submodule(name)
    own = {id(each) for each in module.parameters()}
    for child in module.children():
        if own and own == {id(each) for each in child.parameters()}:
            return child
    if type(module).forward is not none:
        return module
    raise InputError(Page.TRAINER.after("several modules have parameters: name the one that is called by submodule="))


_CLASSES = {"LightningCallback": _lightning, "TransformersCallback": _transformers}


def __getattr__(name: str) -> type[Any]:
    if name not in _CLASSES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    made = _CLASSES[name]()
    made.__module__, made.__qualname__ = __name__, name  # where pickle finds it
    return made
