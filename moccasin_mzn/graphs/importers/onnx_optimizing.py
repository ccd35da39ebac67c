"""An ONNX model as ONNX Runtime rewrites it before it runs it: constants folded, operators fused, channels in blocks.

What it rewrites a model to depends on its version, and at the highest level on the processor.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path

from moccasin_mzn.errors import InputError
from moccasin_mzn.graphs.importers.onnx_dims import fix_dims
from moccasin_mzn.graphs.importers.onnx_model import one_line, parse_model
from moccasin_mzn.graphs.importers.onnx_runtime import runtime, with_weights


class Optimize(StrEnum):
    """The level of ONNX Runtime's graph optimizations."""

    NONE = "none"
    BASIC = "basic"
    EXTENDED = "extended"
    ALL = "all"


def optimized(data: bytes, level: Optimize, folder: Path, dims: Mapping[str, int]) -> tuple[bytes, dict[str, int]]:
    """The bytes of a file as ONNX Runtime optimizes it, weights inside, and the dimensions that are open still.

    Args:
        data: of the file.
        level: none leaves all as it is.
        folder: of external files.
        dims: numbers of open dimensions.

    Raises:
        InputError: ONNX Runtime is missing, or cannot load the model; see `with_weights` and `fix_dims`.
    """
    if level is Optimize.NONE:
        return data, dict(dims)
    module = runtime()
    model = parse_model(data, weights=True)
    fix_dims(model, dims)
    options = module.SessionOptions()
    options.graph_optimization_level = getattr(module.GraphOptimizationLevel, f"ORT_ENABLE_{level.name}")
    options.log_severity_level = 4
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "optimized.onnx"
        options.optimized_model_filepath = str(path)
        whole = with_weights(model, folder).SerializeToString()
        try:
            module.InferenceSession(whole, options, providers=["CPUExecutionProvider"])
        except Exception as error:  # its own types derive from nothing but Exception
            raise InputError(f"ONNX Runtime {module.__version__}: {one_line(error)}") from None
        return path.read_bytes(), {}
