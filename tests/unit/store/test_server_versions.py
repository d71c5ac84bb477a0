"""The oldest versions of servers: which are refused, and that the pages name them."""

from pathlib import Path

import pytest

from app.store.schema.server_versions import MIN_POSTGRES, REDIS_NEEDED, is_old_redis

ROOT = Path(__file__).parents[3]

VERSIONS = {
    "an old Redis": ("Redis", "6.0.16", True),
    "the oldest Redis": ("Redis", "6.2.0", False),
    "a new Redis": ("Redis", "8.4.1", False),
    "a Valkey": ("Valkey", "7.2.5", False),
    "a server that does not say": ("Redis", "", False),
}


@pytest.mark.parametrize("server", VERSIONS)
def test_only_an_old_redis_is_too_old(server: str) -> None:
    name, version, is_old = VERSIONS[server]
    assert is_old_redis(name, version) is is_old


@pytest.mark.parametrize("page", ["README.md", "docs/operations.md"])
def test_pages_name_the_oldest_versions(page: str) -> None:
    text = (ROOT / page).read_text("utf-8")
    assert f"PostgreSQL {MIN_POSTGRES} or newer" in text
    assert REDIS_NEEDED.partition(",")[0] in text and "Valkey" in text
