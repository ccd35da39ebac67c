"""Our solvers under their short names, others under their full ids."""

from __future__ import annotations

import json

import pytest
from linear_support import minizinc

from moccasin_mzn.base.doc_links import Page
from moccasin_mzn.base.errors import InputError
from moccasin_mzn.solvers.minizinc.solvers import OWN, find_backend, known_solvers


@pytest.mark.parametrize("name", OWN)
def test_our_own_solvers_need_no_installation(name):
    backend = find_backend(name)
    assert (backend.name, backend.solver.id) == (name, f"org.moccasin-mzn.{name}")
    assert backend.is_cp_sat == (name == "cp-sat")
    assert {"-a", "-i", "-p", "-r", "-s", "-t", "-f"} <= set(backend.solver.stdFlags)


def test_a_solver_of_minizinc_under_the_same_name_is_reached_by_its_id(tmp_path, monkeypatch):
    native = {"id": "org.minizinc.mip.highs", "name": "HiGHS", "version": "1", "executable": "/bin/true"}
    (tmp_path / "native.msc").write_text(json.dumps(native))
    monkeypatch.setenv("MZN_SOLVER_PATH", str(tmp_path))
    assert find_backend("highs").solver.id == "org.moccasin-mzn.highs"
    assert find_backend("org.minizinc.mip.highs").solver.id == "org.minizinc.mip.highs"
    assert {"highs", "org.minizinc.mip.highs"} <= set(known_solvers())


def test_known_solvers_are_listed():
    known = known_solvers()
    assert known[:3] == ["cp-sat", "highs", "scip"] and "gecode" in known
    with pytest.raises(InputError) as caught:
        find_backend("hihgs")
    unknown = f"unknown solver 'hihgs' (did you mean highs?), MiniZinc knows {', '.join(known)}"
    assert str(caught.value) == Page.SOLVERS.after(unknown)


def test_installed_copies_of_ours_are_listed_once(tmp_path, monkeypatch):
    from moccasin_mzn.solvers.flatzinc.configuration import write_configuration

    for solver in OWN.values():
        write_configuration(tmp_path, solver.configuration())
    monkeypatch.setenv("MZN_SOLVER_PATH", str(tmp_path))
    known = known_solvers()
    assert len(set(known)) == len(known) and not any("moccasin" in name for name in known)


def test_minizinc_finds_them_by_tag(tmp_path):
    path = tmp_path / "model.mzn"
    path.write_text(
        "var 1..4: x; var 0.0..1.0: f; constraint int2float(x) + f <= 3.5; solve maximize x; output [show(x)];"
    )
    assert minizinc("--solver", "highs", path).stdout == "3\n----------\n==========\n"
