"""The pages that messages name: each explains at length what a message states in one line."""

from __future__ import annotations

from enum import Enum


class Page(Enum):
    """A page, or a section of one: its heading, and where it is in the checkout. The site has it at the same place."""

    QUICK_START = "Quick start", "docs/quick-start.md"
    TRAINING = "Training within a memory budget", "docs/training.md"
    GUIDE = "User guide", "docs/user-guide.md"
    INFEASIBLE = "Infeasible budgets", "docs/infeasible.md"

    INSTALL = "Install", "docs/user-guide.md#install"
    AMOUNTS = "Amounts", "docs/user-guide.md#amounts"
    ONNX = "ONNX", "docs/graphs.md#onnx"
    PYTORCH = "PyTorch", "docs/graphs.md#pytorch"
    FEATURES = "Features", "docs/features.md"
    GRAPH_FILES = "Graph files", "docs/graphs.md#graph-files"
    PLAN_FORMAT = "The plan format", "docs/deploy.md#the-plan-format"
    FORMULATIONS = "Formulations", "docs/methods.md#formulations"
    STRATEGIES = "Strategies", "docs/methods.md#strategies"
    SOLVERS = "More solvers", "docs/flatzinc.md#more-solvers"
    FLOATING_POINT = "Proofs in floating point", "docs/flatzinc.md#proofs-in-floating-point"
    OWN_MODEL = "How to write one", "models/README.md#how-to-write-one"
    COMPUTED = "What is computed", "docs/correctness.md#what-is-computed"
    CERTIFICATES = "Certificates", "docs/correctness.md#certificates"
    EXPERIMENT = "An experiment", "docs/experiments.md#an-experiment"
    DEVICES = "Several devices", "docs/beyond-the-paper.md#several-devices"
    POOLS = "Several memories of one device", "docs/beyond-the-paper.md#several-memories-of-one-device"
    ADDRESSES = "Addresses", "docs/beyond-the-paper.md#addresses"
    TRAINER = "A Trainer script", "docs/training.md#a-trainer-script"
    SHAPES = "Several shapes", "docs/training.md#several-shapes"
    KEPT_PLANS = "Keeping plans", "docs/training.md#keeping-plans"
    DIFFERENTIATED = "What gets a gradient", "docs/training.md#what-gets-a-gradient"
    READ_VALUES = "Values that are read", "docs/training.md#values-that-are-read"
    SAME = "Is it the same?", "docs/training.md#is-it-the-same"
    REGIONS = "Regions", "docs/training.md#regions"
    NO_PLAN = "Infeasible budgets", "docs/training.md#infeasible-budgets"
    REFUSED = "What is refused", "docs/training.md#what-is-refused"

    @property
    def heading(self) -> str:
        """Heading of the page or section."""
        return self.value[0]

    @property
    def address(self) -> str:
        """Path in the checkout, with the anchor of the section."""
        return self.value[1]

    def after(self, message: str) -> str:
        """Append to a message, in the same line, where to read on; a message that has that already stays as it is."""
        return message if _MARK in message else f"{message}{_MARK}{self.heading}: {self.address})"

    @staticmethod
    def before(message: str) -> str:
        """A message without what `after` has appended."""
        return message.rpartition(_MARK)[0] or message


_MARK = " (see "
