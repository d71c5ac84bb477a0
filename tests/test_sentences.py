"""Docstrings are sentences: they begin with a verb or with what they are about, and not in mid-sentence."""

import ast
import re
from pathlib import Path

from tests.test_architecture import ROOT, TOP_PACKAGES, python_files, syntax_tree

# Words with which a docstring begins that goes on from its name, as in "Of each choice" or "None: it is broken".
FRAGMENT_WORDS = frozenset(
    {
        *("Of", "As", "In", "By", "With", "Without", "Within", "From", "For", "To", "On", "At", "Beside", "Behind", "Until", "Since"),
        *("None", "Nothing", "Whose", "What", "Which", "Where", "When", "If", "Than", "Then", "Before", "After", "Because"),
        *("And", "Or", "But", "So", "Also", "Only", "Not", "Else", "Besides"),
    }
)
# Any statement that could be such a docstring: parsing a file takes a hundred times as long as looking for them.
CANDIDATE = re.compile(rf"(?:^|[:;])[ \t(]*[rRuU]?['\"]+\s*(?:\\\s*)?(?:{'|'.join(sorted(FRAGMENT_WORDS))})\b", re.MULTILINE)
# The line of a click command's docstring is its help.
WHOLE_SENTENCES: frozenset[str] = frozenset()
# A docstring that begins with a parameter or a field, as in "`team`: of a key": a comment beside the field says that, or a sentence.
BACKTICK_CANDIDATE = re.compile(r"(?:^|[:;])[ \t(]*[rRuU]?['\"]+\s*(?:\\\s*)?`", re.MULTILINE)


def docstrings(path: Path) -> list[tuple[int, str]]:
    """Returns the line and the text of each docstring in a file."""
    return [
        (node.body[0].lineno, text)
        for node in ast.walk(syntax_tree(path))
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        if (text := ast.get_docstring(node))
    ]


def test_no_docstring_begins_in_mid_sentence() -> None:
    """A stranger reads them one at a time. STYLE: "Returns the text of each choice", not "Of each choice"."""
    fragments = [
        f"{path}:{line}: {text.splitlines()[0]}"
        for path in python_files(*TOP_PACKAGES, "tests", "bench")
        if path.parts[:2] != ("migrations", "versions") and CANDIDATE.search((ROOT / path).read_text())
        for line, text in docstrings(path)
        if text.split()[0].rstrip(".,:;") in FRAGMENT_WORDS and text.splitlines()[0] not in WHOLE_SENTENCES
    ]
    assert fragments == []


def test_no_docstring_begins_with_a_name_in_backticks() -> None:
    """The first line says what a class is or what a function does. STYLE: a paragraph of parameters in backticks is skipped by all."""
    named = [
        f"{path}:{line}: {text.splitlines()[0]}"
        for path in python_files(*TOP_PACKAGES, "tests", "bench", "dashboard")
        if BACKTICK_CANDIDATE.search((ROOT / path).read_text())
        for line, text in docstrings(path)
        if text.startswith("`")
    ]
    assert named == []


def test_candidates_include_each_way_to_write_a_docstring() -> None:
    for text in (
        'def f():\n    """Of each choice."""',
        "class A: 'Of it'",
        'r"""\n    None: it is broken."""',
        '    """\\\n    Whose name it is."""',
    ):
        assert CANDIDATE.search(text), text
    for text in (
        'def f():\n    """`a`: the first."""',
        "class A: '`a` is first'",
        'r"""\n    `a`: the first."""',
        '    """\\\n    `a`: it."""',
    ):
        assert BACKTICK_CANDIDATE.search(text), text
