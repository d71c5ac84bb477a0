"""The page of engines tells what their adapters do when they are asked, and names tests that are there."""

from collections.abc import Callable
from pathlib import Path

import pytest

from providers.catalogue import ADAPTERS
from tests.conformance.engines import proofs, tables
from tests.conformance.engines_asked import ENGINES

PAGE = Path(__file__).parents[2] / "docs" / "engines.md"
TESTS = Path(__file__).parents[1]


@pytest.mark.parametrize("made", [tables, proofs], ids=["tables", "proofs"])
def test_the_page_holds_what_the_adapters_answer(made: Callable[[], str]):
    assert made() in PAGE.read_text("utf-8"), "write docs/engines.md anew: python -m tests.conformance.engines tells its tables"


def test_every_engine_that_we_have_an_adapter_for_is_told_of():
    # auto is one of the others; the sandbox is no engine; of hosts docs/providers.md tells.
    engines = {name for name, adapter in ADAPTERS.items() if adapter.__module__.startswith("providers.engines")}
    assert {engine.adapter for engine in ENGINES} == engines - {"auto", "sandbox"} | {"openai"}


def test_the_tests_that_it_names_are_there():
    assert [test for engine in ENGINES for test in engine.proved if not (TESTS / test).is_file()] == []
