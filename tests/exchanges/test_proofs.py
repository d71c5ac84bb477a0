"""The table of what is proven of hosted providers, and that it says what is so."""

import ast
from pathlib import Path

import pytest

from providers.catalogue import ADAPTERS
from tests.exchanges.hosts.catalogue import HOSTS
from tests.exchanges.hosts.claims import CLAIMS
from tests.exchanges.hosts.proofs import FEATURES, NEVER_NOTHING, PAGE, THIN, TITLES, proof, table
from tests.exchanges.hosts.recordings import FOLDER

HOUSE = Path(__file__).parents[2]


def test_every_host_has_a_title_and_all_that_it_lacks_or_is_claimed_of_it_is_a_feature():
    assert {host.folder for host in HOSTS} == set(TITLES)
    assert CLAIMS.keys() <= set(TITLES)
    for host in HOSTS:
        assert (host.lacks.keys() | CLAIMS.get(host.folder, {}).keys()) <= set(FEATURES)
        assert not host.lacks.keys() & CLAIMS.get(host.folder, {}).keys()


def test_every_hosted_adapter_is_proven_by_something_and_has_its_page():
    hosted = {name for name, adapter in ADAPTERS.items() if adapter.__module__.startswith("providers.hosted")}
    told = PAGE.read_text()
    assert all((HOUSE / "docs" / "providers" / f"{name}.md").is_file() and f"providers/{name}.md" in told for name in hosted)
    if not FOLDER.is_dir():
        pytest.skip("the recordings of real hosts (../shared/exchanges) are not on this machine")
    assert {host.reached(each).adapter for host in HOSTS for each in host.recordings} == hosted


def test_each_claim_names_a_test_that_is_there():
    for claims in CLAIMS.values():
        for claim in claims.values():
            file, _, name = claim.partition("::")
            tree = ast.parse((HOUSE / file).read_text())
            assert name in {each.name for each in tree.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)}, claim


def test_the_page_says_what_is_proven():
    if not FOLDER.is_dir():
        pytest.skip("the recordings of real hosts (../shared/exchanges) are not on this machine")
    assert PAGE.read_text().endswith(table())


def test_what_everybody_needs_is_proven_of_every_host():
    """Recorded or constructed; but for those of which there is hardly any evidence."""
    if not FOLDER.is_dir():
        pytest.skip("the recordings of real hosts (../shared/exchanges) are not on this machine")
    open_cells = {
        (host.folder, feature) for host in HOSTS if host.folder not in THIN for feature in NEVER_NOTHING if not proof(host, feature)
    }
    assert open_cells == set()
