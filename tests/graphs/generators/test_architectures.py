"""Networks against what others published of them: graphs, numbers of parameters, multiply-adds."""

from __future__ import annotations

import inspect

import pytest

from moccasin_mzn.base.errors import InputError
from moccasin_mzn.graphs.formats import read_graph
from moccasin_mzn.graphs.generators import layers
from moccasin_mzn.graphs.generators.architectures.segmentation import fcn8, segnet, unet
from moccasin_mzn.graphs.generators.architectures.transformer import transformer_decoder
from moccasin_mzn.graphs.generators.catalogue import NETWORKS
from moccasin_mzn.graphs.generators.network import Network, training_graph

MULTIPLYING = (
    layers.Convolution,
    layers.DepthwiseConvolution,
    layers.SeparableConvolution,
    layers.Dense,
    layers.Linear,
)

SEARCHED = ("nasnet-mobile", "nasnet-large", "pnasnet5-mobile", "pnasnet5-large")


def multiply_adds(network: Network) -> int:
    """Of convolutions and fully connected layers, which is what is published; the network must not be fused."""
    pairs = zip(network.layers, network.outputs, strict=True)
    return sum(output.flops for layer, output in pairs if isinstance(layer, MULTIPLYING))


def layer_by_layer(name: str) -> Network:
    """The network of the catalogue at its default input, not fused."""
    return NETWORKS[name].build(**({"fused": 0} if name in SEARCHED else {}))


# --- graphs ------------------------------------------------------------------------------------------------


def check_is(ours, published):
    assert ours.nodes == published.nodes
    assert set(ours.edges) == set(published.edges)
    assert ours.sizes == published.sizes


def test_fcn8_is_the_published_graph(shared):
    published = read_graph(shared / "data" / "checkmate_fcn8_train.json")
    ours = training_graph(fcn8(416, 608).forward_graph(32), 32)
    check_is(ours, published)
    assert ours.backward == published.backward
    assert ours.durations == published.durations


def test_vgg16_is_the_published_graph(shared):
    published = read_graph(shared / "data" / "checkmate_vgg16_train.json")
    ours = training_graph(NETWORKS["vgg16"].build().forward_graph(256), 256)
    check_is(ours, published)
    assert ours.backward == published.backward


def test_resnet50_is_the_published_graph(shared):
    published = read_graph(shared / "data" / "checkmate_resnet50_train.json")
    ours = training_graph(NETWORKS["resnet50"].build().forward_graph(256), 256)
    check_is(ours, published)
    assert ours.backward == published.backward
    assert (len(ours.nodes), len(ours.edges)) == (353, 751)


def test_resnet50_inference_is_the_published_graph(shared):
    published = read_graph(shared / "data" / "checkmate_resnet50_inference.json")
    ours = NETWORKS["resnet50"].build().forward_graph(256)
    check_is(ours, published)
    assert ours.labels == published.labels
    assert (len(ours.nodes), len(ours.edges)) == (176, 191)


# --- parameters --------------------------------------------------------------------------------------------

KERAS_APPLICATIONS = {
    "vgg16": 138_357_544,
    "vgg19": 143_667_240,
    "resnet50": 25_636_712,
    "resnet101": 44_707_176,
    "resnet152": 60_419_944,
    "mobilenet": 4_253_864,
    "densenet121": 8_062_504,
    "densenet169": 14_307_880,
    "densenet201": 20_242_984,
    "nasnet-mobile": 5_326_716,
    "nasnet-large": 88_949_818,
}
"""All parameters, running means and variances included."""

TRAINED = {
    "densenet121": 7_978_856,  # torchvision
    "densenet161": 28_681_000,
    "densenet169": 14_149_480,
    "densenet201": 20_013_928,
    "pnasnet5-large": 86_057_668,  # timm
    "transformer": 124_439_808,  # GPT-2 small, the weights of head and embedding counted once
}
"""Without running means and variances."""


@pytest.mark.parametrize(("name", "published"), KERAS_APPLICATIONS.items())
def test_architectures_have_the_published_numbers_of_parameters(name, published):
    assert NETWORKS[name].build().parameters() == published


@pytest.mark.parametrize(("name", "published"), TRAINED.items())
def test_trained_parameters(name, published):
    assert NETWORKS[name].build().trained_parameters() == published


def test_parameters_of_unet():
    # of the common implementations with one input channel and one class
    assert unet(channels=1, classes=1).parameters() == 31_030_593


def test_parameters_of_pnasnet5_mobile():
    assert round(NETWORKS["pnasnet5-mobile"].build().trained_parameters() / 1e6, 1) == 5.1


def test_parameters_of_segnet():
    # 29.4 million for 12 classes: published without running means and variances
    assert segnet(classes=12).trained_parameters() == pytest.approx(29.4e6, rel=0.005)


# --- multiply-adds -----------------------------------------------------------------------------------------

MULTIPLY_ADDS = {
    "vgg16": 15.5e9,
    "vgg19": 19.6e9,
    "resnet50": 3.86e9,
    "resnet101": 7.57e9,
    "resnet152": 11.3e9,
    "mobilenet": 569e6,
    "densenet121": 2.83e9,
    "densenet161": 7.73e9,
    "densenet169": 3.36e9,
    "densenet201": 4.29e9,
    "nasnet-mobile": 564e6,
    "nasnet-large": 23.8e9,
    "pnasnet5-mobile": 588e6,
    "pnasnet5-large": 25.0e9,
}


