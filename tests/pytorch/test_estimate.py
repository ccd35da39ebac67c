"""What a step takes, found without running it, against what a run takes."""

from __future__ import annotations

import json
from functools import partial

import pytest
import run_networks
import torch
from step_networks import mlp, resnet
from torch import nn
from torch.utils.checkpoint import checkpoint

from moccasin_mzn.base.errors import InputError
from moccasin_mzn.base.formatting import bytes_text
from moccasin_mzn.pytorch import PlanError, cards, estimate
from moccasin_mzn.pytorch.measuring import allocator_peak, peak_and_end

LAYERS = [f"{run_networks.__file__}:layers", "--input", "64x16"]


def squared(outputs):
    return outputs.square().mean()


def step_of(model, inputs, loss=squared):
    def step():
        outputs = loss(model(*inputs))
        outputs.backward()
        return outputs

    return step


def measured(model, inputs, optimizer):
    """What a forward pass retains, the peak of a step, and that with the optimizer's, of a later step."""
    step = step_of(model, inputs)
    step(), optimizer.step()
    model.zero_grad(set_to_none=True)
    kept = peak_and_end(lambda: squared(model(*inputs)))[1]
    peak = allocator_peak(step)
    model.zero_grad(set_to_none=True)
    return kept, peak, allocator_peak(lambda: (step(), optimizer.step()))


@pytest.mark.parametrize("made", [mlp, resnet])
@pytest.mark.parametrize("name", ["Adam", "SGD", "RMSprop"])
def test_it_is_what_a_run_takes(made, name):
    model, inputs = made()
    optimizer = getattr(torch.optim, name)(model.parameters())
    found = estimate(model, inputs, loss=squared, optimizer=optimizer, least=False)
    assert all(parameter.grad is None for parameter in model.parameters()) and not optimizer.state
    kept, peak, whole = measured(model, inputs, optimizer)
    assert found.activations == pytest.approx(kept, rel=0.002)
    assert found.step_peak == pytest.approx(peak, rel=0.002)
    assert max(found.step_peak, found.optimizer_peak) == pytest.approx(whole, rel=0.002)
    assert found.peak == found.fixed + max(found.step_peak, found.optimizer_peak)
    state = [each for its in optimizer.state.values() for each in its.values()]
    assert found.optimizer_state == sum(each.nbytes for each in state)
    assert found.gradients == found.parameters == sum(each.nbytes for each in model.parameters())


