"""Specs, inputs, what is refused, and what the graph says of itself."""

from __future__ import annotations

import sys
import warnings

import pytest
import torch
from real_run import real_bytes
from torch import nn
from torch_registry import registered

from moccasin_mzn.base.errors import InputError
from moccasin_mzn.graphs.importers.program import Missing
from moccasin_mzn.graphs.importers.torch.graph import import_torch, versions
from moccasin_mzn.graphs.importers.torch.spec import Input, parse_inputs

LINEAR = registered(lambda: nn.Linear(8, 4))


def test_a_linear_layer():
    graph = import_torch(LINEAR, ["2x8"])
    assert graph.nodes == ("addmm",)
    assert graph.sizes == (2 * 4 * 4,)
    assert graph.durations == (2 * 2 * 8 * 4,)
    assert (graph.size_unit, graph.duration_unit) == ("byte", "FLOP")
    assert graph.fixed_memory == {"parameters": (8 * 4 + 4) * 4, "buffers": 0, "inputs": 2 * 8 * 4}
    assert graph.backward is None
    assert graph.attributes == {"network": LINEAR, "inputs": ["2x8"], "training": False, "optimizer": "none"}


def test_a_linear_layer_in_training():
    graph = import_torch(LINEAR, ["2x8"], training=True)
    assert graph.nodes == ("addmm", "sum_1", "ones_like", "mm", "sum_2", "results")
    assert graph.sizes == (2 * 4 * 4, 4, 4, 8 * 4 * 4, 4 * 4, 0)
    assert graph.durations == (2 * 2 * 8 * 4, 1, 1, 2 * 8 * 2 * 4, 4, 0)
    assert graph.edges == ((0, 1), (1, 2), (2, 3), (2, 4), (1, 5), (3, 5), (4, 5))
    assert graph.backward == (False, True, True, True, True, True)


@pytest.mark.parametrize(("optimizer", "times"), [("sgd", 0), ("momentum", 1), ("adam", 2)])
def test_an_optimizer_keeps_values_for_trained_parameters(optimizer, times):
    def half_frozen():
        network = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 4))
        network[0].requires_grad_(False)
        return network

    fixed = import_torch(registered(half_frozen), ["2x8"], training=True, optimizer=optimizer).fixed_memory
    assert fixed["optimizer"] == times * (8 * 4 + 4) * 4
    assert fixed["parameters"] == (8 * 8 + 8 + 8 * 4 + 4) * 4


class WithLoss(nn.Module):
    """Returns its loss, and logits beside it."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(10, 8)
        self.linear = nn.Linear(8, 10)

    def forward(self, tokens, *, targets=None):
        logits = self.linear(self.embedding(tokens))
        if targets is None:
            return logits
        return nn.functional.cross_entropy(logits, targets), logits


def test_a_scalar_output_is_the_loss():
    graph = import_torch(registered(WithLoss), ["targets=4:int64", "4:int64"], training=True)
    tokens = torch.zeros(4, dtype=torch.int64)
    assert graph.total_size == real_bytes(WithLoss(), tokens, targets=tokens, training=True)
    assert [label for label, back in zip(graph.labels, graph.backward, strict=True) if not back] == [
        "embedding aten.embedding", "linear aten.addmm", "aten._log_softmax"
    ]  # fmt: skip
    assert graph.labels[3] == "aten.nll_loss_forward"
    assert graph.fixed_memory["inputs"] == 2 * 4 * 8
    assert graph.attributes["inputs"] == ["targets=4:int64", "4:int64"]


def test_a_keyword_that_is_left_out_has_its_default():
    assert import_torch(registered(WithLoss), ["4:int64"]).nodes == ("embedding", "addmm")


def test_half_precision_and_other_types():
    graph = import_torch(registered(lambda: nn.Linear(8, 4).to(torch.bfloat16)), ["2x8:bfloat16"])
    assert graph.sizes == (2 * 4 * 2,)


def test_a_huge_network_needs_no_memory():
    def huge():
        with torch.device("meta"):
            return nn.Sequential(*(nn.Linear(100_000, 100_000) for _ in range(8)))

    graph = import_torch(registered(huge), ["4096x100000"], training=True)
    assert graph.fixed_memory["parameters"] == 8 * (100_000**2 + 100_000) * 4
    assert graph.durations[0] == 2 * 4096 * 100_000**2


def test_the_network_is_left_as_it_was():
    network = nn.Sequential(nn.Linear(8, 8), nn.LSTM(8, 8))
    parameters = list(network.parameters())
    spec = registered(lambda: network)
    assert import_torch(spec, ["2x8"]) == import_torch(spec, ["2x8"])
    assert all(after is before for after, before in zip(network.parameters(), parameters, strict=True))
    assert torch.equal(network[1]._flat_weights[0], network[1].weight_ih_l0)
    assert network(torch.zeros(2, 8))[0].shape == (2, 8)


# --- specs -----------------------------------------------------------------------------------------------------

SOURCE = """
import sys
from helper import WIDTH
from torch import nn
print("imported")
class zoo:
    @staticmethod
    def linear():
        print("made")
        return nn.Linear(WIDTH, 4)
