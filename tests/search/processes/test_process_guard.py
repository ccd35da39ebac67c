"""A command under guard leaves nothing behind, however it ends."""

import os
import secrets
import signal
import subprocess
import sys
import tempfile
import threading
import time

import psutil
import pytest
from process_support import TREE, assert_gone, python, survivors, wait_until

from moccasin_mzn.base.errors import InputError
from moccasin_mzn.search.processes.guarded import Ending, allowed_cores, run_guarded

pytestmark = pytest.mark.skipif(os.name != "posix", reason="the commands of these tests fork")

PARENT = "import sys; from moccasin_mzn.search.processes.guarded import run_guarded; run_guarded(sys.argv[1:])"
BURN = """
import os, time
end = time.process_time() + 0.3
while time.process_time() < end:
    pass
"""


@pytest.fixture
def mark():
    """A text that only the processes of one test know; whatever a failed test leaves is killed."""
    text = "mark-" + secrets.token_hex(8)
    yield text
    for pid, _ in survivors(text):
        os.kill(pid, signal.SIGKILL)


def tree_of_four(mark, *arguments):
    return python(TREE, mark, *arguments)


def test_output_errors_and_status_arrive():
    lines, errors = [], []
    code = "import sys; print('one'); print('error', file=sys.stderr); print('two', end=''); sys.exit(3)"
    ending = run_guarded(python(code), on_line=lines.append, on_error_line=errors.append)
    assert (lines, errors) == (["one", "two"], ["error"])
    assert (ending.how, ending.exit_status, ending.stderr) == ("exited", 3, "error\n")


def test_a_command_may_print_its_environment():
    lines = []
    ending = run_guarded(["env"], on_line=lines.append)
    assert (ending.how, ending.exit_status) == ("exited", 0)
    assert len([line for line in lines if line.startswith("MOCCASIN_GUARD_")]) >= 1


def test_a_command_may_list_processes():
    lines = []
    code = "import os, psutil; print(*psutil.Process(os.getppid()).cmdline())"
    ending = run_guarded(python(code), on_line=lines.append)
    assert (ending.how, ending.exit_status) == ("exited", 0)
    assert "moccasin_mzn.search.processes.guard" in lines[0] and lines[0].endswith("cmdline())")


def test_there_is_no_input_to_wait_for():
    assert run_guarded(python("import sys; sys.exit(len(sys.stdin.read()))")).exit_status == 0


def test_a_signal_is_reported_as_a_negative_status():
    ending = run_guarded(python("import os; os.kill(os.getpid(), 11)"))
    assert (ending.how, ending.exit_status) == ("exited", -signal.SIGSEGV)


def test_a_command_that_cannot_start(tmp_path):
    ending = run_guarded([tmp_path / "missing"])
    assert (ending.how, ending.exit_status) == ("exited", 127)
    assert ending.stderr == f"{tmp_path / 'missing'}: cannot be run: No such file or directory\n"
    (tmp_path / "text").write_text("no program")
    assert run_guarded([tmp_path / "text"]).exit_status == 126


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"command": []}, r"command \[\] is not a list"),
        ({"command": "true"}, "command 'true' is not a list"),
        ({"command": ["true"], "hard_limit": 0}, "hard limit 0 is not a positive"),
        ({"command": ["true"], "hard_limit": float("nan")}, "hard limit nan is not a positive"),
        ({"command": ["true"], "memory_limit": 0}, "memory limit 0 is not a positive"),
        ({"command": ["true"], "cores": frozenset()}, r"cores \[\]: this process may use"),
        ({"command": ["true"], "cores": frozenset({1_000_000})}, r"cores \[1000000\]: this process may use"),
    ],
)
def test_guard_rejects_wrong_limits(arguments, message):
    with pytest.raises(InputError, match=message):
        run_guarded(**arguments)


