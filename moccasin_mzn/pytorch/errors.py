"""The exception for what a plan cannot do, or is not for."""

from __future__ import annotations

from moccasin_mzn.base.doc_links import Page
from moccasin_mzn.base.errors import InputError
from moccasin_mzn.base.log import note


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
        super().__init__(message if _INFERENCE in message else f"{message}; {_INFERENCE}", page)


_INFERENCE = (
    "inference in less memory is for the ONNX model of the network: moccasin-mzn deploy onnx MODEL.onnx --budget 0.5 "
    "--order free -o NEW.onnx, or with --tile auto in parts"
)


def check_grad_mode() -> None:
    """Refuse inference mode, in which no tensor can be part of a backward pass; note where gradients are off.

    Raises:
        NothingToPlanError: inference mode is on.
    """
    import torch

    if torch.is_inference_mode_enabled():
        text = "this is under torch.inference_mode(), and a plan is for a training step: make it outside"
        raise NothingToPlanError(text)
    if not torch.is_grad_enabled():
        note(
            f"this is under torch.no_grad(): a plan is for a training step, which is traced all the same; {_INFERENCE}"
        )


class NoPlanError(PlanError):
    """No plan within the budget was found; the message names what is proven."""

    kind = "no-plan"

    def __init__(self, message: str, page: Page = Page.NO_PLAN) -> None:
        super().__init__(message, page)


class NoTimeError(NoPlanError):
    """The time limit was over before anything was known of a plan; the message names what took it."""


class OtherCallError(PlanError):
    """A call that a plan is not for: of other tensors, in another mode, or with other values."""


class OtherValueError(OtherCallError):
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