def fails(): raise KeyError("no\\nsuch thing")
def leaves(): sys.exit("leaving")
def stops(): raise KeyboardInterrupt
def number(): return 7
constant = 3
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "my_networks.py").write_text(SOURCE)
    (tmp_path / "helper.py").write_text("WIDTH = 8")
    (tmp_path / "broken.py").write_text("def (")
    yield tmp_path
    for name in ("my_networks", "helper", "moccasin_network_my_networks"):
        sys.modules.pop(name, None)


def test_a_module_in_the_current_directory(folder, monkeypatch, capfd):
    monkeypatch.chdir(folder)
    before = list(sys.path)
    assert import_torch("my_networks:zoo.linear", ["2x8"]).nodes == ("addmm",)
    assert sys.path == before
    assert capfd.readouterr() == ("", "imported\nmade\n")


def test_a_file_and_what_stands_beside_it(folder):
    assert import_torch(f"{folder}/my_networks.py:zoo.linear", ["2x8"]).name == "zoo.linear inference, input 2x8"


@pytest.mark.parametrize(
    ("spec", "complaint"),
    [
        ("nothing", "network 'nothing': expected module:factory or path/to/file.py:factory"),
        (":linear", "network ':linear': expected module:factory"),
        ("my_networks:", "network 'my_networks:': expected module:factory"),
        ("my_networks:zoo.", "network 'my_networks:zoo.': expected module:factory"),
        ("my_networks:zoo.linear()", "network 'my_networks:zoo.linear()': expected module:factory"),
        ("no_such_module:f", "no_such_module:f: ModuleNotFoundError: No module named 'no_such_module'"),
        ("no_such_file.py:f", "no_such_file.py:f: FileNotFoundError: "),
        ("broken.py:f", "broken.py:f: SyntaxError: "),
        (".relative:f", ".relative:f: TypeError: "),
        ("my_networks:other", "my_networks:other: AttributeError: module 'my_networks' has no attribute 'other'"),
        ("my_networks:fails", "my_networks:fails: KeyError: 'no\\nsuch thing'"),
        ("my_networks:leaves", "my_networks:leaves: SystemExit: leaving"),
        ("my_networks:number", "my_networks:number returned 7, expected a torch.nn.Module"),
        ("my_networks:constant", "my_networks:constant is 3, expected a function that returns a torch.nn.Module"),
        (3, "network 3: expected module:factory"),
    ],
)
def test_import_torch_rejects_bad_specs_in_one_line(folder, monkeypatch, spec, complaint):
    monkeypatch.chdir(folder)
    with pytest.raises(InputError) as caught:
        import_torch(spec, ["2x8"])
    assert str(caught.value).startswith(complaint)
    assert len(str(caught.value).splitlines()) == 1


def test_an_interrupt_goes_through(folder, monkeypatch):
    monkeypatch.chdir(folder)
    with pytest.raises(KeyboardInterrupt):
        import_torch("my_networks:stops", ["2x8"])


# --- inputs ----------------------------------------------------------------------------------------------------


def test_input_texts_are_read():
    assert parse_inputs(["8x3x224x224", "mask=8:bool", "5:int64"]) == (
        Input((8, 3, 224, 224)), Input((8,), "bool", "mask"), Input((5,), "int64")
    )  # fmt: skip
    for text in ("8x3", "mask=8x1:bool"):
        assert str(Input.parse(text)) == text


@pytest.mark.parametrize(
    ("inputs", "complaint"),
    [
        ([""], "input '': expected 8x3x224x224"),
        (["8,3"], "input '8,3': expected"),
        (["8x"], "input '8x': expected"),
        (["8X3"], "input '8X3': expected"),
        ([" 8x3"], "input ' 8x3': expected"),
        (["-8x3"], "input '-8x3': expected"),
        (["8x3:"], "input '8x3:': expected"),
        (["١x٢"], "expected 8x3x224x224"),
        (["8=8"], "input '8=8': expected"),
        ([8], "input 8: expected"),
        (["8x0"], "input '8x0': dimensions are integers from 1 to"),
        (["9" * 5000], "a dimension is over"),
        (["1099511627777"], "dimensions are integers from 1 to 1099511627776"),
        (["8x8:float"], "input '8x8:float': unknown type float, expected one of float32, "),
        (["a=8", "a=8"], "input a is given twice"),
        ("2x8", "inputs are '2x8', expected a sequence"),
    ],
)
def test_bad_input_texts_are_refused(inputs, complaint):
    with pytest.raises(InputError) as caught:
        import_torch(LINEAR, inputs)
    assert complaint in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize(
    ("inputs", "complaint"),
    [
        (["2x9"], "on 2x9: RuntimeError: "),
        ([], "on no input: "),
        (["2x8", "2x8"], "on 2x8, 2x8: "),
        (["2x8", "other=2x8"], "on 2x8, other=2x8: "),
        (["1099511627776x1099511627776x1099511627776"], "RuntimeError: "),
    ],
)
@pytest.mark.parametrize("training", [False, True])
def test_import_torch_rejects_unfit_inputs_in_one_line(inputs, complaint, training):
    with pytest.raises(InputError) as caught:
        import_torch(LINEAR, inputs, training=training)
    assert complaint in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


