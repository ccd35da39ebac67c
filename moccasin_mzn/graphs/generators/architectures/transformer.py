"""A decoder-only transformer (Vaswani et al., NIPS 2017; Radford et al., 2019): a causal language model.

The layers of a block; q, k and v are made and kept one by one::

    x -> norm1 -> query, key -> scores -> softmax -> context -> projection -> add1 -> norm2 -> up -> act -> down -> add2
    |      `----> value ---------------------------->'                         ^  |                                  ^
    `--------------------------------------------------------------------------'  `----------------------------------'
"""

from __future__ import annotations

from moccasin_mzn.base.errors import InputError
from moccasin_mzn.graphs.generators import layers as nn
from moccasin_mzn.graphs.generators.network import INPUT, Architecture, Network, Parameter

_EXPANSION = 4
"""Width of the hidden layer of a block's perceptron over the width of the network."""


def transformer_decoder(
    sequence: int = 1024, layers: int = 12, width: int = 768, heads: int = 12, vocabulary: int = 50257
) -> Network:
    """A language model with normalization before attention and perceptron: 14 layers + 4 nodes. Default: GPT-2 small.

    The input is the token numbers, 4 bytes each; positions have a learned embedding, and the last layer the weights of
    the token embedding. Attention is counted in full: the causal mask saves nothing. `_PARAMETERS` describes each.

    Raises:
        InputError: a parameter below 1, or heads that do not divide the width.
    """
    if heads < 1 or width % heads:
        raise InputError(f"transformer: width is {width}, expected a multiple of the {heads} heads")
    network = Network("transformer decoder", (sequence,))
    at = network.add("token_embedding", nn.Embedding(vocabulary, width), INPUT)
    at = network.add("position_embedding", nn.PositionEmbedding(), at)
    for block in range(layers):
        at = _add_attention(network, f"block{block}", width, heads, at)
        at = _add_perceptron(network, f"block{block}", width, at)
    at = network.add("final_norm", nn.LayerNorm(), at)
    network.add("logits", nn.Linear(vocabulary, bias=False, shared=True), at)
    return network


def _add_attention(network: Network, name: str, width: int, heads: int, source: int) -> int:
    normed = network.add(f"{name}_norm1", nn.LayerNorm(), source)
    query = network.add(f"{name}_query", nn.Linear(width), normed)
    key = network.add(f"{name}_key", nn.Linear(width), normed)
    value = network.add(f"{name}_value", nn.Linear(width), normed)
    at = network.add(f"{name}_scores", nn.AttentionScores(heads), query, key)
    at = network.add(f"{name}_softmax", nn.Activation(softmax=True), at)
    at = network.add(f"{name}_context", nn.AttentionContext(), at, value)
    at = network.add(f"{name}_projection", nn.Linear(width), at)
    return network.add(f"{name}_add1", nn.Add(), source, at)


def _add_perceptron(network: Network, name: str, width: int, source: int) -> int:
    at = network.add(f"{name}_norm2", nn.LayerNorm(), source)
    at = network.add(f"{name}_up", nn.Linear(_EXPANSION * width), at)
    at = network.add(f"{name}_act", nn.Activation(), at)
    at = network.add(f"{name}_down", nn.Linear(width), at)
    return network.add(f"{name}_add2", nn.Add(), source, at)


_PARAMETERS = (
    Parameter("sequence", 1024, "tokens of one sample"),
    Parameter("layers", 12, "blocks of attention and perceptron", most=4096),
    Parameter("width", 768, "channels of every position"),
    Parameter("heads", 12, "heads of each attention; they divide the width"),
    Parameter("vocabulary", 50257, "tokens there are, each scored at every position", most=2**24),
)
NETWORKS = (
    Architecture(
        "transformer", "transformer decoder, a causal language model; default: GPT-2 small",
        "Vaswani et al., NIPS 2017; Radford et al., 2019", None, _PARAMETERS, transformer_decoder,
    ),
)  # fmt: skip
