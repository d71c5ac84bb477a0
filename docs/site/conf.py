"""The documentation as a static site, which Sphinx makes of the Markdown files that are also read in the repository: `make docs`."""

import re
from functools import cache
from pathlib import Path

from sphinx.application import Sphinx

ROOT = Path(__file__).parents[2]

project = "Narthex"
copyright = "the authors of Narthex"
extensions = ["myst_parser"]

# Pages link to files outside docs/, so the source folder is the repository's root.
include_patterns = ["docs/**.md", "app/api/reference.md", "bench/README.md", "CHANGELOG.md", "CONTRIBUTING.md", "README.md", "SECURITY.md"]
root_doc = "docs/index"
suppress_warnings = ["myst.header"]  # some pages skip a level

myst_heading_anchors = 6

html_theme = "furo"
html_title = "Narthex"
html_show_sourcelink = False
html_copy_source = False

FENCE = re.compile(r"(^ *```.*?^ *```)", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\]\(([^)\s#]*)#([^)\s]+)\)")
ANCHOR = re.compile(r'^(.*)<a id="([^"]+)"></a>', re.MULTILINE)


def setup(app: Sphinx) -> None:
    app.connect("source-read", name_anchors)


def name_anchors(app: Sphinx, page: str, content: list[str]) -> None:
    """Give each anchor that is written as HTML a label, by which Sphinx checks links to it. Labels are of the whole site."""
    parts = FENCE.split(content[0])
    for at in range(0, len(parts), 2):  # between them: blocks of code
        labelled = ANCHOR.sub(lambda found: f"({_label(page, found[2])})=\n{found[0]}", parts[at])
        parts[at] = LINK.sub(lambda found: _link(page, found[1], found[2]), labelled)
    content[0] = "".join(parts)


def _link(page: str, path: str, anchor: str) -> str:
    linked = page if not path else _page_at((ROOT / page).parent / path)
    return f"](#{_label(linked, anchor)})" if anchor in _anchors(linked) else f"]({path}#{anchor})"


def _page_at(path: Path) -> str:
    resolved = path.resolve()
    return str(resolved.relative_to(ROOT).with_suffix("")) if resolved.is_relative_to(ROOT) else ""


def _label(page: str, anchor: str) -> str:
    return f"{page.replace('/', '-')}--{anchor}".lower()


@cache
def _anchors(page: str) -> frozenset[str]:
    file = ROOT / f"{page}.md"
    return frozenset(found[2] for found in ANCHOR.finditer(FENCE.sub("", file.read_text("utf-8")))) if file.is_file() else frozenset()