# --- what cannot be traced -------------------------------------------------------------------------------------


class Branching(nn.Module):
    """Its course depends on a value."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, x):
        return self.linear(x) if x.sum() > 0 else x


class Selecting(Branching):
    """Its shapes depend on values."""

    def forward(self, x):
        return self.linear(self.linear(x)[x.sum(-1) > 0])


@pytest.mark.parametrize(("factory", "training"), [(Branching, False), (Branching, True), (Selecting, True)])
def test_data_dependent_control_flow_is_refused_in_one_line(factory, training, capfd):
    with pytest.raises(InputError, match="a branch or a shape depends on values") as caught:
        import_torch(registered(factory), ["2x8"], training=training)
    assert len(str(caught.value).splitlines()) == 1
    assert capfd.readouterr() == ("", "")


def test_shapes_that_depend_on_values_may_be_assumed():
    spec = registered(Selecting)
    with pytest.raises(InputError, match=r"2x8: the size is unknown of 2 nodes \(1 aten.index.Tensor, 1 aten.addmm\)"):
        import_torch(spec, ["2x8"])
    graph = import_torch(spec, ["2x8"], missing=Missing(size=64, duration=10))
    assert graph.sizes[-2:] == (64, 64)
    assert len(graph.attributes["assumed"]) == 2


@pytest.mark.parametrize(
    ("factory", "options", "complaint"),
    [
        (nn.ReLU, {"training": True}, " on 2x8: training: the network has no parameter to train"),
        (lambda: nn.Embedding(4, 4).requires_grad_(False), {"training": True}, "no parameter to train"),
        (nn.Identity, {}, " on 2x8: nothing is computed from the network's inputs"),
        (nn.ReLU, {"optimizer": "adam"}, "optimizer adam needs training"),
        (nn.ReLU, {"training": True, "optimizer": "sdg"}, "optimizer 'sdg', expected one of none, sgd"),
        (nn.LazyLinear, {}, ""),
    ],
)
def test_import_torch_refuses_conflicting_options(factory, options, complaint):
    with pytest.raises(InputError) as caught:
        import_torch(registered(factory), ["2x8"], **options)
    assert complaint in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


def test_outputs_must_depend_on_parameters():
    class Deaf(nn.Linear):
        def forward(self, x):
            return x * 2

    with pytest.raises(InputError, match="no output of the network depends on a parameter to train"):
        import_torch(registered(lambda: Deaf(8, 8)), ["2x8"], training=True)


def test_warnings_of_the_network_are_not_shown(capfd):
    class Warns(nn.Linear):
        def forward(self, x):
            warnings.warn("mind the gap", stacklevel=1)
            return super().forward(x)

    import_torch(registered(lambda: Warns(8, 8)), ["2x8"])
    assert capfd.readouterr() == ("", "")


def test_without_torch(monkeypatch):
    assert versions() == {"torch": torch.__version__}
    monkeypatch.setitem(sys.modules, "torch", None)
    for call in (versions, lambda: import_torch(LINEAR, ["2x8"])):
        with pytest.raises(InputError, match=r"^importing PyTorch modules needs the package torch: pip install -e '?/"):
            call()


class Products(nn.Module):
    """Products of vectors."""

    def __init__(self):
        super().__init__()
        self.bilinear = nn.Bilinear(8, 6, 5)
        self.vector = nn.Parameter(torch.ones(8))
        self.added = nn.Parameter(torch.ones(4))

    def forward(self, x, y):
        product = torch.addmv(self.added, x, self.vector)
        return (x @ self.vector).dot(product), torch.vdot(product, self.added), self.bilinear(x, y)


def test_products_of_vectors_count_multiply_adds():
    graph = import_torch(registered(Products), ["4x8", "4x6"])
    flops = {label.split("aten.")[1]: each for label, each in zip(graph.labels, graph.durations, strict=True)
             if "aten." in label}  # fmt: skip
    spanned = 4 * 5 * 8 * 6  # rows, outputs and both inputs: a product of two, and a multiply-add with the third
    wanted = {"mv": 2 * 4 * 8, "addmv": 2 * 4 * 8, "dot": 2 * 4, "vdot": 2 * 4, "_trilinear": 3 * spanned}
    assert wanted.items() <= flops.items()


class Residual(nn.Module):
    """The addition may overwrite either input, the last product only one of what it reads as itself and transposed."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, x):
        y = torch.relu(self.linear(x))
        z = y + self.linear(y)
        return (z * z.T).sum()


def test_pointwise_operators_may_overwrite_what_they_read_as_one_tensor():
    graph = import_torch(registered(Residual), ["8x8"])
    rows = {node: {graph.nodes[u] for u in row} for node, row in zip(graph.nodes, graph.in_place, strict=True) if row}
    assert rows == {"relu": {"addmm"}, "add": {"addmm_1", "relu"}}
