"""The code does not lean on a session of Postgres, which a pooler gives to somebody else after each transaction.

tests/deploy tries it.
"""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
SOURCES = sorted(path for package in ("app", "migrations") for path in (ROOT / package).rglob("*.py"))

# What stays with a session, and who may: on an address that is a session's own.
_BROAD_ROLLUPS = {"migrations/versions/0026_broad_rollups.py", "migrations/versions/0058_sums_by_key_and_outcome.py"}
LEANING = {
    "a setting of the session": (r"[\"']\s*SET (?!LOCAL |TRANSACTION )[a-z_]+ *(?:=|TO )", set[str]()),
    "a setting of the session by a function": (r"set_config\([^)]*, (?:false|FALSE)\)", set[str]()),
    "a lock of the session": (r"pg_(?:try_)?advisory_(?:un)?lock(?:_shared)?\(", set[str]()),
    "a cursor that outlives its transaction": (r"WITH HOLD", set[str]()),
    "a statement with a name": (r"(?:connection|_connection)\.cursor\(|\bPREPARE [a-z]", set[str]()),
    "notifications": (r"add_listener\(|\bLISTEN [a-z]", {"app/store/keys/change_watch.py", "app/store/schema/postgres_status.py"}),
    "a table that stays": (r"CREATE TEMP(?:ORARY)? TABLE", _BROAD_ROLLUPS),  # which drop it
}


@pytest.mark.parametrize("what", LEANING)
def test_nothing_stays_with_a_session(what: str) -> None:
    pattern, allowed = LEANING[what]
    found = {str(path.relative_to(ROOT)) for path in SOURCES if re.search(pattern, path.read_text("utf-8"))}
    assert found == allowed, f"{what} stays with a session, which others get: docs/decisions/038-poolers.md"
