"""Configurations that served are versions of the history, which has what each changed; their documents, which were whole, are removed.

A document that equals the configuration of a version, as the history has it, becomes a reference to the newest such version. One that
equals none stays as it is, until it expires: it is from before the history was kept, or in the words of an earlier version of Narthex.
Little is held in memory: entries are compared by their hashes, one document at a time. Nobody is held up: gateway processes store rows of
their own meanwhile. The file of the table stays as large as it is, and what is stored next goes there.
"""

# Only names of this module become SQL.
# ruff: noqa: S608

import json
from collections.abc import Iterator
from hashlib import blake2b
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0055"
down_revision = "0054"
branch_labels = None
depends_on = None

_LISTS = ("limits", "prices")
_NAMED = ("functions", "metrics", "models", "providers")
_VERSIONS_AT_ONCE = 500
# Of equal JSON it is equal, also where a number is written in another way.
_HASH = "jsonb_hash_extended({0}, 1) || ' ' || jsonb_hash_extended({0}, 2)"

_CURRENT = " UNION ALL ".join(
    [
        *(f"SELECT '{name}' AS section, name, NULL::int AS position, {_HASH.format('config')} AS hash FROM {name}" for name in _NAMED),
        f"SELECT 'limits', name, position, {_HASH.format('config')} FROM limits",
        f"SELECT 'prices', json_build_array(provider, model, since)::text, NULL::int, {_HASH.format('config')} FROM prices",
    ]
)
_CHANGES = f"""
    SELECT section, name, (before ->> 'position')::int AS position, before IS NULL AS is_new,
        {_HASH.format("(CASE section WHEN 'limits' THEN before -> 'config' ELSE before END)")} AS hash
    FROM configuration_changes WHERE version = :version AND section <> 'teams'
"""
_DOCUMENT = f"""
    WITH sections AS (SELECT each.key AS section, each.value FROM snapshots CROSS JOIN jsonb_each(document) AS each WHERE hash = :hash)
    SELECT section, entry.key AS name, {_HASH.format("entry.value")} AS hash, NULL::bigint AS number
    FROM sections CROSS JOIN jsonb_each(CASE jsonb_typeof(value) WHEN 'object' THEN value END) AS entry
    UNION ALL
    SELECT section, coalesce(entry.value ->> 'name', ''), {_HASH.format("entry.value")}, number
    FROM sections
    CROSS JOIN jsonb_array_elements(CASE jsonb_typeof(value) WHEN 'array' THEN value END) WITH ORDINALITY AS entry (value, number)
"""


def upgrade() -> None:
    connection = op.get_bind()
    state = _State()
    # What is read is the newest version, as the lock of changes keeps others from coming between. It is released again at once.
    reading = connection.begin_nested()
    connection.execute(sa.text("SELECT pg_advisory_xact_lock(hashtext('narthex directory'))"))
    for row in connection.execute(sa.text(_CURRENT)):
        state.put(row.section, row.name, row.hash, row.position)
    newest = connection.scalar(sa.text("SELECT max(version) FROM configuration_versions"))
    reading.rollback()
    versions = _find_versions(connection, state, newest)
    for hash in connection.scalars(sa.text("SELECT hash FROM snapshots WHERE document IS NOT NULL")).all():
        version = versions.get(_document_hash(connection, hash))
        if version is not None:
            statement = sa.text("UPDATE snapshots SET version = :version, document = NULL WHERE hash = :hash AND version IS NULL")
            connection.execute(statement, {"version": version, "hash": hash})


class _State:
    """The configuration at a version, as hashes of its entries. All of it has one hash, whatever the order in which it was built."""

    def __init__(self) -> None:
        self._entries: dict[tuple[str, Any], str] = {}
        self._positions: dict[str, int] = {}
        self._sum = 0
        self._order: str | None = None  # a hash of the names of limits in their order; None: it has changed

    def put(self, section: str, name: str, hash: str | None, position: int | None) -> None:
        """Puts an entry there. If `hash` is None, the entry stays as it is, and its position is another."""
        if position is not None and self._positions.get(name) != position:
            self._positions[name] = position
            self._order = None
        if hash is not None:
            known = self._entries.get(_key(section, name))
            if known is not None:
                self._sum ^= _entry_hash(section, name, known)
            elif section == "limits":
                self._order = None
            self._entries[_key(section, name)] = hash
            self._sum ^= _entry_hash(section, name, hash)

    def remove(self, section: str, name: str) -> None:
        hash = self._entries.pop(_key(section, name), None)
        if hash is not None:
            self._sum ^= _entry_hash(section, name, hash)
            if section == "limits":
                self._order = None

    def hash(self) -> tuple[int, str]:
        if self._order is None:
            limits = [name for section, name in self._entries if section == "limits"]
            limits.sort(key=lambda name: (self._positions.get(name, 0), name))
            self._order = _order_hash(limits)
        return self._sum, self._order


def _key(section: str, name: str) -> tuple[str, Any]:
    """Of a price the name is JSON, which is written in several ways."""
    return (section, tuple(json.loads(name))) if section == "prices" else (section, name)


def _entry_hash(section: str, name: str, hash: str) -> int:
    """What a list has is told apart by its content, of which the name is a part."""
    named = [section, "" if section in _LISTS else name, hash]
    return int.from_bytes(blake2b(json.dumps(named).encode(), digest_size=16).digest(), "big")


def _order_hash(limits: list[str]) -> str:
    return blake2b(json.dumps(limits).encode(), digest_size=16).hexdigest()


def _find_versions(connection: sa.Connection, state: _State, newest: int | None) -> dict[tuple[int, str], int]:
    """The newest version with a configuration, by the hash of that. 0: before the first change."""
    found: dict[tuple[int, str], int] = {}
    for version in _list_versions(connection, newest):
        found.setdefault(state.hash(), version)
        for row in connection.execute(sa.text(_CHANGES), {"version": version}):
            if row.is_new:
                state.remove(row.section, row.name)
            else:
                state.put(row.section, row.name, row.hash, row.position)
    found.setdefault(state.hash(), 0)
    return found


def _list_versions(connection: sa.Connection, newest: int | None) -> Iterator[int]:
    """The newest first."""
    statement = sa.text("SELECT version FROM configuration_versions WHERE version <= :newest ORDER BY version DESC LIMIT :most")
    while newest is not None:
        versions = connection.scalars(statement, {"newest": newest, "most": _VERSIONS_AT_ONCE}).all()
        yield from versions
        newest = versions[-1] - 1 if len(versions) == _VERSIONS_AT_ONCE else None


def _document_hash(connection: sa.Connection, hash: str) -> tuple[int, str]:
    entries, limits = 0, dict[int, str]()
    for row in connection.execute(sa.text(_DOCUMENT), {"hash": hash}):
        entries ^= _entry_hash(row.section, row.name, row.hash)
        if row.section == "limits":
            limits[row.number] = row.name
    return entries, _order_hash([limits[number] for number in sorted(limits)])
