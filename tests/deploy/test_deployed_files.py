"""What `deploy c` and `deploy tflite` keep of a deployment, and what a compiler makes of it."""

from __future__ import annotations

import json
import re
import shutil
import subprocess

import int8_networks
import pytest
import tflite_models
from few import few

QUICK = ("--time-limit", 1, "--seed", 0)
TENSORS = ("--budget-for", "tensors")
TFLITE = ("skipping", "two_results", "choosing", "streaming", "joining", "dequantizing")
WAYS = {
    "whole": ("--budget", "1.0"), "free": ("--budget", "1.0", "--order", "free"),
    "in parts": ("--budget", "1.0", "--tile", 2),
    "without copies": ("--budget", "1.0", "--zero-copy-concat"), "auto": ("--budget", "0.8", "--tile", "auto"),
}  # fmt: skip
needs_compiler = pytest.mark.skipif(shutil.which("cc") is None or shutil.which("size") is None, reason="no compiler")


def accepted(command, asked, folder):
    """Deploy, and have the schedule judged that was kept: it fits its arena, as printed."""
    files = {name: folder / name for name in ("schedule.json", "graph.json", "plot.svg")}
    options = [part for name, path in files.items() for part in (f"--{name.split('.')[0]}", path)]
    status, out, err = command(*asked, *options, "--json")
    if status == 1:
        assert "no schedule" in err and not any(path.exists() for path in files.values())
        return None
    assert status == 0, err
    status, told, _ = command("validate", files["graph.json"], files["schedule.json"])
    document = json.loads(files["schedule.json"].read_text())
    assert status == 0 and told.startswith("valid: "), told
    assert ("no overlap" in told and "within the budget" in told) or not document["budget"]
    assert "<svg" in files["plot.svg"].read_text()
    return json.loads(out), document


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", few(TFLITE, keep=("two_results", "streaming")))
def test_what_tflite_deploys_is_valid_as_it_is_kept(name, way, command, tmp_path):
    path = tmp_path / "model.tflite"
    path.write_bytes(getattr(tflite_models, name)())
    asked = ("deploy", "tflite", path, *WAYS[way], *TENSORS, "-o", tmp_path / "new.tflite", *QUICK)
    found = accepted(command, asked, tmp_path)
    assert found is None or -(-found[1]["arena"] // 16) * 16 == found[0]["arena"]
    assert found is not None or way in ("auto", "in parts")


@pytest.mark.parametrize("way", [(), *WAYS.values()])
@pytest.mark.parametrize("name", few(["resnet8", "autoencoder", "keyword_spotting"], keep=1))
def test_what_c_deploys_is_valid_as_it_is_kept(name, way, command, tmp_path):
    path = tmp_path / "model.tflite"
    path.write_bytes(getattr(int8_networks, name)())
    found = accepted(command, ("deploy", "c", path, *way, "-o", tmp_path / "c", *QUICK), tmp_path)
    assert found is None or found[1]["arena"] == found[0]["arena"]
    assert found is not None or "auto" in way


def test_a_plan_that_is_given_is_kept_as_it_is_placed(command, tmp_path):
    model, graph, plan = (tmp_path / name for name in ("model.tflite", "imported.json", "plan.json"))
    model.write_bytes(tflite_models.skipping())
    assert command("import", "tflite", model, "-o", graph)[0] == 0
    assert command("solve", graph, "--budget", "22KiB", *QUICK, "--output", plan)[0] == 0
    told, document = accepted(command, ("deploy", "tflite", model, plan, "-o", tmp_path / "new.tflite"), tmp_path)
    assert document["sequence"] == json.loads(plan.read_text())["sequence"] and document["arena"] == told["arena"]


@pytest.mark.parametrize("kind", ["c", "tflite"])
@pytest.mark.parametrize("option", ["--schedule", "--graph", "--plot"])
def test_what_is_kept_overwrites_nothing(kind, option, command, tmp_path):
    path, folder = tmp_path / "model.svg", tmp_path / "new"
    path.write_bytes(before := int8_networks.resnet8())
    status, _, err = command("deploy", kind, path, "--budget", "1.0", "-o", folder, option, path)
    assert status == 2 and "is the model, and would be lost" in err and path.read_bytes() == before
    if kind == "c":
        folder.mkdir()
        status, _, err = command("deploy", "c", path, "-o", folder, "--schedule", folder / "model.c")
        assert status == 2 and "would be one file" in err and not [*folder.iterdir()]
    status, _, err = command("deploy", kind, path, "--budget", "1.0", "-o", folder, option, tmp_path / "no" / "x.svg")
    assert status == 2 and len(err.splitlines()) == 1


@needs_compiler
@pytest.mark.few(1)
@pytest.mark.parametrize("prefix", ["model", "net_run"])
@pytest.mark.parametrize("flags", ["-O2", "-O0", "-Os -g"])
def test_code_and_stack_are_those_of_the_makefile(prefix, flags, command, tmp_path, monkeypatch):
    path, folder = tmp_path / "model.tflite", tmp_path / "c"
    path.write_bytes(int8_networks.resnet8())
    monkeypatch.setenv("CFLAGS", flags)
    told = json.loads(command("deploy", "c", path, "-o", folder, "--prefix", prefix, "--json", *QUICK)[1])
    made = subprocess.run(["make", "-s", "stack"], cwd=folder, capture_output=True, text=True, check=True).stdout
    assert told["stack"] == int(re.search(r"at most (\d+) bytes", made)[1]) > 100
    subprocess.run(["make", "-s", "size"], cwd=folder, capture_output=True, check=True)
    listed = subprocess.run(["objdump", "-h", f"{prefix}.o", "kernels.o"], cwd=folder, capture_output=True, text=True,
                            check=True).stdout  # fmt: skip
    assert told["code"] == sum(int(size, 16) for size in re.findall(r"^ +\d+ \.text\S* +([0-9a-f]{8}) ", listed, re.M))
    assert told["compiler"].startswith(f"cc {flags}, ") and told["macs"] == 12_534_474
    shown = command("deploy", "c", path, "-o", folder, "--prefix", prefix, *QUICK)[1]
    assert f"{told['code']:,} bytes by cc {flags}, " in shown and f"at most {told['stack']:,} bytes" in shown


@pytest.mark.parametrize(
    ("variable", "value", "reason"),
    [("CC", "no-such-cc", "there is no no-such-cc here"), ("SIZE", "no-such-size", "there is no no-such-size here"),
     ("CC", "false", "false or size cannot measure it"), ("CFLAGS", "--no-such-option", "cannot measure it")],
)  # fmt: skip
def test_where_no_compiler_measures_that_is_shown(variable, value, reason, command, tmp_path, monkeypatch):
    path = tmp_path / "model.tflite"
    path.write_bytes(int8_networks.autoencoder())
    monkeypatch.setenv(variable, value)
    asked = ("deploy", "c", path, "-o", tmp_path / "c", *QUICK)
    status, out, _ = command(*asked)
    assert status == 0 and (reason in out or (variable != "CC" and "there is no" in out)) and "make stack" in out
    assert [json.loads(command(*asked, "--json")[1])[key] for key in ("code", "stack", "compiler")] == [None] * 3
