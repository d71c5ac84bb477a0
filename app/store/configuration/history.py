"""The history of the configuration: what each version changed, and by whom. See also earlier.py."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct
from sqlalchemy import Row, func, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from app.store.configuration import snapshots
from app.store.configuration.difference import EntryChange, display_name
from app.store.postgres import tables
from app.store.postgres.audit_log import AuditEvent, Author, record_all
from app.store.postgres.batches import execute_in_batches
from app.store.postgres.paging import Keyset, Page, PageQuery, SortColumn, read_cursor, write_cursor

_versions, _changes = tables.configuration_versions, tables.configuration_changes

_RESOURCES = {
    "teams": "team",
    "providers": "provider",
    "models": "model",
    "limits": "limit",
    "prices": "price",
    "functions": "function",
    "metrics": "metric",
}
# Of a bigint.
MAX_VERSION = 2**63 - 1

_KEYSET = Keyset({"version": SortColumn(_versions.c.version, int)}, SortColumn(_versions.c.version, int))


class VersionRow(Struct, frozen=True):
    """A version that changed what a file can set. `at` as ISO 8601. `restores`: the version that it is equal to, after a rollback.

    `changed`: how many entries of each section it changed.
    """

    version: int
    at: str
    author_kind: str
    author_id: str | None
    author: str
    via: str
    restores: int | None
    changed: dict[str, int]


async def publish_changes(
    connection: AsyncConnection,
    author: Author,
    changes: Sequence[EntryChange],
    positions: tuple[Mapping[str, int], Mapping[str, int]] = ({}, {}),
    restores: int | None = None,
) -> int:
    """Publish a new version of the configuration, in the transaction that stores `changes`, with its history and audit events.

    `positions` are those of all limits before and after, if limits were stored. Returns the version.
    """
    version = await snapshots.publish_version(connection)
    values = {"author_kind": author.kind, "author_id": author.id, "author_name": author.name, "via": author.via, "restores": restores}
    await connection.execute(insert(_versions).values(version=version, **values))
    rows = ({"version": version, **row} for row in _history_rows(changes, *positions))
    await execute_in_batches(connection, _changes.insert(), rows)
    action = None if restores is None else f"roll back to version {restores}"
    await record_all(connection, author, (_audit_event(change, version, action) for change in changes))
    return version


def _history_rows(changes: Sequence[EntryChange], before: Mapping[str, int], after: Mapping[str, int]) -> Iterator[dict[str, Any]]:
    """A limit has its position beside its content; one whose position alone changes has a row, too, without content."""
    for change in changes:
        old, new = change.before, change.after
        if change.section == "limits":
            old = old and {"position": before.get(change.name), "config": old}
            new = new and {"position": after.get(change.name), "config": new}
        yield {"section": change.section, "name": change.name, "before": old, "after": new}
    changed = {change.name for change in changes if change.section == "limits"}
    for name in before.keys() & after.keys() - changed:
        if before[name] != after[name]:
            yield {"section": "limits", "name": name, "before": {"position": before[name]}, "after": {"position": after[name]}}


def _audit_event(change: EntryChange, version: int, action: str | None) -> AuditEvent:
    team = change.name if change.section == "teams" else None
    if change.section == "limits":
        scope: dict[str, str] = (change.after or change.before or {}).get("scope", {})
        team = scope.get("team") if scope.get("team") != "each" else None
    usual_action = "create" if change.before is None else "delete" if change.after is None else "update"
    return AuditEvent(action or usual_action, _RESOURCES[change.section], display_name(change), change.before, change.after, team, version)


async def read_configuration_version(connection: AsyncConnection) -> int:
    """The newest version that changed what a file can set: versions are also of nodes and credentials."""
    return await connection.scalar(select(func.max(_versions.c.version))) or await snapshots.read_version(connection)


async def page_versions(connection: AsyncConnection, query: PageQuery) -> Page[VersionRow]:
    rows = (await connection.execute(_KEYSET.page_query(select(_versions), query))).all()
    changed = await _count_changes(connection, [row.version for row in rows])
    return _KEYSET.page(rows, query, lambda row: _to_version(row, changed.get(row.version, {})))


async def find_version(connection: AsyncConnection, version: int) -> VersionRow | None:
    row = (await connection.execute(select(_versions).where(_versions.c.version == version))).one_or_none()
    return None if row is None else _to_version(row, (await _count_changes(connection, [version])).get(version, {}))


async def read_range(connection: AsyncConnection) -> tuple[int, int] | None:
    """The first and the newest version that the history has; None: it is empty."""
    first, newest = (await connection.execute(select(func.min(_versions.c.version), func.max(_versions.c.version)))).one()
    return None if first is None else (first, newest)


async def _count_changes(connection: AsyncConnection, versions: Sequence[int]) -> dict[int, dict[str, int]]:
    """Return the number of changes, by version and section."""
    changed: dict[int, dict[str, int]] = {}
    if versions:
        counts = select(_changes.c.version, _changes.c.section, func.count()).group_by(_changes.c.version, _changes.c.section)
        for version, section, count in await connection.execute(counts.where(_changes.c.version.between(min(versions), max(versions)))):
            changed.setdefault(version, {})[section] = count
    return changed


def _to_version(row: Row[Any], changed: dict[str, int]) -> VersionRow:
    at = row.at.isoformat()
    return VersionRow(row.version, at, row.author_kind, row.author_id, row.author_name, row.via, row.restores, changed)


async def page_changes(connection: AsyncConnection, version: int, *, after: str | None, limit: int) -> Page[EntryChange]:
    """Return what a version changed, by section and name.

    Limits are without their positions, unless only these have changed.
    """
    entry = (_changes.c.section, _changes.c.name)
    query = select(_changes).where(_changes.c.version == version).order_by(*entry).limit(limit + 1)
    cursor_scope = f"changes of {version}"
    if after is not None:
        query = query.where(func.row(*entry) > func.row(*read_cursor(after, cursor_scope, [str, str])))
    rows = (await connection.execute(query)).all()
    shown = rows[:limit]
    following = write_cursor(cursor_scope, [shown[-1].section, shown[-1].name]) if len(rows) > limit else None
    return Page([_to_change(row) for row in shown], following)


def _to_change(row: Row[Any]) -> EntryChange:
    return EntryChange(row.section, row.name, without_position(row.section, row.before), without_position(row.section, row.after))


def without_position(section: str, content: dict[str, Any] | None) -> dict[str, Any] | None:
    return content.get("config", content) if section == "limits" and content is not None else content


async def count_other_changes(connection: AsyncConnection, version: int) -> dict[str, int]:
    """How many changes after a version a rollback leaves as they are, by kind of resource: those of keys, credentials and the like."""
    audit = tables.audit_log
    since = select(func.min(_versions.c.at)).where(_versions.c.version > version).scalar_subquery()
    query = select(audit.c.resource, func.count()).where(audit.c.at >= since, audit.c.resource.not_in(list(_RESOURCES.values())))
    rows = await connection.execute(query.group_by(audit.c.resource).order_by(audit.c.resource))
    return {resource: count for resource, count in rows}
