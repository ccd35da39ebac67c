"""The site builds without a warning; in a browser, wide and narrow, no page is wider than its window, pictures are
there, and the search finds."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from html import unescape
from importlib.util import find_spec
from pathlib import Path

import pytest
from browsing import BROWSER, browse

from moccasin_mzn.base.doc_links import Page

ROOT = Path(__file__).resolve().parents[2]
NEEDS = ("furo", "myst_nb", "sphinx", "sphinx_click", "sphinx_copybutton")
MEASURE = """<script>
addEventListener("load", () => {
  const told = [...document.querySelectorAll("iframe")].map((frame) => {
    const inside = frame.contentDocument, page = inside.documentElement;
    inside.body.dataset.theme = "dark";
    const wide = (element) => element.getBoundingClientRect().right > frame.width && !element.closest(
      "pre, .table-wrapper, .sidebar-drawer, .toc-drawer, .visually-hidden, .skip-to-content");
    return {
      name: frame.name, width: +frame.width, inner: frame.contentWindow.innerWidth, scroll: page.scrollWidth,
      wide: [...inside.querySelectorAll("article *")].filter(wide).map((element) => element.outerHTML.slice(0, 80)),
      pictures: [...inside.querySelectorAll("article img")].map((img) => ({
        size: img.getBoundingClientRect().width, there: img.naturalWidth > 0,
        back: getComputedStyle(img).backgroundColor,
      })),
      characters: inside.querySelector("article")?.innerText.length || 0,
    };
  });
  const out = document.createElement("pre"); out.id = "told"; out.textContent = JSON.stringify(told);
  document.body.replaceChildren(out);
});
</script>"""

pytestmark = [
    pytest.mark.full,
    pytest.mark.skipif(not all(map(find_spec, NEEDS)), reason="the extra `docs` is not installed"),
]


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "--fail-on-warning", "--keep-going", "--quiet", "-c", "docs"]
    command += ["-d", folder / "trees", ".", folder / "site"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    return folder / "site"


def pages_of(site: Path) -> list[str]:
    return sorted(path.relative_to(site).as_posix() for path in site.rglob("*.html") if path != site / "index.html")


def test_site_has_every_page_and_needs_no_network(site):
    there = {name.removesuffix(".html") for name in pages_of(site)}
    sources = [*(ROOT / "docs").rglob("*.md"), *(ROOT / "docs" / "notebooks").glob("*.ipynb")]
    written = {path.relative_to(ROOT).with_suffix("").as_posix() for path in sources}
    assert written | {"README", "docs/reference/commands", "docs/reference/python"} <= there
    for name in pages_of(site):
        text = (site / name).read_text(encoding="utf-8")
        assert not re.findall(r"<(?:script|link|img)\b[^>]*(?:src|href)=\"(?:https?:)?//[^\"]*", text), name


def test_site_has_the_anchors_that_messages_name(site):
    for named in Page:
        name, _, anchor = named.address.partition("#")
        text = (site / name).with_suffix(".html").read_text(encoding="utf-8")
        assert f"{named.heading}<" in text and (not anchor or f'id="{anchor}"' in text), named


@pytest.mark.skipif(BROWSER is None, reason="no chromium here")
def test_pages_fit_wide_and_narrow_windows(site, tmp_path):
    frames = "".join(
        f'<iframe name="{name}" width="{width}" height="900" style="border: 0" src="{(site / name).as_uri()}"></iframe>'
        for name in pages_of(site)
        for width in (1280, 400, 360)
    )
    framed = tmp_path / "framed.html"
    framed.write_text(f"{MEASURE}<body>{frames}</body>", encoding="utf-8")
    dom = browse(
        framed, tmp_path / "profile", "--dump-dom", "--allow-file-access-from-files", "--window-size=1400,1000"
    )
    told = json.loads(unescape(re.search(r'<pre id="told">(.*?)</pre>', dom, re.DOTALL)[1]))
    assert len(told) == 3 * len(pages_of(site)) and sum(len(page["pictures"]) for page in told) >= 3 * 8
    assert [(page["name"], page["width"], page["wide"]) for page in told if page["scroll"] > page["width"]] == []
    for page in told:
        assert page["inner"] == page["width"] and (
            page["characters"] > 100 or page["name"] in ("genindex.html", "search.html")
        )
        for picture in page["pictures"]:
            assert (
                picture["there"] and 250 < picture["size"] <= page["width"] and picture["back"] == "rgb(255, 255, 255)"
            )


@pytest.mark.skipif(BROWSER is None, reason="no chromium here")
def test_site_search_finds_pages(site, tmp_path):
    page = f"{(site / 'search.html').as_uri()}?q=retention"
    dom = browse(
        page, tmp_path / "profile", "--dump-dom", "--virtual-time-budget=10000", "--allow-file-access-from-files"
    )
    results = re.search(r'<div id="search-results".*', dom, re.DOTALL)[0]
    assert "docs/concepts.html" in results
