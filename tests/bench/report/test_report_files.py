"""A report of real runs, in each format, and the command that writes it."""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from report_frames import AWKWARD, METHODS, frames, real_store, row

from moccasin_mzn.api.published import Published, read_published
from moccasin_mzn.bench.best_known import Known
from moccasin_mzn.bench.report.document import Figure, Table
from moccasin_mzn.bench.report.runs import read_runs
from moccasin_mzn.bench.report.sections import document
from moccasin_mzn.bench.report.writing import latex, markdown, write
from moccasin_mzn.bench.store import Store

pytestmark = pytest.mark.xdist_group("report_files")  # one worker makes what all tests of this file share

PUBLISHED = (
    "graph,n,m,budget,moccasin_tdi,moccasin_peak,moccasin_seconds,checkmate_tdi,checkmate_peak,checkmate_seconds\n"
)


@pytest.fixture(scope="module")
def store(tmp_path_factory) -> Path:
    """Real runs."""
    return real_store(tmp_path_factory.mktemp("store"))


@pytest.fixture(scope="module")
def made(store):
    """The report of the real runs, with published figures for two of them."""
    with Store.open(store) as opened:
        runs = read_runs(opened.runs(), opened.traces())
    return document(runs, [_line(problem) for problem in runs.problems[:2]])


def _line(problem) -> Published:
    figures = {"moccasin": ("1.5", "77", "8.8"), "checkmate": ("", "", "")}
    return Published("P", problem.nodes, problem.edges, problem.budget_amount * 1.004, figures)


@pytest.fixture(scope="module")
def folder(made, tmp_path_factory) -> Path:
    """Its files."""
    folder = tmp_path_factory.mktemp("report")
    write(made, folder)
    return folder


def blocks(made, kind):
    return [block for section in made.sections for block in section.blocks if isinstance(block, kind)]


def texts(table):
    return [[cell.text for cell in line] for group in table.groups for line in group.rows]


# contents


@pytest.mark.full
def test_the_table_has_every_problem_and_method(made):
    overview = next(table for table in blocks(made, Table) if table.name == "overview")
    assert set(METHODS) <= set(overview.headings)
    assert [line[0] for line in texts(overview)] == ["chain 6", AWKWARD, AWKWARD]
    column = overview.headings.index("moccasin")
    assert all(re.fullmatch(r"\d+\.\d{3}\*", line[column]) for line in texts(overview))
    assert [line[overview.headings.index("paper: MOCCASIN")] for line in texts(overview)] == ["1.5", "1.5", "-"]


@pytest.fixture(scope="module")
def compared(store):
    """The report with what is best known of the first problem, in each order, and of another graph."""
    with Store.open(store) as opened:
        runs = read_runs(opened.runs(), opened.traces())
    once, amount = runs.once(0, runs.methods[0]), runs.problems[0].budget_amount
    digest = runs.runs[runs.runs["problem"] == 0]["graph_digest"].iloc[0]
    own = Known("g", digest, "input", "2", "0.8", amount, once, duration=once + 1, bound=once + 1)
    free = replace(own, order="free", duration=once, bound=once - 1)
    return document(runs, (), [own, free, replace(own, digest="another", duration=once)]), own


@pytest.mark.full
def test_report_has_a_column_of_best_known_values(compared):
    made, own = compared
    overview, details = (next(of for of in blocks(made, Table) if of.name == name) for name in ("overview", "details"))
    column = [line[overview.headings.index("best known")] for line in texts(overview)]
    assert column[0] == f"{own.tdi_percent:.3f}* (0.000)" and set(column[1:]) == {"-"}
    over = [line[details.headings.index("over best known")] for line in texts(details)]
    assert re.fullmatch(r"[+-]\d+\.\d{3}", over[0]) and over[-1] == "-"


def test_without_a_table_there_is_no_column(made):
    assert all("best known" not in heading for table in blocks(made, Table) for heading in table.headings)


def test_what_did_not_run_is_not_what_failed(made):
    overview = next(table for table in blocks(made, Table) if table.name == "overview")
    columns = {heading: [line[k] for line in texts(overview)] for k, heading in enumerate(overview.headings)}
    assert columns["checkmate"] == ["out of memory", "not run", "not run"]
    assert columns["griewank"] == ["n/a", "not run", "not run"]
    failures = next(table for table in blocks(made, Table) if table.name == "failures")
    assert [line[2] for line in texts(failures)] == ["checkmate"]
    assert any("1 out-of-memory" in line for line in made.warnings)


def test_the_report_names_the_virtual_best_and_who_contributes(made):
    assert any("Virtual best solver" in line for line in made.summary)
    portfolio = next(table for table in blocks(made, Table) if table.name == "portfolio")
    assert {"virtual best solver", "moccasin", "gecode"} <= {line[0] for line in texts(portfolio)}
    assert any("All proofs agree, on 3 problems" in line for line in made.summary)