def test_checkpoints_of_the_network_are_run_as_they_are():
    class Network(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers, self.recomputed = mlp()[0], True

        def forward(self, x):
            if self.recomputed:
                return checkpoint(self.layers, x, use_reentrant=False, preserve_rng_state=False)
            return self.layers(x)

    model, inputs = Network(), mlp()[1]
    found = {}
    for model.recomputed in (True, False):
        found[model.recomputed] = estimate(model, inputs, loss=squared, least=False)
        step_of(model, inputs)()  # libraries prepare something that they keep
        model.zero_grad(set_to_none=True)
        peak = allocator_peak(step_of(model, inputs))
        model.zero_grad(set_to_none=True)
        assert found[model.recomputed].step_peak == pytest.approx(peak, rel=0.002)
    assert found[True].activations < found[False].activations / 4


def test_a_network_without_memory_and_a_card_that_is_not_here():
    with torch.device("meta"):
        model = nn.Sequential(*(nn.Linear(16384, 16384) for _ in range(24)))
        inputs = [torch.empty(8, 16384)]
    found = estimate(model, inputs, loss=squared, optimizer="adamw", device="cuda:H100", time_limit=20)
    assert found.parameters == sum(each.nbytes for each in model.parameters()) > 24 << 30
    assert found.optimizer_state == pytest.approx(2 * found.parameters, rel=1e-3)
    assert found.fits is False and found.fits_with_plan is False and found.device == "H100"
    assert found.step == found.step_peak and f"step         {bytes_text(found.step)}," in found.report()
    assert "H100 has 79.65 GiB" in found.report() and "not even" in found.report()
    assert found.least.proven <= found.least.step <= found.step_peak and not found.workspaces
    assert found.phase == "optimizer step" and found.optimizer_peak > found.gradients
    assert estimate(model, inputs, loss=squared, device="cuda:h200", least=False).fits


@pytest.mark.parametrize(
    ("written", "mebibytes"),
    [
        *[(name, amount) for name, amount in cards._CARDS.items()],
        ("NVIDIA A100-SXM4-80GB", 81_920), ("a100 40gb", 40_960), ("NVIDIA H100 80GB HBM3", 81_559),
        ("NVIDIA GeForce RTX 4090", 24_564), ("Tesla T4", 15_360), ("RTX A6000", 49_140), ("L4-24GB", 23_034),
        ("AMD Instinct MI300X", 196_592), ("80GiB", 81_920), ("1.5TiB", 1_572_864), ("2048MiB", 2048),
    ],
)  # fmt: skip
def test_cards_are_known_by_name_however_it_is_written_or_by_their_memory(written, mebibytes):
    assert cards.target_of(f"cuda:{written}", "cpu").capacity == mebibytes << 20


@pytest.mark.parametrize("name", ["A100", "V100", "RTX3080", "RTX 4060 Ti", "rtx5060ti", "P100-32GB", "H100-40GB"])
def test_a_card_of_several_memories_or_of_another_one_is_not_guessed(name):
    with pytest.raises(InputError, match="cuda:.* and cuda:|is not known: expected one of"):
        cards.target_of(f"cuda:{name}", "cpu")


def test_blocks_of_cuda_are_counted():
    model, inputs = nn.Linear(3, 5), [torch.randn(2, 3)]
    found = {device: estimate(model, inputs, loss=squared, device=device, least=False) for device in ("cpu", "cuda:T4")}
    assert found["cpu"].parameters == 4 * (15 + 5) and found["cuda:T4"].parameters == 2 * 512
    assert found["cuda:T4"].gradients == 2 * 512 and found["cuda:T4"].peak % 512 == 0


def test_numbers_of_inputs_are_read_where_they_are_there():
    class Network(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(8, 8)

        def forward(self, x, mask):
            x = self.layer(x)
            return x if mask.all() else x[mask].tanh()

    model, x = Network(), torch.randn(64, 8)
    for kept in (64, 16):
        mask = torch.arange(64) < kept
        found = estimate(model, (x, mask), loss=squared, least=False)
        step_of(model, (x, mask))()
        model.zero_grad(set_to_none=True)
        assert found.step_peak == pytest.approx(allocator_peak(step_of(model, (x, mask))), rel=0.05)
        model.zero_grad(set_to_none=True)
    with pytest.raises(PlanError, match=r"reads values that are not there.*test_estimate.py:\d+"):
        estimate(model, (x, torch.empty(64, dtype=torch.bool, device="meta")), loss=squared)


def test_what_a_network_retains_is_left_as_it_was():
    class Network(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer, self.calls, self.last = nn.Linear(8, 8), 0, None

        def forward(self, x):
            self.calls, self.last = self.calls + 1, x
            return self.layer(x)

    model, inputs = Network(), [torch.randn(4, 8)]
    before = torch.get_rng_state()
    estimate(model, inputs, loss=squared, optimizer="adam", least=False)
    assert model.calls == 0 and model.last is None and type(model.layer.weight) is nn.Parameter
    assert torch.equal(torch.get_rng_state(), before)
    assert model(torch.ones(2, 8)).shape == (2, 8)


def test_tables_by_module_and_pictures(tmp_path):
    model, inputs = resnet()
    found = estimate(model, inputs, loss=squared, optimizer="adam", least=False)
    rows = found.records(1)
    assert {"0", "4", "5", "6", "9"} < {row["module"] for row in rows}
    assert sum(row["parameters"] for row in rows) == found.parameters
    assert sum(row["activations"] for row in rows) == found.activations
    assert "4.first" in {row["module"] for row in found.records(2)}
    assert list(found.to_frame().columns) == ["module", "parameters", "optimizer_state", "activations"]
    assert found.figures().keys() >= {"peak", "step", "kept"}
    for form in ("svg", "html"):
        found.plot(tmp_path / f"memory.{form}")
        text = (tmp_path / f"memory.{form}").read_text()
        assert all(each in text for each in ("activations", "optimizer state", "backward pass", "memory, "))
    assert "layer-0" in (tmp_path / "memory.svg").read_text()


def test_an_optimizer_with_a_scheduler_is_not_stepped():
    model, inputs = mlp()
    optimizer = torch.optim.SGD(model.parameters(), momentum=0.9)
    torch.optim.lr_scheduler.StepLR(optimizer, 1)
    before = [each.clone() for each in model.parameters()]
    found = estimate(model, inputs, loss=squared, optimizer=optimizer, least=False)
    assert found.optimizer_state == found.parameters and not optimizer.state and found.optimizer == "SGD"
    assert all(map(torch.equal, before, model.parameters()))


def test_optimizers_of_other_kinds():
    model, inputs = mlp()
    state = {}
    for name, chosen in {
        "none": None, "sgd": "sgd", "momentum": "momentum", "amsgrad": partial(torch.optim.Adam, amsgrad=True),
        "nadam": torch.optim.NAdam, "adafactor": "Adafactor",
    }.items():  # fmt: skip
        state[name] = estimate(model, inputs, loss=squared, optimizer=chosen, least=False).optimizer_state
    whole = sum(each.nbytes for each in model.parameters())
    assert state["none"] == state["sgd"] == 0 and state["momentum"] == whole
    assert state["amsgrad"] == pytest.approx(3 * whole, rel=0.01)
    assert state["amsgrad"] > state["nadam"] > 2 * whole > state["adafactor"] > 0


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"optimizer": "adamwq"}, "none of this name, did you mean adamw"),
        ({"optimizer": torch.optim.LBFGS}, "cannot be run on tensors without values"),
        ({"optimizer": 3}, "expected a name, a class, or an optimizer"),
        ({"device": "cuda:H1000"}, "not known: expected one of T4, "),
        ({"device": "cuda:A100"}, "several memories, cuda:A100-40GB and cuda:A100-80GB"),
        ({"device": "cuda:0GiB"}, "'0GiB' is no amount of memory, such as 80GiB"),
        ({"device": "tpu"}, "expected cpu, cuda, or a card"),
        ({"workspaces": "some"}, "workspaces 'some': expected one of measured, none"),
    ],
)
def test_nonsense_is_refused(how, message):
    model, inputs = mlp()
    with pytest.raises(InputError, match=message):
        estimate(model, inputs, loss=squared, **how)


