"""The table of docs/providers.md shows the evidence that exists: recordings, constructed cases and unit tests."""

import ast
from pathlib import Path

import pytest

from providers.catalogue import ADAPTERS
from tests.replay.hosts.catalogue import HOSTS
from tests.replay.hosts.evidence_table import (
    CORE_FEATURES,
    FEATURES,
    HOSTS_WITH_LITTLE_EVIDENCE,
    PAGE,
    TITLES,
    UNRECORDED_ADAPTERS,
    evidence,
    table,
)
from tests.replay.hosts.recordings import FOLDER
from tests.replay.hosts.unit_evidence import UNIT_EVIDENCE

ROOT = Path(__file__).parents[2]


def test_every_host_has_a_title_and_its_lacks_and_claims_are_known_features():
    assert {host.folder for host in HOSTS} == set(TITLES)
    assert UNIT_EVIDENCE.keys() <= set(TITLES)
    for host in HOSTS:
        assert (host.missing_features.keys() | UNIT_EVIDENCE.get(host.folder, {}).keys()) <= set(FEATURES)
        assert not host.missing_features.keys() & UNIT_EVIDENCE.get(host.folder, {}).keys()


def test_every_hosted_adapter_has_recordings_and_a_docs_page():
    hosted = {name for name, adapter in ADAPTERS.items() if adapter.__module__.startswith("providers.hosted")}
    page = PAGE.read_text()
    assert all((ROOT / "docs" / "providers" / f"{name}.md").is_file() and f"providers/{name}.md" in page for name in hosted)
    if not FOLDER.is_dir():
        pytest.skip("the recordings of real hosts (../shared/exchanges) are not on this machine")
    assert {host.provider_target(each).adapter for host in HOSTS for each in host.recordings} == hosted - UNRECORDED_ADAPTERS


def test_every_claim_names_an_existing_test():
    for claims in UNIT_EVIDENCE.values():
        for claim in claims.values():
            file, _, name = claim.partition("::")
            tree = ast.parse((ROOT / file).read_text())
            assert name in {each.name for each in tree.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)}, claim


def test_providers_page_ends_with_the_generated_table():
    if not FOLDER.is_dir():
        pytest.skip("the recordings of real hosts (../shared/exchanges) are not on this machine")
    assert PAGE.read_text().endswith(table())


def test_core_features_have_evidence_for_every_host():
    """The evidence is recorded or constructed; the hosts with little evidence are excepted."""
    if not FOLDER.is_dir():
        pytest.skip("the recordings of real hosts (../shared/exchanges) are not on this machine")
    open_cells = {
        (host.folder, feature)
        for host in HOSTS
        if host.folder not in HOSTS_WITH_LITTLE_EVIDENCE
        for feature in CORE_FEATURES
        if not evidence(host, feature)
    }
    assert open_cells == set()
