"""Layers, the backward pass, wiring, and the shipped files against their generator."""

from __future__ import annotations

import importlib.util
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moccasin_mzn.base.errors import InputError
from moccasin_mzn.graphs.formats import read_graph
from moccasin_mzn.graphs.generators import layers
from moccasin_mzn.graphs.generators.architectures.randomly_wired import randomly_wired, watts_strogatz_edges
from moccasin_mzn.graphs.generators.architectures.segmentation import unet
from moccasin_mzn.graphs.generators.network import INPUT, Network, training_graph
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.problem.judges.schedules import simulate

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def make_data():
    """The script that writes data/, as a module."""
    spec = importlib.util.spec_from_file_location("make_data", ROOT / "scripts" / "make_data.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# --- the backward pass -------------------------------------------------------------------------------------


def test_training_graph_of_a_chain():
    forward = ComputationGraph(["u", "v"], [3, 4], [5, 6], [(0, 1)])
    graph = training_graph(forward, batch=2)
    # 0: u, 1: v, 2: loss, 3: gradient of v, 4: gradient of u
    assert set(graph.edges) == {(0, 1), (1, 4), (3, 4), (0, 4), (1, 3), (1, 2), (2, 3)}
    assert graph.durations == (3, 4, 0, 8, 6)
    assert graph.sizes == (5, 6, 8, 6, 5)
    assert graph.labels == ("u", "v", "loss", "v_backward", "u_backward")
    assert graph.backward == (False, False, True, True, True)


def test_training_graph_keeps_fixed_memory():
    forward = ComputationGraph(["u"], [3], [5], [], fixed_memory={"parameters": 7})
    assert training_graph(forward, batch=2).fixed_memory == {"parameters": 7}


@pytest.mark.parametrize(
    ("graph", "batch", "message"),
    [
        (ComputationGraph(["u", "v"], [1, 1], [1, 1], []), 1, "node u: nothing reads it"),
        (ComputationGraph(["u", "v"], [1, 1], [1, 1], [(1, 0)]), 1, "node u: nothing reads it"),
        (ComputationGraph(["u"], [1], [1], []), 0, "batch is 0, expected an integer of 1 or more"),
    ],
)
def test_training_graph_refuses(graph, batch, message):
    with pytest.raises(InputError, match=message):
        training_graph(graph, batch)


# --- layers and networks -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("layer", "inputs", "shape", "flops"),
    [
        (layers.Convolution(8, 3), [(5, 7, 4)], (5, 7, 8), 9 * 4 * 280),
        (layers.Convolution(8, 3, stride=2), [(5, 7, 4)], (3, 4, 8), 9 * 4 * 96),
        (layers.Convolution(8, 3, padding="valid"), [(5, 7, 4)], (3, 5, 8), 9 * 4 * 120),
        (layers.DepthwiseConvolution(3), [(5, 7, 4)], (5, 7, 4), 9 * 140),
        (layers.DepthwiseConvolution(3, 2, "valid"), [(5, 7, 4)], (2, 3, 4), 9 * 24),
        (layers.SeparableConvolution(8, 3), [(5, 7, 4)], (5, 7, 8), 9 * 140 + 4 * 280),
        (layers.SeparableConvolution(8, 3, 2, "valid"), [(5, 7, 4)], (2, 3, 8), 9 * 24 + 4 * 48),
        (layers.TransposedConvolution(8, 4, 2), [(5, 7, 4)], (12, 16, 8), 4 * 1536),
        (layers.ReluSeparableConvolution(8), [(5, 7, 4)], (5, 7, 8), 140 + 9 * 140 + 4 * 280 + 4 * 280),
        (layers.ReluSeparableConvolution(4), [(5, 7, 4)] * 3, (5, 7, 4), 420 + 140 + 9 * 140 + 4 * 140 + 4 * 140),
        (layers.ReluConvolution(8, 1, 2), [(5, 7, 4)], (3, 4, 8), 140 + 4 * 96 + 4 * 96),
        (layers.Pooling(), [(5, 7, 4)], (2, 3, 4), 0),
        (layers.Pooling(3, 2, "same"), [(5, 7, 4)], (3, 4, 4), 0),
        (layers.GlobalPooling(), [(5, 7, 4)], (4,), 0),
        (layers.Upsampling(), [(5, 7, 4)], (10, 14, 4), 560),
        (layers.Upsampling(bilinear=True), [(5, 7, 4)], (10, 14, 4), 2800),
        (layers.Unpooling(), [(5, 7, 4)] * 2, (10, 14, 4), 560),
        (layers.ZeroPadding(1, 2, 0, 3), [(5, 7, 4)], (8, 10, 4), 0),
        (layers.Crop(4, 7), [(5, 7, 4)], (4, 7, 4), 0),
        (layers.Flatten(), [(5, 7, 4)], (140,), 0),
        (layers.Reshape((35, 4)), [(5, 7, 4)], (35, 4), 0),
        (layers.Dropout(), [(140,)], (140,), 0),
        (layers.Activation(), [(5, 7, 4)], (5, 7, 4), 140),
        (layers.BatchNorm(), [(5, 7, 4)], (5, 7, 4), 560),
        (layers.LayerNorm(), [(6, 8)], (6, 8), 4 * 48),
        (layers.Dense(10), [(140,)], (10,), 1400),
        (layers.Linear(10), [(6, 8)], (6, 10), 8 * 60),
        (layers.Embedding(100, 8), [(6,)], (6, 8), 0),
        (layers.PositionEmbedding(), [(6, 8)], (6, 8), 96),
        (layers.AttentionScores(2), [(6, 8)] * 2, (2, 6, 6), 4 * 72),
        (layers.AttentionContext(), [(2, 6, 6), (6, 8)], (6, 8), 6 * 48),
        (layers.Add(), [(5, 7, 4)] * 2, (5, 7, 4), 280),
        (layers.Concatenate(), [(5, 7, 4), (5, 7, 1)], (5, 7, 5), 0),
    ],
)
def test_layer_shapes_and_costs_by_hand(layer, inputs, shape, flops):
    output = layer.output(*inputs)
    assert output.shape == shape
    assert output.flops == flops


