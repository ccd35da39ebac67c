"""The exception for what a plan cannot do, or is not for."""

from __future__ import annotations

from moccasin_mzn.doc_links import Page
from moccasin_mzn.errors import InputError


class PlanError(InputError):
    """A network that cannot be planned, a budget that cannot be kept, or a call that a plan is not for.

    The message is one sentence, and names the page that has more.
    """

    kind = "plan"

    def __init__(self, message: str, page: Page = Page.REFUSED) -> None:
        super().__init__(page.after(message))

    @property
    def reason(self) -> str:
        """The message without the page."""
        return Page.before(str(self))


class UntraceableError(PlanError):
    """The code of a network cannot be planned as a whole; parts of it may be, see `regions`."""


class NothingToPlanError(PlanError):
    """Nothing has a backward pass, as in inference, for which other commands are made."""

    def __init__(self, message: str, page: Page = Page.REFUSED) -> None:
        inference = (
            "inference in less memory is for the ONNX model of the network: moccasin-mzn deploy onnx MODEL.onnx "
            "--budget 0.5 --order free -o NEW.onnx, or with --tile auto in parts"
        )
        super().__init__(message if inference in message else f"{message}; {inference}", page)


def check_gradients_on() -> None:
    """Refuse to plan where PyTorch records nothing for a backward pass.

    Raises:
        NothingToPlanError: gradients are off, or inference mode is on.
    """
    import torch

    if torch.is_inference_mode_enabled() or not torch.is_grad_enabled():
        off = "torch.inference_mode()" if torch.is_inference_mode_enabled() else "torch.no_grad()"
        raise NothingToPlanError(f"this is under {off}, and a plan is for a training step: make it outside")


class NoPlanError(PlanError):
    """No plan within the budget was found; the message names what is proven."""

    kind = "no-plan"

    def __init__(self, message: str, page: Page = Page.NO_PLAN) -> None:
        super().__init__(message, page)


class OtherValueError(PlanError):
    """A step reads another value than when its plan was made."""

    def __init__(self, message: str, page: Page = Page.READ_VALUES) -> None:
        super().__init__(message, page)


def compilation_error(error: PlanError) -> PlanError:
    """The same error in a form that `torch.compile` passes on unchanged, instead of wrapping it in one of its own."""
    from torch._dynamo.exc import ShortenTraceback

    class CompilationPlanError(type(error), ShortenTraceback):  # type: ignore[misc]
        def __init__(self, message: str) -> None:
            ShortenTraceback.__init__(self, message, first_useful_frame=None)

    return CompilationPlanError(str(error))
