"""Temporary files of a run are in one folder, which goes with it, or, if it is killed, with the next run."""

import os
import subprocess
import sys
import tempfile

import pytest

from moccasin_mzn.base.temporary import PREFIX, own_folder, remove_the_left

pytest.importorskip("fcntl")
HOLD = """
import sys, tempfile
from moccasin_mzn.base.temporary import own_folder
with own_folder():
    open(tempfile.mkstemp()[1], "w").write("left")
    print(tempfile.gettempdir(), flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def base(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return tmp_path


@pytest.fixture
def holder(base):
    """Starts a process with a folder of its own; the process and the folder."""
    started = []

    def start():
        process = subprocess.Popen([sys.executable, "-c", HOLD], stdin=-1, stdout=-1, text=True)
        started.append(process)
        return process, process.stdout.readline().strip()

    yield start
    for process in started:
        process.kill()
        process.communicate()


def test_temporary_folder_is_removed_with_the_run(base):
    with own_folder():
        folder = tempfile.gettempdir()
        assert os.path.dirname(folder) == str(base) and os.path.basename(folder).startswith(PREFIX)
        assert os.environ["TMPDIR"] == folder and os.stat(folder).st_mode & 0o077 == 0
        seen = subprocess.check_output([sys.executable, "-c", "import tempfile; print(tempfile.mkdtemp())"], text=True)
        assert os.path.dirname(seen.strip()) == folder
    assert os.listdir(base) == [] and os.environ["TMPDIR"] == str(base) and tempfile.gettempdir() == str(base)


def test_temporary_folder_of_a_killed_run_is_removed_by_the_next(base, holder):
    killed, left = holder()
    _, used = holder()
    killed.kill()
    killed.wait()
    assert sorted(os.listdir(base)) == sorted(map(os.path.basename, (left, used)))
    with own_folder():
        assert not os.path.exists(left)
        assert len(os.listdir(used)) == 2  # the lock and the file
    assert os.listdir(base) == [os.path.basename(used)]


def test_temporary_folders_of_others_stay(base, tmp_path_factory, monkeypatch):
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (elsewhere / "lock").touch()
    (base / f"{PREFIX}link").symlink_to(elsewhere)
    for name in (f"{PREFIX}without-a-lock", "moccasin-other", f"{PREFIX}linked-lock"):
        (base / name).mkdir()
    (base / "moccasin-other" / "lock").touch()
    (base / f"{PREFIX}linked-lock" / "lock").symlink_to(elsewhere / "lock")
    (base / f"{PREFIX}file").touch()
    before = sorted(os.listdir(base))
    remove_the_left(str(base))
    assert sorted(os.listdir(base)) == before and (elsewhere / "lock").exists()
    (base / f"{PREFIX}mine").mkdir()
    (base / f"{PREFIX}mine" / "lock").touch()
    with monkeypatch.context() as other:
        other.setattr(os, "getuid", lambda: 12345)
        remove_the_left(str(base))
    assert (base / f"{PREFIX}mine").exists()
    remove_the_left(str(base))
    assert sorted(os.listdir(base)) == before


def test_runs_without_a_temporary_folder_continue(monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", "/proc/nowhere")
    with own_folder():
        assert tempfile.gettempdir() == "/proc/nowhere"


@pytest.mark.full
def test_commands_leave_no_temporary_folder(base):
    for words in (["list"], ["generate", "chain", "-n", "x"]):
        subprocess.run([sys.executable, "-m", "moccasin_mzn", *words], capture_output=True)
        assert os.listdir(base) == []
