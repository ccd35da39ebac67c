"""The command `run torch`: a network trained with a plan and without."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import run_networks
import torch
from step_networks import mlp
from step_runs import made, planned
from torch import nn

from moccasin_mzn.pytorch.side_by_side import FirstDifference, at_random, equality_text, side_by_side

NETWORKS = Path(run_networks.__file__)
LAYERS = [f"{NETWORKS}:layers", "--input", "64x16"]
TWO_STEPS = ["--threads", "1", "--seed", "0", "--steps", "2"]
QUICK = ["--time-limit", "20", *TWO_STEPS]


def told(out):
    return json.loads(out.splitlines()[-1])


@pytest.mark.parametrize("optimizer", ["sgd", "momentum", "adam"])
def test_all_figures_and_all_is_equal(command, optimizer):
    status, out, err = command("run", "torch", *LAYERS, "--budget", "0.7", *QUICK, "--optimizer", optimizer, "--json")
    assert status == 0, err
    found = told(out)
    assert found["equal"] and found["unequal"] == [] and found["largest_difference"] == 0.0 and found["steps"] == 2
    assert found["recomputations"] > 0
    assert found["plan"]["storage_peak"] == found["predicted_storage_peak"]
    assert found["plan"]["allocator_peak"] == found["predicted_peak"] <= found["budget"]
    assert found["budget"] < found["eager"]["allocator_peak"] and found["eager"]["storage_peak"] > 0
    assert len(found["plan"]["seconds"]) == len(found["eager"]["seconds"]) == 2
    assert err.splitlines()[-1].startswith("equal after 2 steps, bit for bit")


def test_a_saved_plan_is_run_without_a_search(command, tmp_path):
    path, target = tmp_path / "plan.json", ["--loss", "cross_entropy"]
    first = command("run", "torch", *LAYERS, "--input", "64:int64", *target, "--budget", "0.7", *QUICK, "--save", path)
    assert first[0] == 0, first[2]
    assert "computations are repeated" in first[1] and re.search("recomputations?, gap", first[2])
    lines = [line.split() for line in first[1].splitlines() if line.strip()]
    assert [line[0] for line in lines if line[0] in ("eager", "plan", "equal")] == ["eager", "plan", "equal"]
    second = command("run", "torch", LAYERS[0], *target, "--plan", path, "--steps", "1", "--json")
    assert second[0] == 0, second[2]
    kept = json.loads(path.read_text())
    assert {name: told(second[1])[name] for name in ("budget", "status")} == {
        name: kept[name] for name in ("budget", "status")
    }
    assert told(second[1])["steps"] == 1 and "gap" not in second[2]


def test_inputs_by_name_a_loss_of_ones_own_and_what_the_network_prints(command):
    given = ["--input", "8x4:int64", "--input", "scale=8x4x8", "--budget", "100%", *QUICK]
    status, out, err = command("run", "torch", f"{NETWORKS}:tokens", *given, "--json")
    assert status == 0, err
    assert out.count("\n") == 1 and "forward\n" in err
    own = ["--input", "64:int64", "--loss", f"{NETWORKS}:distance", "--evaluation", "--budget", "0.8"]
    status, out, err = command("run", "torch", *LAYERS, *own, *QUICK, "--json")
    assert status == 0 and told(out)["equal"], err


def test_the_least_budget(command):
    status, out, err = command("run", "torch", *LAYERS, "--budget", "least", *TWO_STEPS, "--time-limit", "10", "--json")
    assert status == 0 and told(out)["equal"], err
    found = told(out)
    assert found["least_proven"] <= found["predicted_peak"] == found["plan"]["allocator_peak"] <= found["budget"]
    assert found["budget"] < 0.7 * found["eager"]["allocator_peak"]


@pytest.mark.full
def test_accumulated_gradients_and_slow_memory_are_requested(command):
    asked = ["--budget", "0.6", "--gradients", "accumulated", "--slow-memory", "32KiB"]
    status, out, err = command("run", "torch", *LAYERS, *asked, *TWO_STEPS, "--time-limit", "8", "--json")
    assert status == 0 and told(out)["equal"], err
    assert "in host memory, gap" in err
    check_peaks(told(out))
    assert told(out)["gradients"] == "accumulated" and told(out)["predicted_slow_peak"] <= 32 * 1024


def check_peaks(found):
    predictions = {"allocator_peak": "predicted_peak", "storage_peak": "predicted_storage_peak"}
    predictions |= {"first_peak": "predicted_first_peak", "slow_peak": "predicted_slow_peak"}
    for measured, predicted in predictions.items():
        assert found["plan"][measured] == found[predicted]
    assert found["eager"]["slow_peak"] == 0 and found["eager"]["first_peak"] >= found["eager"]["allocator_peak"]


def test_accumulated_gradients_and_slow_memory_are_shown(command, tmp_path):
    path, (model, inputs) = tmp_path / "plan.json", made(lambda: (run_networks.layers(), [torch.randn(64, 16)]))
    planned(model, inputs, 0.45, gradients="accumulated", paging={"out_time": 0}).save(path)
    status, out, err = command("run", "torch", LAYERS[0], "--plan", path, "--steps", "2", "--json")
    assert status == 0 and told(out)["equal"], err
    check_peaks(told(out))
    assert told(out)["copies"] > 0 < told(out)["predicted_slow_peak"]
    assert told(out)["predicted_first_peak"] > told(out)["predicted_peak"]
    status, out, err = command("run", "torch", LAYERS[0], "--plan", path, "--steps", "1")
    lines = [line.split() for line in out.splitlines()]
    headings = (
        "allocator predicted storages predicted first step predicted host memory predicted ms over eager predicted"
    )
    assert status == 0 and headings.split() in lines, err


def test_run_torch_without_a_plan_exits_with_1(command):
    status, out, err = command("run", "torch", *LAYERS, "--budget", "1%", *QUICK, "--json")
    assert status == 1
    assert told(out)["status"] == "none" and "is proven" in told(out)["reason"]
    assert err.splitlines()[-1] == f"no plan: {told(out)['reason']}"


@pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="without oneDNN there is nothing to differ")
def test_an_lstm_is_trained_without_onednn(command):
    given = ["run", "torch", f"{NETWORKS}:lstm", "--input", "8x6x16", "--budget", "100%", *QUICK]
    assert command(*given, "--no-onednn")[0] == 0
    with torch.backends.mkldnn.flags(enabled=True):
        status, _, err = command(*given)
    assert status == 2 and "or by run torch --no-onednn" in err.splitlines()[-1]


def without_notes(err):
    """Lines but those on how far it is, of which there are some where two seconds have passed."""
    lines = filter(None, err.splitlines())
    return [line for line in lines if not re.match(r"( *\d+\.\d s  )?(tracing|running|measuring|searching) ", line)]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([LAYERS[0], "--budget", "0.5"], "Missing option '--input'"),
        (LAYERS, "Missing option '--budget'"),
        ([*LAYERS, "--budget", "much"], "budget 'much': expected"),
        ([*LAYERS, "--budget", "0.5", "--slow-memory", "much"], "budget 'much': expected"),
        ([*LAYERS, "--budget", "least", "--slow-memory", "1KiB"], "budget least is for recomputation alone"),
        ([*LAYERS, "--budget", "0.5", "--gradients", "lost"], "'lost' is not one of 'returned', 'accumulated'"),
        ([LAYERS[0], "--plan", "plan.json", "--gradients", "returned"], "--gradients does not go with --plan"),
        ([*LAYERS, "--budget", "0.5", "--time-limit", "-1"], "time limit -1.0 is not a positive"),
        ([*LAYERS, "--budget", "0.5", "--steps", "0"], "0 is not in the range"),
        ([*LAYERS, "--budget", "0.5", "--loss", "cross"], "loss 'cross': no function of torch.nn.functional"),
        ([*LAYERS, "--budget", "0.5", "--loss", "nosuch:f"], "nosuch:f: ModuleNotFoundError"),
        ([*LAYERS, "--budget", "0.5", "--device", "meta"], "device 'meta': expected cpu, cuda or cuda:N"),
        ([*LAYERS, "--budget", "0.5", "--device", "cuda:77"], "device 'cuda:77': "),
        ([*LAYERS, "--budget", "0.5", "--save", "no/folder"], "no/folder"),
        ([*LAYERS, "--budget", "0.5", "--save", str(NETWORKS)], "is the network, and would be lost"),
        ([*LAYERS, "--plan", "plan.json"], "--input does not go with --plan"),
        ([LAYERS[0], "--plan", "plan.json", "--seed", "0"], "--seed does not go with --plan"),
        ([LAYERS[0], "--plan", "nosuch.json"], "nosuch.json"),
        ([LAYERS[0], "--plan", str(NETWORKS)], "run_networks.py"),
        ([LAYERS[0], "--input", "64x15", "--budget", "0.5"], f"{LAYERS[0]}: RuntimeError: "),
        ([f"{NETWORKS}:wrong", "--input", "4x16", "--budget", "0.5"], "wrong: RuntimeError: unflatten"),
        ([f"{NETWORKS}:number", "--input", "4", "--budget", "0.5"], "returned 3, expected a torch.nn.Module"),
    ],
)
def test_run_torch_rejects_bad_options_in_one_line(command, arguments, message):
    status, out, err = command("run", "torch", *arguments)
    assert (status, out) == (2, "")
    (line,) = without_notes(err)
    assert line.startswith("error: ") and message in line


@pytest.mark.full
def test_an_interrupt_keeps_the_best_plan():
    given = [sys.executable, "-m", "moccasin_mzn", "run", "torch", f"{NETWORKS}:dense", "--input", "64x8", "--json"]
    given += ["--budget", "0.6", "--threads", "1", "--time-limit", "500", "--steps", "1"]
    with subprocess.Popen(given, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        lines = [*until("a plan with", process.stderr)]
        process.send_signal(signal.SIGINT)
        out, err = process.communicate()
    found = json.loads(out)
    assert process.returncode == 0, [*lines, err]
    assert found["status"] == "feasible" and found["equal"]


def test_an_interrupt_while_operators_are_measured_is_one_line(command, monkeypatch):
    from moccasin_mzn.pytorch.operator_costs import MEASURED_COSTS
    from moccasin_mzn.pytorch.operator_process import worker
    from moccasin_mzn.pytorch.operator_worker import Findings

    monkeypatch.setattr(MEASURED_COSTS, "known", {})
    calls = []

    def interrupting(findings, sample):
        calls.append(sample)
        if len(calls) > 5:
            raise KeyboardInterrupt

    monkeypatch.setattr(Findings, "add", interrupting)
    state = torch.get_rng_state()
    status, out, err = command("run", "torch", *LAYERS, "--budget", "0.7", *QUICK)
    assert (status, out, without_notes(err), len(calls)) == (2, "", ["error: interrupted"], 6)
    assert not worker().running
    assert torch.equal(torch.get_rng_state(), state)


def until(text, lines):
    for line in iter(lines.readline, ""):
        yield line
        if text in line:
            return


def test_an_interrupt_during_the_steps_keeps_those_that_are_done(monkeypatch):
    model, inputs = made(mlp)
    found = planned(model, inputs, 1.0)
    calls = []

    step = torch.optim.SGD.step

    def interrupting(optimizer):
        calls.append(optimizer)
        if len(calls) > 4:  # two for each step
            raise KeyboardInterrupt
        return step(optimizer)

    monkeypatch.setattr(torch.optim.SGD, "step", interrupting)
    beside = side_by_side(found, inputs, {}, steps=50)
    assert beside.steps == 2 and beside.equal
    assert len(beside.plan.seconds) == len(beside.eager.seconds) == 2


def test_a_difference_is_found_and_the_state_is_left_as_it_was():
    class Product(nn.Module):  # its derivative is computed by other operators where values are not known
        def __init__(self):
            super().__init__()
            self.line, self.norm = nn.Linear(6, 6), nn.BatchNorm1d(6)

        def forward(self, x):
            return self.norm(self.line(x)).prod()

    torch.manual_seed(0)
    model, x = Product(), torch.rand(3, 6)
    found = planned(model, [x], 1.0, verify=False)
    before, random = {name: value.clone() for name, value in model.state_dict().items()}, torch.get_rng_state()
    beside = side_by_side(found, [x], {}, steps=3)
    assert not beside.equal and 0 < beside.largest_difference < 1e-3
    assert "gradient of line.weight" in beside.unequal
    first = beside.first
    assert first.name == beside.unequal[0] and first.step == 1
    assert 0 < first.difference <= beside.largest_difference and first.difference < first.largest
    text = equality_text(beside)
    assert text.startswith(
        f"not equal after 3 steps: first {first.name} in step 1, by up to {first.difference:.3g} where "
    )
    assert "; also " in text and text.endswith(f"the largest difference of all is {beside.largest_difference:.3g}")
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert torch.equal(torch.get_rng_state(), random) and model.line.weight.grad is None


@pytest.mark.parametrize(
    ("eager", "planned", "text"),
    [
        (torch.tensor([1.0, -4.0]), torch.tensor([1.5, -4.0]), "by up to 0.5 where the largest is 4"),
        (torch.tensor([2, 7]), torch.tensor([2, 9]), "by up to 2 where the largest is 7"),
        (torch.tensor([True]), torch.tensor([False]), "by up to 1 where the largest is 1"),
        (torch.tensor([3 + 4j]), torch.tensor([0j]), "by up to 5 where the largest is 5"),
        (torch.tensor([1.0]), None, "which has another form"),
        (None, torch.tensor([1.0]), "which has another form"),
        (torch.zeros(0), torch.zeros(0, 2), "which has another form"),
    ],
)
def test_the_first_difference_is_a_sentence_whatever_it_is_of(eager, planned, text):
    assert str(FirstDifference.of("output 0", 2, eager, planned)) == f"output 0 in step 2, {text}"


def test_what_is_no_number_equals_itself():
    class Root(nn.Module):
        def __init__(self):
            super().__init__()
            self.line = nn.Linear(6, 6)

        def forward(self, x):
            return self.line(x).sqrt()

    torch.manual_seed(0)
    model, x = Root(), torch.randn(3, 6)
    assert model(x).isnan().any()
    assert side_by_side(planned(model, [x], 1.0), [x], {}).equal


def test_values_of_inputs():
    for dtype in (torch.int64, torch.uint8, torch.bool):
        assert set(at_random(torch.empty(100, dtype=dtype)).tolist()) == {0, 1}
    assert at_random(torch.empty(100, dtype=torch.bfloat16)).float().std() > 0.5


def test_run_torch_help_warns_that_code_is_run(command):
    assert "THIS RUNS THE MODULE'S CODE" in command("run", "torch", "--help")[1]
