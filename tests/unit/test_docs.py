"""The pages of the project name what exists: their links lead somewhere, and so do the paths in them."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NAMES = ("README.md", "CONTRIBUTING.md", "SECURITY.md", "app/api/reference.md")
PAGES = (*(path.relative_to(ROOT) for path in sorted((ROOT / "docs").rglob("*.md"))), *map(Path, NAMES))

LINK = re.compile(r"\]\(([^)\s]+)\)")
CODE = re.compile(r"`([^`\n]+)`")
# In front of it nothing that would make it a part of another path: a folder, an address.
SOURCE_PATH = re.compile(r"(?<![\w/.-])(?:app|providers|tests|migrations)/[\w./*-]*[\w/*]")
FENCE = re.compile(r"^ *```.*?^ *```", re.DOTALL | re.MULTILINE)
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
EXPLICIT_ANCHOR = re.compile(r'<a id="([^"]+)"></a>')


def prose(page: Path) -> str:
    """The text of a page without its code blocks."""
    return FENCE.sub("", (ROOT / page).read_text("utf-8"))


def anchors(page: Path) -> set[str]:
    """Returns what a link to this page may name after its `#`, as the usual renderers write it."""
    text = prose(page)
    headings = (EXPLICIT_ANCHOR.sub("", heading).strip().lower() for heading in HEADING.findall(text))
    return {re.sub(r"[^\w\- ]", "", heading).replace(" ", "-") for heading in headings} | set(EXPLICIT_ANCHOR.findall(text))


def relative_links(page: Path) -> Iterator[str]:
    return (link for link in LINK.findall(prose(page)) if not re.match(r"[a-z]+:", link))


def source_paths(page: Path) -> Iterator[str]:
    """The paths in backticks below app, providers, tests and migrations. NAME stands for any name."""
    return (path.replace("NAME", "*") for code in CODE.findall(prose(page)) for path in SOURCE_PATH.findall(code))


def new_files(page: Path) -> set[str]:
    """The files that a how-to creates: it names one before the block of code that goes into it."""
    text = (ROOT / page).read_text("utf-8")
    steps: list[str] = re.findall(r"^\d+\. (.*)\n\n```python", text, re.MULTILINE) if page.parent.name == "how-to" else []
    return {found[0] for step in steps if (found := SOURCE_PATH.search(step)) is not None}


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_relative_links_lead_to_a_file_and_a_heading(page: Path) -> None:
    broken: list[str] = []
    for link in relative_links(page):
        name, _, anchor = link.partition("#")
        linked = (ROOT / page.parent / name).resolve() if name else ROOT / page
        if not linked.exists() or (anchor and anchor not in anchors(linked)):
            broken.append(link)
    assert broken == []


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_paths_in_backticks_exist(page: Path) -> None:
    created = new_files(page)
    known = created | {str(Path(path).parent) + "/" for path in created}
    assert [path for path in source_paths(page) if path not in known and not any(ROOT.glob(path.rstrip("/")))] == []


def test_every_page_is_in_the_contents_of_the_site() -> None:
    docs = ROOT / "docs"
    entries = re.findall(
        r"^(?!:)\S+$", "\n".join(re.findall(r"```{toctree}\n(.*?)```", (docs / "index.md").read_text(), re.DOTALL)), re.MULTILINE
    )
    listed = {path.resolve() for entry in entries for path in docs.glob(f"{entry}.md")}
    assert listed == {(ROOT / page).resolve() for page in PAGES} - {docs / "index.md"} | {ROOT / "CHANGELOG.md", ROOT / "bench/README.md"}


def test_readme_names_where_to_start_reading() -> None:
    text = prose(Path("README.md"))
    assert 0 < text.find("docs/architecture.md") < text.find("`app/gateway/pipeline/serve.py`")
    assert {"docs/architecture.md", "CONTRIBUTING.md", "SECURITY.md"} <= set(relative_links(Path("README.md")))