@pytest.mark.parametrize(
    ("layer", "inputs", "parameters", "untrained"),
    [
        (layers.Convolution(8, 3), [(5, 7, 4)], 9 * 4 * 8 + 8, 0),
        (layers.Convolution(8, 3, bias=False), [(5, 7, 4)], 9 * 4 * 8, 0),
        (layers.DepthwiseConvolution(3), [(5, 7, 4)], 9 * 4, 0),
        (layers.SeparableConvolution(8, 3), [(5, 7, 4)], 9 * 4 + 4 * 8, 0),
        (layers.TransposedConvolution(8, 2, 2), [(5, 7, 4)], 4 * 4 * 8 + 8, 0),
        (layers.ReluConvolution(8), [(5, 7, 4)], 4 * 8 + 4 * 8, 2 * 8),
        (layers.ReluSeparableConvolution(8), [(5, 7, 4)] * 2, 9 * 4 + 4 * 8 + 4 * 8, 2 * 8),
        (layers.BatchNorm(), [(5, 7, 4)], 16, 8),
        (layers.LayerNorm(), [(6, 8)], 16, 0),
        (layers.Dense(10), [(140,)], 1410, 0),
        (layers.Linear(10), [(6, 8)], 90, 0),
        (layers.Linear(10, bias=False, shared=True), [(6, 8)], 0, 0),
        (layers.Embedding(100, 8), [(6,)], 800, 0),
        (layers.PositionEmbedding(), [(6, 8)], 48, 0),
        (layers.AttentionScores(2), [(6, 8)] * 2, 0, 0),
        (layers.Pooling(), [(5, 7, 4)], 0, 0),
    ],
)
def test_parameters_of_a_layer(layer, inputs, parameters, untrained):
    output = layer.output(*inputs)
    assert output.parameters == parameters
    assert output.untrained == untrained


