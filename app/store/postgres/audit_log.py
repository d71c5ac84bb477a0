"""The audit log: who changed what, when, from where, and what it was before. Its table is append-only: a trigger refuses all else."""

import getpass
import os
import re
from collections.abc import Iterable, Mapping
from typing import Any, Literal, cast

import msgspec
from msgspec import Struct
from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from app.domain import uuid7
from app.store.postgres import tables
from app.store.postgres.batches import BATCH_ROWS, execute_in_batches
from providers.canonical.credential_masking import mask_credentials

AuthorKind = Literal["key", "user", "service_account", "cli", "system"]
Via = Literal["rest", "cli", "sign_in", "system"]
MAX_USER_AGENT_CHARACTERS = 300
_PUBLIC_PART = re.compile(r"nx-[0-9a-f]{12}")  # of a key: it names the key, and opens nothing


class Author(Struct, frozen=True):
    """Who makes a change."""

    kind: AuthorKind
    id: str | None  # of the key (its public part), user or service account; None: a command or the gateway itself
    name: str
    via: Via
    ip: str | None = None
    user_agent: str | None = None
    request_id: str | None = None


class Change(Struct, frozen=True):
    """A change as the audit log has it. `before` null: the resource was new; `after` null: it is gone."""

    action: str
    resource: str
    name: str
    team: str | None
    before: dict[str, Any] | None
    after: dict[str, Any] | None


SYSTEM = Author("system", None, "narthex", "system")


class AuditEvent(Struct, frozen=True):
    """A change to one resource.

    Neither `before` nor `after` may hold a secret.
    """

    action: str
    resource: str
    name: str
    before: Mapping[str, Any] | None = None  # None: it is new
    after: Mapping[str, Any] | None = None  # None: it is gone
    team: str | None = None  # whose it is
    version: int | None = None  # of the configuration that has the change; None: it changed none


def command_author() -> Author:
    """The author of what a command changes: the user of the operating system that runs it."""
    try:
        name = getpass.getuser()
    except (KeyError, OSError):  # a container whose user has no name
        name = f"uid {os.getuid()}"
    return Author("cli", None, name, "cli")


async def record(connection: AsyncConnection, author: Author, *events: AuditEvent) -> None:
    """Add events to the log, in the transaction of the change."""
    await record_all(connection, author, events)


async def record_all(connection: AsyncConnection, author: Author, events: Iterable[AuditEvent]) -> None:
    by = {
        "author_kind": author.kind,
        "author_id": author.id,
        "author_name": author.name,
        "via": author.via,
        "ip": author.ip,
        "user_agent": author.user_agent and author.user_agent[:MAX_USER_AGENT_CHARACTERS],
        "request_id": author.request_id,
    }
    rows = ({"id": uuid7.mint(), **by, **_event_values(event)} for event in events)
    await execute_in_batches(connection, tables.audit_log.insert(), rows)


async def read_changes(connection: AsyncConnection, author: Author) -> list[Change]:
    """Returns what the request of an author has changed so far, in this transaction."""
    audit = tables.audit_log.c
    columns = (audit.action, audit.resource, audit.name, audit.team, audit.before, audit.after)
    query = select(*columns).where(audit.request_id == author.request_id, audit.at == func.now()).order_by(audit.id)
    async with connection.stream(query) as rows:
        return [Change(*row) async for batch in rows.partitions(BATCH_ROWS) for row in batch]


def _event_values(event: AuditEvent) -> dict[str, Any]:
    values = msgspec.structs.asdict(event)
    return {**values, "before": _masked(msgspec.to_builtins(event.before)), "after": _masked(msgspec.to_builtins(event.after))}


def _masked(value: Any) -> Any:
    """The value, with whatever looks like a credential masked: options of a provider may hold what its administrator put there."""
    match value:
        case str():
            return value if _PUBLIC_PART.fullmatch(value) else mask_credentials(value)
        case dict():
            return {name: _masked(each) for name, each in cast("dict[str, Any]", value).items()}
        case list():
            return [_masked(each) for each in cast("list[Any]", value)]
        case _:
            return value