@pytest.mark.parametrize(("name", "published"), MULTIPLY_ADDS.items())
def test_architectures_have_the_published_multiply_adds(name, published):
    assert multiply_adds(layer_by_layer(name)) == pytest.approx(published, rel=0.005)


@pytest.mark.parametrize("name", MULTIPLY_ADDS)
def test_normalizations_and_activations_cost_little(name):
    network = layer_by_layer(name)
    assert multiply_adds(network) <= network.flops() <= 1.06 * multiply_adds(network)


def test_multiply_adds_of_a_transformer():
    # per token: one for each weight of a matrix product, and 2 * positions * width in the attention of a block
    network = transformer_decoder(sequence=64, layers=3, width=32, heads=4, vocabulary=100)
    products = multiply_adds(network) + sum(
        output.flops
        for layer, output in zip(network.layers, network.outputs, strict=True)
        if isinstance(layer, (layers.AttentionScores, layers.AttentionContext))
    )
    assert products == 64 * (3 * (12 * 32 * 32 + 2 * 64 * 32) + 32 * 100)


# --- fused or layer by layer -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SEARCHED)
def test_fusing_changes_neither_cost_nor_parameters(name):
    fused, parts = NETWORKS[name].build((65, 50, 3)), NETWORKS[name].build((65, 50, 3), fused=0)
    assert len(fused.layers) < 0.5 * len(parts.layers)
    assert fused.flops() == parts.flops()
    assert fused.parameters() == parts.parameters()
    assert fused.trained_parameters() == parts.trained_parameters()
    joined = (layers.Concatenate,)
    shapes = [
        [made.shape for layer, made in zip(network.layers, network.outputs, strict=True) if isinstance(layer, joined)]
        for network in (fused, parts)
    ]
    assert shapes[0] == shapes[1]


# --- numbers and shapes of layers --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "fused", "count"),
    [
        ("vgg19", None, 25),
        ("mobilenet", None, 92),
        ("resnet101", None, 346),
        ("resnet152", None, 516),
        ("densenet121", None, 428),
        ("densenet161", None, 568),
        ("densenet169", None, 596),
        ("densenet201", None, 708),
        ("segnet", None, 88),
        ("nasnet-mobile", 1, 360),
        ("nasnet-mobile", 0, 770),
        ("nasnet-large", 1, 486),
        ("nasnet-large", 0, 1040),
        ("pnasnet5-mobile", 1, 279),
        ("pnasnet5-mobile", 0, 621),
        ("pnasnet5-large", 1, 348),
        ("pnasnet5-large", 0, 774),
        ("transformer", None, 14 * 12 + 4),
    ],
)
def test_number_of_layers_is_as_documented(name, fused, count):
    network = NETWORKS[name].build(**({} if fused is None else {"fused": fused}))
    assert len(network.layers) == count


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("resnet50", (7, 7, 2048)),
        ("mobilenet", (7, 7, 1024)),
        ("densenet121", (7, 7, 1024)),
        ("densenet161", (7, 7, 2208)),
        ("densenet169", (7, 7, 1664)),
        ("densenet201", (7, 7, 1920)),
        ("nasnet-mobile", (7, 7, 1056)),
        ("nasnet-large", (11, 11, 4032)),
        ("pnasnet5-mobile", (7, 7, 1080)),
        ("pnasnet5-large", (11, 11, 4320)),
    ],
)
def test_shape_before_the_classifier(name, shape):
    network = NETWORKS[name].build()
    pool = next(at for at, layer in enumerate(network.layers) if isinstance(layer, layers.GlobalPooling))
    assert network.shape(network.inputs[pool][0]) == shape


def test_segnet_unpools_by_the_maxima_of_its_level():
    network = segnet(32, 64, classes=5)
    read = {network.names[at]: [network.names[u] for u in network.inputs[at]] for at in range(len(network.layers))}
    for level in range(1, 6):
        assert read[f"decoder{level}_unpool"][1] == f"encoder{level}_pool"
    assert network.outputs[-1].shape == (32 * 64, 5)


def test_transformer_layers_of_a_block():
    network = transformer_decoder(sequence=8, layers=1, width=4, heads=2, vocabulary=10)
    shapes = {name: output.shape for name, output in zip(network.names, network.outputs, strict=True)}
    assert shapes["token_embedding"] == shapes["block0_query"] == shapes["block0_context"] == (8, 4)
    assert shapes["block0_scores"] == shapes["block0_softmax"] == (2, 8, 8)
    assert shapes["block0_up"] == shapes["block0_act"] == (8, 16)
    assert shapes["logits"] == (8, 10)


def test_transformer_heads_must_divide_the_width():
    with pytest.raises(InputError, match="width is 10, expected a multiple of the 3 heads"):
        transformer_decoder(width=10, heads=3)


def test_defaults_of_functions_are_those_of_the_catalogue():
    compared = 0
    for entry in NETWORKS.values():
        chosen = entry.chosen() | dict(zip(("height", "width", "channels"), entry.input or (), strict=False))
        for name, parameter in inspect.signature(entry.builder).parameters.items():
            if name in chosen and parameter.default is not parameter.empty:
                assert chosen[name] == parameter.default, (entry.name, name)
                compared += 1
    assert compared >= 4 * 4 + 2 + 5