@pytest.mark.parametrize(
    ("layer", "inputs", "message"),
    [
        (layers.Convolution(8, 9, padding="valid"), [(5, 7, 4)], "a window of 9 does not fit into 5 x 7"),
        (layers.Convolution(8, 3, padding="full"), [(5, 7, 4)], "padding is 'full', expected"),
        (layers.Convolution(8, 3), [(140,)], r"the input \(140,\) is not \(height, width, channels\)"),
        (layers.Crop(6, 7), [(5, 7, 4)], "6 x 7 is larger than the input, 5 x 7"),
        (layers.Reshape((3,)), [(5, 7, 4)], "does not have the 3 elements"),
        (layers.Dense(10), [(5, 7, 4)], "is not flat"),
        (layers.Add(), [(5, 7, 4), (5, 7, 1)], "differ in shape"),
        (layers.Concatenate(), [(5, 7, 4), (5, 6, 4)], "differ in height or width"),
        (layers.Unpooling(), [(5, 7, 4), (5, 6, 4)], "differ in shape"),
        (layers.Embedding(100, 8), [(6, 8)], "is not a sequence of numbers"),
        (layers.Linear(10), [(140,)], r"the input \(140,\) is not \(positions, channels\)"),
        (layers.AttentionScores(3), [(6, 8)] * 2, "8 channels do not divide into 3 heads"),
        (layers.AttentionScores(2), [(6, 8), (5, 8)], "differ in shape"),
        (layers.AttentionContext(), [(2, 6, 6), (5, 8)], "do not fit each other"),
    ],
)
def test_layer_refuses(layer, inputs, message):
    with pytest.raises(InputError, match=message):
        layer.output(*inputs)


def test_layer_parameters_are_checked():
    with pytest.raises(InputError, match="Convolution: kernel is 0, expected 1 or more"):
        layers.Convolution(8, 0)
    with pytest.raises(InputError, match="ZeroPadding: left is -1, expected 0 or more"):
        layers.ZeroPadding(0, 0, -1, 0)


def test_network_names_the_layer_in_its_messages():
    network = Network("test", (4, 4, 3))
    conv = network.add("conv", layers.Convolution(2, 3), INPUT)
    with pytest.raises(InputError, match="layer sum: Add: the inputs"):
        network.add("sum", layers.Add(), conv, INPUT)
    with pytest.raises(InputError, match="layer pool: there is no layer 5"):
        network.add("pool", layers.Pooling(), 5)
    with pytest.raises(InputError, match="layer pool: Pooling cannot have 2 inputs"):
        network.add("pool", layers.Pooling(), conv, conv)


def test_forward_graph_takes_far_layers_first():
    network = Network("test", (4, 4, 3))
    near = network.add("near", layers.Convolution(2, 3), INPUT)
    far = network.add("far", layers.Convolution(2, 3), INPUT)
    far = network.add("further", layers.Convolution(2, 3), far)
    network.add("sum", layers.Add(), near, far)
    graph = network.forward_graph(batch=2)
    assert graph.labels == ("far", "near", "further", "sum")
    assert set(graph.edges) == {(0, 2), (1, 3), (2, 3)}
    assert graph.sizes == (2 * 4 * 32,) * 4


def test_forward_graph_holds_parameters_and_inputs():
    network = Network("test", (4, 4, 3))
    network.add("norm", layers.BatchNorm(), network.add("conv", layers.Convolution(2, 3), INPUT))
    assert (network.parameters(), network.trained_parameters()) == (9 * 3 * 2 + 2 + 8, 9 * 3 * 2 + 2 + 4)
    assert network.forward_graph(batch=5).fixed_memory == {"parameters": 4 * 64, "inputs": 4 * 5 * 48}


def test_a_layer_may_read_one_output_twice():
    network = Network("test", (4, 4, 3))
    conv = network.add("conv", layers.Convolution(2, 3), INPUT)
    network.add("double", layers.Add(), conv, conv)
    assert network.forward_graph(1).edges == ((0, 1),)


def test_unet_sides_must_halve():
    with pytest.raises(InputError, match="U-Net: width is 100, expected a multiple of 16"):
        unet(64, 100)


# --- randomly wired ----------------------------------------------------------------------------------------


@given(st.integers(0, 1000), st.integers(5, 20), st.floats(0, 1))
def test_watts_strogatz_keeps_the_number_of_edges(seed, n, rewiring):
    edges = watts_strogatz_edges(Random(seed), n, 4, rewiring)
    assert len(set(edges)) == len(edges) == 2 * n
    assert all(0 <= u < v < n for u, v in edges)


def test_watts_strogatz_without_rewiring_is_a_ring():
    assert watts_strogatz_edges(Random(0), 5, 2, 0.0) == [(0, 1), (0, 4), (1, 2), (2, 3), (3, 4)]


def test_watts_strogatz_is_the_same_everywhere():
    expected = [(0, 5), (0, 6), (1, 2), (2, 5), (3, 5), (4, 5), (4, 7), (6, 7)]
    assert watts_strogatz_edges(Random(1), 8, 2, 0.75) == expected