def test_figures_of_the_paper_are_there(made):
    figures = {figure.name: figure for figure in blocks(made, Figure)}
    assert set(figures) == {"progress", "growth", "proofs", "quality", "gaps"}
    assert len(figures["progress"].panels) == 3


def test_a_published_schedule_over_the_budget_is_marked():
    figures = {"rounding": ("0.1", "95", "8.8"), "moccasin": ("1.5", "90.1", "")}
    made = document(read_runs(*frames([row()])), [Published("P", 10, 12, 90.0, figures)])
    overview = next(table for table in blocks(made, Table) if table.name == "overview")
    (line,) = texts(overview)
    assert line[overview.headings.index("paper: Checkmate, LP rounding")] == "0.1 (over)"
    assert line[overview.headings.index("paper: MOCCASIN")] == "1.5"


def test_published_figures_without_seconds_are_no_points():
    from matplotlib.figure import Figure as Drawn

    figures = {"moccasin": ("1.5", "77", ""), "checkmate": ("2.5", "77", "3")}
    made = document(read_runs(*frames([row()])), [Published("P", 10, 12, 90.0, figures)])
    axes = Drawn().add_subplot()
    next(figure for figure in blocks(made, Figure) if figure.name == "progress").panels[0].draw(axes)
    assert [line.get_ydata()[0] for line in axes.lines if line.get_markerfacecolor() == "none"] == [2.5]


def test_methods_without_common_problems_are_not_compared():
    rows = [row(f"m{k}", graph=f"g{k}") for k in range(3)]
    (section,) = [one for one in document(read_runs(*frames(rows))).sections if one.name == "proofs"]
    assert section.paragraphs == ("No method ran on half of the problems: there is nothing to compare.",)


def test_contradictions_come_first():
    made = document(read_runs(*frames([row("a", duration=110), row("b", duration=108)])))
    assert any("contradicted" in line for line in made.warnings)
    (section,) = [section for section in made.sections if section.name == "agreement"]
    assert section.paragraphs[0].startswith("CONTRADICTIONS") and section.blocks[0].name == "conflicts"


def test_one_method_is_not_compared_with_itself():
    made = document(read_runs(*frames([row("a"), row("a", seed=2, duration=112, status="feasible")])))
    names = {section.name for section in made.sections}
    assert "quality" not in names and "growth" not in names
    assert not any("Virtual best" in line for line in made.summary)
    assert all(section.paragraphs or section.blocks for section in made.sections)


@pytest.mark.few(2)
@pytest.mark.parametrize(
    "rows",
    [
        [row("a", status="infeasible", duration=None), row("b", status="unknown", duration=None)],
        [row("dtr", strategy="dtr", formulation=None, seed=None, status="over-budget", duration=None)],
        [row("a", status="error", duration=None, nodes=None, edges=None, budget_amount=None, baseline_duration=None,
             seconds=None, seed=None)],
        [row("a", status="out-of-time", duration=105), row("b", status="feasible", duration=0, baseline_duration=0)],
    ],
    ids=["infeasible", "over budget", "nothing known", "saved and empty"],
)  # fmt: skip
def test_odd_experiments_make_a_report(rows, tmp_path):
    made = document(read_runs(*frames(rows)))
    assert all(section.paragraphs or section.blocks for section in made.sections)
    assert all(path.stat().st_size > 500 for path in write(made, tmp_path, ["html", "md"]))


# formats


@pytest.mark.full
def test_the_same_store_makes_the_same_files_again(store, folder, tmp_path):
    with Store.open(store) as opened:
        runs, traces = opened.runs(), opened.traces()
    shuffled = read_runs(runs.sample(frac=1, random_state=3), traces.sample(frac=1, random_state=4))
    write(document(shuffled, [_line(problem) for problem in shuffled.problems[:2]]), tmp_path)
    assert _digests(tmp_path) == _digests(folder)


def _digests(folder):
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def test_markdown_has_all_tables_whole(made, folder):
    tokens = MarkdownIt("commonmark").enable("table").parse((folder / "report.md").read_text())
    assert sum(token.type == "table_open" for token in tokens) == len(blocks(made, Table))
    cells = {
        "".join(child.content for child in token.children)
        for before, token in zip(tokens, tokens[1:], strict=False)
        if before.type in ("td_open", "th_open")
    }
    expected = {cell.replace("\u00a0", " ") for table in blocks(made, Table) for line in texts(table) for cell in line}
    assert expected - {cell.replace("\u00a0", " ") for cell in cells} == set()


def test_markdown_shows_figures_that_exist(folder):
    named = re.findall(r"\]\((figures/[^)]+)\)", (folder / "report.md").read_text())
    assert len(named) == 5
    assert all((folder / name).read_text().rstrip().endswith("</svg>") for name in named)


