"""Networks by name."""

from __future__ import annotations

import pytest

from moccasin_mzn.base.errors import InputError
from moccasin_mzn.base.files import parse_json
from moccasin_mzn.graphs.formats.node_link import graph_text, parse
from moccasin_mzn.graphs.generators.catalogue import NETWORKS, find, generate_network
from moccasin_mzn.graphs.generators.layers import Dense
from moccasin_mzn.graphs.generators.network import OPTIMIZERS

SMALL = {
    "randwire": {"cells": 2, "cell_nodes": 6},
    "transformer": {"sequence": 16, "layers": 2, "width": 8, "heads": 2, "vocabulary": 20},
    "unet": {"depth": 2, "base_channels": 4},
}


def small(name, **more):
    """The graph of a network at a small input."""
    shape = {} if NETWORKS[name].input is None else {"input": (64, 32, 1)}
    return generate_network(name, 2, **shape, **SMALL.get(name, {}), **more)


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("name", NETWORKS)
def test_every_network_builds(name, training):
    graph = small(name, training=training)
    assert sum(not readers for readers in graph.successors) == 1
    assert graph.order == tuple(range(len(graph.nodes)))
    assert len(set(graph.labels)) == len(graph.labels)
    assert (graph.backward is not None) == training
    assert set(graph.fixed_memory) == {"parameters", "inputs"}
    assert graph.name.endswith("batch 2, input " + ("16" if name == "transformer" else "64x32x1"))


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.few(8)
def test_the_same_call_gives_the_same_bytes_which_read_back(name):
    text = graph_text(small(name, training=True))
    assert graph_text(small(name, training=True)) == text
    assert parse(parse_json(text, "the text")) == small(name, training=True)


@pytest.mark.parametrize("name", NETWORKS)
def test_batch_scales_sizes_and_durations_and_no_parameters(name):
    graph = small(name)
    shape = {} if NETWORKS[name].input is None else {"input": (64, 32, 1)}
    larger = generate_network(name, 6, **shape, **SMALL.get(name, {}))
    assert larger.sizes == tuple(3 * size for size in graph.sizes)
    assert larger.durations == tuple(3 * duration for duration in graph.durations)
    assert larger.fixed_memory["parameters"] == graph.fixed_memory["parameters"]
    assert larger.fixed_memory["inputs"] == 3 * graph.fixed_memory["inputs"]


@pytest.mark.parametrize("name", [name for name in NETWORKS if NETWORKS[name].input is not None])
def test_channels_of_the_input_change_the_first_layers_only(name):
    networks = [NETWORKS[name].build((64, 32, channels), **SMALL.get(name, {})) for channels in (1, 3)]
    names = networks[0].names
    assert names == networks[1].names
    differ = {at for at in range(len(names)) if networks[0].outputs[at].flops != networks[1].outputs[at].flops}
    assert differ
    assert all(-1 in networks[0].inputs[at] or -1 in networks[0].inputs[at - 1] for at in differ)


@pytest.mark.parametrize("name", [name for name in NETWORKS if NETWORKS[name].input is not None])
def test_classes_are_those_of_the_output(name):
    network = NETWORKS[name].build((64, 32, 3), classes=7, **SMALL.get(name, {}))
    assert network.outputs[-1].shape[-1] == 7


def test_entries_are_described():
    for name, entry in NETWORKS.items():
        assert entry.name == name == name.lower()
        assert entry.title and entry.source
        for parameter in entry.parameters:
            assert parameter.least <= parameter.default <= parameter.most
            assert parameter.meaning


@pytest.mark.parametrize("name", ["self", "input", "height"])
def test_parameters_are_only_those_of_the_entry(name):
    with pytest.raises(InputError, match=f"vgg16: there is no parameter '{name}'"):
        NETWORKS["vgg16"].build(**{name: 1})


def test_names_are_found_in_any_case():
    assert find("ResNet50") is NETWORKS["resnet50"]


def test_attributes_record_how_to_build_the_network():
    graph = generate_network("unet", 2, input=(32, 32, 1), training=True, optimizer="sgd", depth=2)
    facts = graph.attributes["network"]
    assert facts == {
        "name": "unet",
        "batch": 2,
        "input": [32, 32, 1],
        "classes": 2,
        "depth": 2,
        "base_channels": 64,
        "optimizer": "sgd",
    }