@pytest.mark.parametrize("seed", range(5))
def test_randomly_wired_leaves_room_below_its_peak(seed):
    graph = randomly_wired(seed).forward_graph(1)
    peak = simulate(graph, graph.input_order()).peak
    assert peak >= 1.3 * graph.largest_working_set().memory
    assert sum(not readers for readers in graph.successors) == 1


def test_randomly_wired_fused_or_not_costs_the_same():
    parts = [randomly_wired(3, cell_nodes=8, fused=fused > 0, sums_fused=fused > 1) for fused in range(3)]
    assert len({(network.flops(), network.parameters(), network.trained_parameters()) for network in parts}) == 1
    assert len(parts[0].layers) > len(parts[1].layers) > len(parts[2].layers) == 4 * 9 + 4
    kinds = [{type(layer) for layer in network.layers} for network in parts]
    assert layers.ReluSeparableConvolution not in kinds[0]
    assert all(
        len(inputs) == 1 or isinstance(layer, layers.Add)
        for layer, inputs in zip(parts[1].layers, parts[1].inputs, strict=True)
    )


@pytest.mark.parametrize(("neighbours", "rewiring"), [(3, 0.5), (8, 0.5), (4, 1.5)])
def test_watts_strogatz_refuses(neighbours, rewiring):
    with pytest.raises(InputError, match="expected"):
        watts_strogatz_edges(Random(0), 8, neighbours, rewiring)


# --- shipped files -----------------------------------------------------------------------------------------


def test_shipped_files_are_what_the_script_writes(make_data):
    """All but what data/README.md says is not."""
    files = make_data.files()
    shipped = {str(path.relative_to(ROOT / "data")) for path in (ROOT / "data").rglob("*") if path.is_file()}
    papers = {name for name in shipped if name.startswith("paper/")}
    other = {name for name in shipped if name.startswith("experiments/")} | {
        "unet_training.svg",
        "unet_front.svg",
        "tiled_mobilenet.png",
        "execution.svg",
        "search_progress.svg",
        "search_proofs.svg",
        "paper_intervals.svg",
        "paper_stages.svg",
        "paper_example.dzn",
    }
    folders = ("best_known/", "minimalloc/")
    other |= {"instances/README.md", "best_known.csv", "run_plan.c"}
    other |= {name for name in shipped if name.startswith(folders)}
    assert set(files) == shipped - other - papers
    assert all(name.split("/")[-1] in files["README.md"] for name in other if not name.startswith(folders))
    assert all(name in files["README.md"] for name in folders)
    told = (ROOT / "data" / "paper" / "README.md").read_text() + files["README.md"]
    assert all(name.removeprefix("paper/") in told for name in papers) and "(paper/README.md)" in files["README.md"]
    for name, content in files.items():
        assert (ROOT / "data" / name).read_bytes() == content.encode()


def test_make_data_makes_its_folders(make_data, tmp_path, capsys):
    make_data.main(tmp_path / "new")
    assert (tmp_path / "new" / "rw" / "randwire_n358.json").is_file()
    assert len(capsys.readouterr().out.splitlines()) == 7 + 16


def test_shipped_unet_takes_recomputation():
    graph = read_graph(ROOT / "data" / "unet_training.json")
    peak = simulate(graph, graph.input_order()).peak
    assert 60 <= len(graph.nodes) <= 120
    assert graph.largest_working_set().memory < 0.7 * peak
    # A path through all nodes: there is no other topological order, so the peak cannot be reordered away.
    assert set(pairwise(graph.input_order())) <= set(graph.edges)


def test_shipped_randomly_wired():
    graph = read_graph(ROOT / "data" / "randomly_wired_inference.json")
    peak = simulate(graph, graph.input_order()).peak
    assert 100 <= len(graph.nodes) <= 150
    assert graph.largest_working_set().memory < 0.7 * peak
    assert graph.attributes["made_by"]["command"] == "python scripts/make_data.py"
    assert graph.attributes["network"]["seed"] == 4


@pytest.mark.parametrize(("nodes", "edges"), [(358, 947), (442, 1247), (574, 1304), (698, 1436)])
def test_stand_ins_leave_room_for_the_papers_budgets(nodes, edges):
    graph = read_graph(ROOT / "data" / "rw" / f"randwire_n{nodes}.json")
    assert len(graph.nodes) == nodes
    assert abs(len(graph.edges) - edges) < 0.08 * edges
    assert graph.largest_working_set().memory < 0.8 * simulate(graph, graph.input_order()).peak
