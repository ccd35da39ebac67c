"""Networks as C on a Cortex-M4: QEMU puts out what LiteRT's reference kernels do on the host."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import c_programs
import int8_networks
import pytest

from moccasin_mzn.deploy.c.deployment import folder_of
from moccasin_mzn.graphs.tiling.cutting import cuts_of

pytestmark = pytest.mark.skipif(
    not shutil.which("arm-none-eabi-gcc") or not shutil.which("qemu-system-arm"),
    reason="no compiler for Arm, or no QEMU",
)
SUPPORT = Path(__file__).resolve().parents[1] / "support"
FLAGS = "-mcpu=cortex-m4 -mthumb -O2 -ffunction-sections -Wl,--gc-sections -nostartfiles --specs=rdimon.specs"
QEMU = "qemu-system-arm -M mps2-an386 -nographic -semihosting-config enable=on,target=native -kernel test.elf"


@pytest.mark.parametrize("rows", [None, 2])
@pytest.mark.parametrize("name", ["keyword_spotting", "resnet8", "autoencoder"])
def test_a_microcontroller_puts_out_the_same(name, rows, tmp_path):
    net = c_programs.network(int8_networks.NETWORKS[name](), tmp_path)
    program = c_programs.in_order(net, None if rows is None else cuts_of(net.graph, rows=rows))
    for file, text in folder_of(program, 3).items():
        (tmp_path / file).write_text(text)
    files = [str(SUPPORT / "mps2_startup.c"), "test.c", "model.c", "kernels.c", "-lm"]
    command = ["arm-none-eabi-gcc", *c_programs.STRICT.split(), *FLAGS.split(), "-T", str(SUPPORT / "mps2.ld"), *files]
    found = subprocess.run([*command, "-o", "test.elf"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr
    found = subprocess.run(QEMU.split(), cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120)
    assert (found.returncode, found.stdout) == (0, f"3 of 3 outputs are equal, arena {program.arena} bytes\n")
