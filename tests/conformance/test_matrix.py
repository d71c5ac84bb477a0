"""The page of dialects tells what the tests show: no more, no less."""

from pathlib import Path

from tests.conformance.matrix import FEATURES, tables
from tests.conformance.situations import SITUATIONS

PAGE = Path(__file__).parents[2] / "docs" / "dialects.md"


def test_the_page_holds_the_tables_that_the_tests_make():
    assert tables() in PAGE.read_text("utf-8"), "write docs/dialects.md anew: python -m tests.conformance.matrix tells its tables"


def test_no_cell_of_them_is_blank():
    rows = [line.strip("|").split("|") for line in tables().splitlines() if line.startswith("|")]
    assert len(rows) > 100 and all(cell.strip() for row in rows for cell in row)


def test_every_situation_of_an_answer_is_told_of():
    assert {name for feature in FEATURES for name in feature.shown_by} == {each.name for each in SITUATIONS}
