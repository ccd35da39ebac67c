"""LiteRT's reference kernels, in one thread and without delegates: what C has to put out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from moccasin_mzn.deploy.tflite_model import packed
from moccasin_mzn.errors import missing

if TYPE_CHECKING:
    from ai_edge_litert.schema_py_generated import ModelT
    from numpy import ndarray


def run(model: ModelT, given: Sequence[ndarray]) -> list[ndarray]:
    """The outputs of a model for one set of inputs, by LiteRT's reference kernels.

    Raises:
        InputError: LiteRT is missing.
        RuntimeError: LiteRT cannot run it.
    """
    return run_many(model, [given])[0]


def run_many(model: ModelT, sets: Sequence[Sequence[ndarray]]) -> list[list[ndarray]]:
    """The outputs of a model for several sets of inputs; see `run`."""
    try:
        from ai_edge_litert.interpreter import Interpreter, OpResolverType
    except ImportError:
        raise missing("ai-edge-litert", "tflite") from None
    made = Interpreter(
        model_content=packed(model), num_threads=1, experimental_op_resolver_type=OpResolverType.BUILTIN_REF
    )
    made.allocate_tensors()
    found = []
    for given in sets:
        for about, value in zip(made.get_input_details(), given, strict=True):
            made.set_tensor(about["index"], value)
        made.invoke()
        found.append([made.get_tensor(about["index"]).copy() for about in made.get_output_details()])
    return found
