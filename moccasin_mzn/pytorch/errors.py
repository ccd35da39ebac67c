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


class NoPlanError(PlanError):
    """No plan within the budget was found; the message names what is proven."""

    kind = "no-plan"

    def __init__(self, message: str, page: Page = Page.NO_PLAN) -> None:
        super().__init__(message, page)


class NoTimeError(NoPlanError):
    """The time limit was over before anything was known of a plan; the message names what took it."""


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