@pytest.mark.parametrize(("optimizer", "kept"), [("sgd", 0), ("momentum", 1), ("adam", 2)])
def test_optimizer_takes_fixed_memory(optimizer, kept):
    network = NETWORKS["resnet50"].build((32, 32, 3))
    graph = generate_network("resnet50", 1, input=(32, 32, 3), training=True, optimizer=optimizer)
    trained = 4 * network.trained_parameters()
    assert graph.fixed_memory == {
        "parameters": 4 * network.parameters(),
        "inputs": 4 * 32 * 32 * 3,
        "gradients": trained,
        "optimizer": kept * trained,
    }
    assert optimizer in OPTIMIZERS


def test_optimizer_changes_nothing_else():
    plain = generate_network("vgg16", 1, input=(32, 32, 3), training=True)
    adam = generate_network("vgg16", 1, input=(32, 32, 3), training=True, optimizer="adam")
    assert (adam.nodes, adam.edges, adam.sizes, adam.durations) == (
        plain.nodes,
        plain.edges,
        plain.sizes,
        plain.durations,
    )


def test_fused_parameter_reaches_the_network():
    for name in ("nasnet-mobile", "pnasnet5-large", "randwire"):
        small_parameters = SMALL.get(name, {})
        parts = NETWORKS[name].build((64, 32, 3), fused=0, **small_parameters)
        assert len(parts.layers) > 2 * len(NETWORKS[name].build((64, 32, 3), **small_parameters).layers)


def test_randwire_parameters_reach_the_network():
    build = NETWORKS["randwire"].build
    assert build((64, 64, 3), seed=1, cells=2, cell_nodes=9).names != build((64, 64, 3), cells=2).names
    assert build((64, 64, 3), seed=1).inputs != build((64, 64, 3), seed=2).inputs
    assert build((64, 64, 3), base_channels=10, classes=3).layers[-1] == Dense(3)
    wide = build((64, 64, 3), neighbours=8)
    assert sum(map(len, wide.inputs)) > sum(map(len, build((64, 64, 3)).inputs))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"name": "resnet51", "batch": 1},
            r"there is no network 'resnet51' \(did you mean resnet50\?\); there are vgg16, ",
        ),
        ({"name": "zzz", "batch": 1}, "there is no network 'zzz'; there are vgg16, .*, transformer$"),
        (
            {"name": "unet", "batch": 1, "depht": 3},
            r"unet: there is no parameter 'depht' \(did you mean depth\?\); there are classes, depth, base_channels$",
        ),
        ({"name": "unet", "batch": 1, "depth": 0}, "unet: depth is 0, expected an integer from 1 to 16$"),
        ({"name": "unet", "batch": 1, "depth": 2.0}, "unet: depth is 2.0, expected an integer"),
        ({"name": "unet", "batch": 1, "depth": True}, "unet: depth is True, expected an integer"),
        ({"name": "unet", "batch": 0}, "batch is 0, expected an integer of 1 or more"),
        ({"name": "unet", "batch": 1, "input": (64, 100, 3)}, "U-Net: width is 100, expected a multiple of 16"),
        ({"name": "unet", "batch": 1, "input": (64, 64)}, "unet: the input is .64, 64., expected height, width and"),
        ({"name": "unet", "batch": 1, "input": (64, 64, 0)}, "unet: channels is 0, expected an integer from 1 to"),
        ({"name": "segnet", "batch": 1, "input": (33, 64, 3)}, "SegNet: height is 33, expected a multiple of 32"),
        ({"name": "vgg16", "batch": 1, "input": (16, 16, 3)}, "layer block5_pool: Pooling: a window of 2 does not fit"),
        (
            {"name": "transformer", "batch": 1, "input": (64, 1, 1)},
            "transformer: takes no image; its input is given by parameters: sequence, layers",
        ),
        ({"name": "randwire", "batch": 1, "neighbours": 5}, "neighbours is 5, expected an even number"),
        ({"name": "vgg16", "batch": 10**9}, "node 0: duration is 86704128000000000, over the limit"),
        (
            {"name": "vgg16", "batch": 1, "training": True, "optimizer": "adams"},
            r"there is no optimizer 'adams' \(did you mean adam\?\); there are none, sgd, momentum, adam$",
        ),
        ({"name": "vgg16", "batch": 1, "optimizer": "adam"}, "optimizer adam: there is no optimizer without training"),
    ],
)
def test_network_catalogue_rejects_wrong_parameters(arguments, message):
    with pytest.raises(InputError, match=message) as caught:
        generate_network(**arguments)
    assert "\n" not in str(caught.value)