def test_an_optimizer_of_another_network_is_refused():
    model, inputs = mlp()
    with pytest.raises(InputError, match="of another network"):
        estimate(model, inputs, loss=squared, optimizer=torch.optim.Adam(mlp()[0].parameters()))


def test_a_step_that_cannot_be_planned_is_estimated():
    class Network(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(8, 8)

        def forward(self, x, mask):
            return self.layer(x)[mask]

    found = estimate(Network(), (torch.randn(64, 8), torch.arange(64) < 9), loss=squared)
    assert found.least is None and "data-dependent" in found.no_plan and found.no_plan in found.report()
    assert found.least_peak is None and found.step_peak > 0


def test_the_command_estimates(command, tmp_path):
    target = ["--input", "64:int64", "--loss", "cross_entropy", "--estimate", "--time-limit", "10", "--seed", "0"]
    status, out, err = command("run", "torch", *LAYERS, *target, "--optimizer", "adam", "--plot", tmp_path / "m.svg")
    assert status == 0, err
    assert out.startswith("peak ") and "state of adam" in out and "outside of modules" in out
    assert (tmp_path / "m.svg").exists()
    status, out, err = command("run", "torch", *LAYERS, *target, "--device", "cuda:L4", "--json")
    found = json.loads(out)
    assert status == 0 and found["fits"] is True and found["capacity"] == 23_034 << 20 and found["modules"]
    status, _, err = command("run", "torch", *LAYERS, *target, "--budget", "0.5")
    assert status == 2 and "--budget does not go with --estimate" in err
