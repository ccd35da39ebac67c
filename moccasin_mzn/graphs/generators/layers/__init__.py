"""Layers: the shape of the output, the cost of the forward pass and the number of parameters, for one sample.

Shapes are (height, width, channels), (positions, channels) or (units,), and leave out the batch. Costs are those of
Checkmate's FLOP mode (Jain et al., MLSys 2020), which counts a multiply-add as one operation and moving data as none;
they were checked against the published FCN8 training graph. What that mode has no rule for (layer normalization,
attention) costs by the same principle, and its docstring says so.
"""

from moccasin_mzn.graphs.generators.layers.base import Layer, Shape
from moccasin_mzn.graphs.generators.layers.convolutions import (
    Convolution,
    DepthwiseConvolution,
    SeparableConvolution,
    TransposedConvolution,
)
from moccasin_mzn.graphs.generators.layers.elementwise import Activation, Add, BatchNorm, Dropout, LayerNorm
from moccasin_mzn.graphs.generators.layers.fused import ReluConvolution, ReluSeparableConvolution
from moccasin_mzn.graphs.generators.layers.linear import (
    AttentionContext,
    AttentionScores,
    Dense,
    Embedding,
    Linear,
    PositionEmbedding,
)
from moccasin_mzn.graphs.generators.layers.resampling import (
    Concatenate,
    Crop,
    Flatten,
    GlobalPooling,
    Pooling,
    Reshape,
    Unpooling,
    Upsampling,
    ZeroPadding,
)

__all__ = [
    "Activation",
    "Add",
    "AttentionContext",
    "AttentionScores",
    "BatchNorm",
    "Concatenate",
    "Convolution",
    "Crop",
    "Dense",
    "DepthwiseConvolution",
    "Dropout",
    "Embedding",
    "Flatten",
    "GlobalPooling",
    "Layer",
    "LayerNorm",
    "Linear",
    "Pooling",
    "PositionEmbedding",
    "ReluConvolution",
    "ReluSeparableConvolution",
    "Reshape",
    "SeparableConvolution",
    "Shape",
    "TransposedConvolution",
    "Unpooling",
    "Upsampling",
    "ZeroPadding",
]
