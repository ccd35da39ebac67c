"""The command `import torch`."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from moccasin_mzn.graphs.formats import read_graph
from moccasin_mzn.graphs.importers.torch.graph import import_torch

NETWORKS = Path(__file__).parent / "networks.py"
TRANSFORMER = [f"{NETWORKS}:transformer", "--input", "2x16:int64"]


def test_import_torch_writes_graph_and_record(command, tmp_path):
    path = tmp_path / "g.json"
    status, out, err = command("import", "torch", *TRANSFORMER, "--training", "--optimizer", "adam", "-o", path)
    assert (status, err) == (0, "")
    graph = read_graph(path)
    ours = import_torch(TRANSFORMER[0], ["2x16:int64"], training=True, optimizer="adam")
    assert (graph.nodes, graph.edges, graph.sizes, graph.durations) == (
        ours.nodes,
        ours.edges,
        ours.sizes,
        ours.durations,
    )
    assert graph.fixed_memory["optimizer"] == 2 * graph.fixed_memory["parameters"]
    assert graph.attributes["made_by"]["versions"]["torch"] == torch.__version__


@pytest.mark.parametrize("mode", ["--training", "--inference"])
def test_import_torch_measures_durations(command, tmp_path, mode):
    path = tmp_path / "g.json"
    assert command("import", "torch", *TRANSFORMER, mode, "--profile", "1", "-o", path)[0] == 0
    graph = read_graph(path)
    assert graph.duration_unit == "ns"
    assert all(duration > 0 or node == "results" for node, duration in zip(graph.nodes, graph.durations, strict=True))


def test_import_torch_scales_durations(command, tmp_path):
    path = tmp_path / "g.json"
    assert command("import", "torch", *TRANSFORMER, "--scale", "1G", "-o", path)[0] == 0
    flop = import_torch(TRANSFORMER[0], ["2x16:int64"])
    assert read_graph(path).durations == flop.durations  # a FLOP takes a nanosecond


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nosuch:f", "--input", "3"], "nosuch:f: ModuleNotFoundError: No module named 'nosuch'"),
        ([*TRANSFORMER, "--profile", "1", "--scale", "1G"], "--profile measures time, --scale estimates it"),
        ([*TRANSFORMER, "--optimizer", "adam"], "optimizer adam needs training"),
        ([*TRANSFORMER, "--unknown-size", "much"], "--unknown-size 'much': expected stop, bytes, or NAME=BYTES"),
        ([TRANSFORMER[0], "--input", "2y16"], "input '2y16': expected 8x3x224x224"),
        ([TRANSFORMER[0]], "Missing option '--input'"),
    ],
)
def test_import_torch_rejects_bad_options_in_one_line(command, arguments, message):
    status, out, err = command("import", "torch", *arguments)
    assert (status, out) == (2, "")
    assert err.startswith("error: ") and err.count("\n") == 1 and message in err


def test_import_torch_help_warns_that_code_is_run(command):
    assert "THIS RUNS THE MODULE'S CODE" in command("import", "torch", "--help")[1]


def test_the_output_goes_where_it_was_checked_wherever_the_module_goes(command, tmp_path, monkeypatch):
    (tmp_path / "wanders.py").write_text(
        "import os\nfrom torch import nn\ndef make():\n    os.chdir('elsewhere')\n    return nn.Linear(3, 3)\n"
    )
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    status, _, err = command("import", "torch", "wanders.py:make", "--input", "2x3", "-o", "g.json")
    assert (status, err) == (0, "")
    assert len(read_graph("g.json").nodes) == 1
    assert not list((tmp_path / "elsewhere").iterdir())