def test_latex_is_balanced_and_its_rows_are_whole(made, folder):
    for name in ("report.tex", "report-body.tex"):
        text = (folder / name).read_text()
        bare = re.sub(r"\\[\\{}%&_#$]", "", text)
        assert bare.count("{") == bare.count("}")
        begun = re.findall(r"\\(begin|end)\{(\w+)\}", text)
        assert sum(1 if word == "begin" else -1 for word, _ in begun) == 0
    bodies = re.findall(r"\\endfoot\n(.*?)\\end\{longtable\}", text, re.DOTALL)
    assert len(bodies) == len(blocks(made, Table))
    for table, body in zip(blocks(made, Table), bodies, strict=True):
        lines = [line for line in body.split("\n") if re.search(r"\\\\\*?$", line) and "multicolumn" not in line]
        assert [line.count("&") - line.count(r"\&") for line in lines] == [len(table.headings) - 1] * len(lines)
        assert len(lines) == len(texts(table))
    named = re.findall(r"\\reportfigure\{(figures/[^}]+)\}", text)
    assert len(named) == 5 and all((folder / f"{name}.pdf").read_bytes().startswith(b"%PDF") for name in named)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="no LaTeX here")
def test_latex_compiles_and_nothing_is_wider_than_the_page(folder, tmp_path):
    shutil.copytree(folder, tmp_path / "r")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "report.tex"]
    for _ in range(2):
        done = subprocess.run(command, cwd=tmp_path / "r", capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stdout[-2000:]
    assert "Overfull" not in done.stdout and "undefined" not in done.stdout


def test_awkward_labels_are_shown_and_do_nothing(folder):
    assert (
        r"A\_1 \& \textquotedbl{}50\%\textquotedbl{} \textless{}b\textgreater{}\textbar{}x{*}"
        in (folder / "report-body.tex").read_text()
    )
    page = (folder / "report.html").read_text()
    assert "A_1 &amp; &#34;50%&#34; &lt;b&gt;|x*" in page and "<b>|x" not in page


@given(st.text())
def test_latex_has_no_bare_signs(text):
    escaped = re.sub(r"\\text\w+\{\}|\\[&%$#_{}]|\{[][*]\}|\{-\}", "", latex(text))
    assert not set(escaped) & set('\\&%$#_{}^<>|"[]*')


@given(st.text(alphabet="ab_*`|<>[]&$~#!\\ ", min_size=1))
def test_markdown_shows_the_text_itself(text):
    (inline,) = [token for token in MarkdownIt("commonmark").parse(f"x{markdown(text)}x") if token.type == "inline"]
    shown = "".join(child.content for child in inline.children)
    assert shown == "x" + re.sub(" +", " ", text) + "x"


def test_the_page_stands_alone(folder):
    page = (folder / "report.html").read_text()
    assert not re.search(r"<(script|link|iframe|img|object)\b|@import|url\((?!#)", page)
    assert not re.search(r'(?:src|href)="(?!#)', page)
    assert set(re.findall(r'https?://[^"\s<]+', page)) <= {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}
    ids = re.findall(r'\bid="([^"]+)"', page)
    assert len(ids) == len(set(ids))
    assert set(re.findall(r'(?:href="|url\()#([^")]+)', page)) <= set(ids)


# the command


def test_the_command_writes_what_is_requested(command, store, tmp_path):
    path = tmp_path / "published.csv"
    path.write_text(PUBLISHED + "P,6,5,1,0.5,7,1.5,,,\n")
    assert len(read_published(path)) == 1
    status, out, err = command(
        "bench", "report", store, "--published", path, "--output", tmp_path / "r", "--format", "md"
    )
    assert (status, err) == (0, "")
    assert "Virtual best solver" in out
    assert {path.name for path in (tmp_path / "r").iterdir()} == {"report.md", "figures"}
    assert "None of the published figures" in (tmp_path / "r" / "report.md").read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["{missing}"], "there is no such store"),
        (["{empty}"], "no runs yet"),
        (["{store}", "--experiment", "x"], "no experiment x, only real"),
        (["{store}", "--published", "{missing}"], "No such file"),
        (["{store}", "--output", "{store}"], "is not a folder"),
        (["{store}", "--output", "{store}/below"], "is not a folder"),
        (["{store}", "--format", "pdf"], "html"),
    ],
)
def test_report_command_reports_bad_input_in_one_line_and_writes_nothing(command, store, tmp_path, arguments, message):
    Store.create(tmp_path / "empty.sqlite").close()
    names = {"missing": tmp_path / "missing", "empty": tmp_path / "empty.sqlite", "store": store}
    output = [] if "--output" in arguments else ["--output", tmp_path / "out"]
    before = store.read_bytes()
    status, out, err = command("bench", "report", *[word.format(**names) for word in arguments], *output)
    assert (status, out) == (2, "")
    assert err.count("\n") == 1 and message in err
    assert not (tmp_path / "out").exists() and store.read_bytes() == before


def test_the_command_starts_without_the_libraries_of_reports():
    code = "import sys, moccasin_mzn.cli.bench; print({'pandas', 'matplotlib', 'jinja2'} & set(sys.modules))"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "set()"
