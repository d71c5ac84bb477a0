"""docs/dialects.md holds the tables that are generated from the conformance tests."""

from pathlib import Path

from tests.conformance.dialect_tables import FEATURES, tables
from tests.conformance.situations import SITUATIONS

PAGE = Path(__file__).parents[2] / "docs" / "dialects.md"


def test_dialects_page_holds_the_generated_tables():
    assert tables() in PAGE.read_text("utf-8"), "update docs/dialects.md: python -m tests.conformance.dialect_tables prints its tables"


def test_dialect_tables_have_no_blank_cell():
    rows = [line.strip("|").split("|") for line in tables().splitlines() if line.startswith("|")]
    assert len(rows) > 100 and all(cell.strip() for row in rows for cell in row)


def test_every_situation_stands_behind_a_feature_of_the_tables():
    assert {name for feature in FEATURES for name in feature.situations} == {each.name for each in SITUATIONS}