@pytest.mark.full
def test_much_output_on_both_streams_does_not_block():
    code = "import sys\nfor k in range(100_000):\n  print(k, '.' * 50)\n  print(k, '!' * 50, file=sys.stderr)"
    lines = []
    ending = run_guarded(python(code), on_line=lines.append, hard_limit=60)
    assert (ending.how, len(lines)) == ("exited", 100_000)
    assert len(ending.stderr) == 4_000
    assert ending.stderr.endswith("99999 " + "!" * 50 + "\n")


def test_output_that_nobody_takes_in_time_does_not_block():
    ending = run_guarded(python("print('.' * 1_000_000)"), on_line=lambda line: time.sleep(0.5))
    assert (ending.how, ending.exit_status) == ("exited", 0)


def test_a_command_that_makes_its_stdout_not_blocking():
    code = "import os, sys; os.set_blocking(1, False); sys.stdout.write('.' * 60_000 + '\\n')"
    lines = []
    ending = run_guarded(python(code), on_line=lambda line: (time.sleep(0.3), lines.append(line)))
    assert (ending.how, ending.exit_status, lines) == ("exited", 0, ["." * 60_000])


def test_callers_thread_gets_the_lines():
    threads = set()
    run_guarded(python("print(1)"), on_line=lambda line: threads.add(threading.current_thread()))
    assert threads == {threading.current_thread()}


def test_what_a_command_leaves_behind_is_killed(mark):
    lines = []
    ending = run_guarded(tree_of_four(mark, "leave", 0.5), on_line=lines.append)
    assert (ending.how, ending.exit_status, len(lines)) == ("exited", 0, 3)
    assert survivors(mark) == []


def test_hard_limit_ends_the_whole_tree(mark):
    lines = []
    ending = run_guarded(tree_of_four(mark), hard_limit=1.0, on_line=lines.append)
    assert (ending.how, ending.exit_status, len(lines)) == ("time", -signal.SIGKILL, 4)
    assert survivors(mark) == []
    assert ending.seconds < 60  # they would sleep for ten minutes


def test_memory_limit_counts_the_whole_tree(mark):
    code = "import os, time; os.fork(); text = b'.' * 150_000_000; time.sleep(600)"
    ending = run_guarded(python(code, mark), memory_limit=250_000_000, hard_limit=60)
    assert (ending.how, ending.exit_status) == ("memory", -signal.SIGKILL)
    assert ending.memory_peak > 250_000_000
    assert survivors(mark) == []


def test_stop_asks_gently_first(mark):
    lines = []
    code = "import signal, time\n"
    code += "signal.signal(15, lambda *_: (print('last words', flush=True), exit(7)))\nprint('ready', flush=True)\n"
    code += "while True: time.sleep(0.01)"
    ending = run_guarded(python(code, mark), on_line=lines.append, stop=lambda: bool(lines), hard_limit=60)
    assert (ending.how, ending.exit_status, lines) == ("stopped", 7, ["ready", "last words"])


def test_stop_kills_what_does_not_listen(mark):
    lines = []
    ending = run_guarded(
        tree_of_four(mark), on_line=lines.append, stop=lambda: len(lines) == 4, grace=0.3, hard_limit=60
    )
    assert (ending.how, ending.exit_status) == ("stopped", -signal.SIGKILL)
    assert survivors(mark) == []


def test_an_error_of_a_callback_ends_the_command(mark):
    def take(line):
        raise RuntimeError(line)

    with pytest.raises(RuntimeError, match=r"^[0-9]+$"):
        run_guarded(tree_of_four(mark), on_line=take)
    assert survivors(mark) == []


@pytest.mark.full
def test_cpu_seconds_of_processes_that_have_ended_count():
    inner = f"import os, subprocess, sys; subprocess.run([sys.executable, '-c', {BURN!r}])"
    ending = run_guarded(python(f"import subprocess, sys; subprocess.run([sys.executable, '-c', {inner!r}])"))
    assert 0.3 <= ending.cpu_seconds < 3
    orphan = f"import os, time\nif os.fork() == 0:\n  os.setsid()\n  exec({BURN!r})\n  os._exit(0)\ntime.sleep(1.5)"
    assert 0.3 <= run_guarded(python(orphan)).cpu_seconds < 3


