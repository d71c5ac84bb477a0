"""The page of engines tells what their adapters do when they are asked, and names tests that are there."""

from collections.abc import Callable
from pathlib import Path

import pytest

from providers.catalogue import ADAPTERS
from tests.conformance.engine_table_requests import ENGINES
from tests.conformance.engine_tables import evidence_table, tables

PAGE = Path(__file__).parents[2] / "docs" / "engines.md"
TESTS = Path(__file__).parents[1]


@pytest.mark.parametrize("made", [tables, evidence_table], ids=["tables", "proofs"])
def test_engines_page_holds_the_generated_tables(made: Callable[[], str]):
    assert made() in PAGE.read_text("utf-8"), "write docs/engines.md anew: python -m tests.conformance.engine_tables tells its tables"


def test_every_engine_adapter_has_a_column_in_the_tables():
    # auto is one of the others; the sandbox is no engine; of hosts docs/providers.md tells.
    engines = {name for name, adapter in ADAPTERS.items() if adapter.__module__.startswith("providers.engines")}
    assert {engine.adapter for engine in ENGINES} == engines - {"auto", "sandbox"} | {"openai"}


def test_test_files_named_by_the_tables_exist():
    assert [test for engine in ENGINES for test in engine.evidence_tests if not (TESTS / test).is_file()] == []
