"""Roles of Postgres that may read the views for analysts, and nothing else by that."""

from collections.abc import Iterator, Sequence

from msgspec import Struct
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from app.store.postgres.audit_log import AuditEvent, Author, record

SCHEMA = "narthex_views"


class AnalystRole(Struct, frozen=True):
    """A role of Postgres that reads the views for analysts."""

    name: str
    reads_content: bool  # whether it may read what was written, too, by other privileges than those of the views


class UnknownRole(ValueError):
    """There is no such role in Postgres, or it has no access to take away."""


def grant_statements(role: str) -> Iterator[str]:
    """The last ones are for views and functions that later versions create; they hold for what their own user creates."""
    name = _quoted(role)
    yield f"GRANT USAGE ON SCHEMA {SCHEMA} TO {name}"
    for privilege, kind in _PRIVILEGES:
        yield f"GRANT {privilege} ON ALL {kind} IN SCHEMA {SCHEMA} TO {name}"
    for privilege, kind in _PRIVILEGES:
        yield f"ALTER DEFAULT PRIVILEGES IN SCHEMA {SCHEMA} GRANT {privilege} ON {kind} TO {name}"


def revoke_statements(role: str) -> Iterator[str]:
    name = _quoted(role)
    for privilege, kind in _PRIVILEGES:
        yield f"ALTER DEFAULT PRIVILEGES IN SCHEMA {SCHEMA} REVOKE {privilege} ON {kind} FROM {name}"
    for privilege, kind in _PRIVILEGES:
        yield f"REVOKE {privilege} ON ALL {kind} IN SCHEMA {SCHEMA} FROM {name}"
    yield f"REVOKE USAGE ON SCHEMA {SCHEMA} FROM {name}"


_PRIVILEGES = (("SELECT", "TABLES"), ("EXECUTE", "FUNCTIONS"))


async def grant(connection: AsyncConnection, author: Author, role: str) -> AnalystRole:
    """Let a role read the views, those of later versions too. Raises UnknownRole."""
    reads_content = (await connection.execute(text(_READS_CONTENT), {"role": role})).scalar()
    if reads_content is None:
        raise UnknownRole(f"Postgres has no role {role!r:.80}. Create it first: CREATE ROLE {_quoted(role)} LOGIN PASSWORD '...'.")
    for statement in grant_statements(role):
        await connection.exec_driver_sql(statement)
    granted = AnalystRole(role, reads_content)
    await record(connection, author, AuditEvent("grant", "views", role, after={"role": role}))
    return granted


async def revoke(connection: AsyncConnection, author: Author, role: str) -> None:
    """Raises UnknownRole if it was not granted the views."""
    if role not in [each.name for each in await list_roles(connection)]:
        raise UnknownRole(f"The role {role!r:.80} has no access to take away. `narthex views list` shows those that have.")
    for statement in revoke_statements(role):
        await connection.exec_driver_sql(statement)
    await record(connection, author, AuditEvent("revoke", "views", role, before={"role": role}))


async def list_roles(connection: AsyncConnection) -> Sequence[AnalystRole]:
    """List the roles that were granted the views, without their owner."""
    return [AnalystRole(row.name, row.reads_content) for row in await connection.execute(text(_ROLES), {"schema": SCHEMA})]


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


_READS_CONTENT = "SELECT has_table_privilege(oid, 'inference_content', 'SELECT') FROM pg_roles WHERE rolname = :role"
_ROLES = """
SELECT r.rolname AS name, has_table_privilege(r.oid, 'inference_content', 'SELECT') AS reads_content
FROM pg_namespace n CROSS JOIN LATERAL aclexplode(n.nspacl) AS a JOIN pg_roles r ON r.oid = a.grantee
WHERE n.nspname = :schema AND a.privilege_type = 'USAGE' AND a.grantee <> n.nspowner
ORDER BY r.rolname
"""