def test_cpu_seconds_of_processes_that_are_killed_count(mark):
    lines = []
    wait = "signal.signal(signal.SIGTERM, signal.SIG_IGN)\nprint('burnt', flush=True)\ntime.sleep(600)"
    command = python(f"import os, signal\nos.fork()\n{BURN}\n{wait}", mark)
    ending = run_guarded(command, on_line=lines.append, stop=lambda: len(lines) == 2, grace=0.1, hard_limit=60)
    assert (ending.how, ending.exit_status) == ("stopped", -signal.SIGKILL)
    assert 0.55 < ending.cpu_seconds < 4


@pytest.mark.skipif(not allowed_cores(), reason="this system does not pin processes")
def test_cores_are_inherited_by_all():
    core = max(allowed_cores())
    inner = "import psutil; print(psutil.Process().cpu_affinity())"
    code = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {inner!r}])"
    lines = []
    run_guarded(python(code), cores=frozenset({core}), on_line=lines.append)
    assert lines == [f"[{core}]"]


def test_temporary_files_go_with_the_command():
    lines = []
    code = "import os, tempfile; print(tempfile.mkstemp()[1], flush=True); os.kill(os.getpid(), 9)"
    ending = run_guarded(python(code), on_line=lines.append)
    assert ending.exit_status == -signal.SIGKILL
    assert len(lines) == 1 and not os.path.exists(os.path.dirname(lines[0]))


def guarded_by_another(mark):
    """A process that guards a tree of four, once all four live; it, the guard, and the four."""
    parent = subprocess.Popen([sys.executable, "-c", PARENT, *tree_of_four(mark)])
    wait_until(lambda: len(survivors(mark)) == 6)
    guard = next(child for child in psutil.Process(parent.pid).children() if "guard" in " ".join(child.cmdline()))
    return parent, guard


def test_a_parent_that_is_killed_leaves_nothing(mark):
    parent, _ = guarded_by_another(mark)
    parent.kill()
    parent.wait()
    assert_gone(mark)


def test_a_guard_that_is_killed_leaves_nothing(mark, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    endings = []
    thread = threading.Thread(target=lambda: endings.append(run_guarded(tree_of_four(mark))))
    thread.start()
    wait_until(lambda: len(survivors(mark)) == 5)
    guard = next(child for child in psutil.Process().children() if mark in child.cmdline())
    assert len(list(tmp_path.iterdir())) == 1
    guard.kill()
    thread.join(20)
    assert [(ending.how, ending.exit_status) for ending in endings] == [("lost", None)]
    assert isinstance(endings[0], Ending)
    assert list(tmp_path.iterdir()) == []
    assert survivors(mark) == []


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ties a process to its parent")
def test_a_command_dies_with_its_guard_even_if_nobody_sweeps_up(mark):
    parent = subprocess.Popen([sys.executable, "-c", PARENT, *python("import time; time.sleep(600)", mark)])
    wait_until(lambda: len(survivors(mark)) == 3)
    parent.send_signal(signal.SIGSTOP)
    guard = psutil.Process(parent.pid).children()[0]
    guard.kill()
    wait_until(lambda: len(survivors(mark)) == 1)
    parent.kill()
    parent.wait()
    assert_gone(mark)


def test_a_guard_that_is_asked_to_end_leaves_nothing(mark):
    parent, guard = guarded_by_another(mark)
    guard.terminate()
    assert parent.wait(20) == 0
    assert_gone(mark)


def test_a_guard_imports_nothing_heavy():
    code = "import sys, moccasin_mzn.search.processes.guard; print(*sorted(sys.modules))"
    lines = []
    run_guarded(python(code), on_line=lines.append)
    loaded = set(lines[0].split())
    assert "moccasin_mzn.search.processes.guard" in loaded
    assert loaded.isdisjoint({"numpy", "click", "rich", "numba", "minizinc", "moccasin_mzn.base.errors"})
