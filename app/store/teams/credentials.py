"""Stored credentials: set, delete, list and re-encrypt them. Their values are write-only here."""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct
from sqlalchemy import Row, delete, func, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from app.domain.routing import ProviderConfig
from app.store.configuration import snapshots
from app.store.postgres import tables
from app.store.postgres.audit_log import SYSTEM, AuditEvent, Author, record, record_all
from app.store.postgres.conditions import one_of
from app.store.postgres.database import Database, transaction
from app.store.postgres.paging import PageQuery, cursor_scope, read_cursor, write_cursor
from app.store.postgres.vault import Vault, encryption_key_id
from app.store.webhooks.webhooks import vault_name
from providers.credentials.references import check_stored_name, check_usable

_credentials = tables.credentials


class CredentialRow(Struct, frozen=True):
    """A stored credential, or one that providers name. `key`: the id of the encryption key; None: nothing is stored under the name, though
    `providers` name it.

    `decryptable`: whether the vault has that key and the value is undamaged. `updated_at` as ISO 8601.
    """

    name: str
    key: str | None
    updated_at: str | None
    decryptable: bool
    providers: Sequence[str]


class Reencrypted(Struct, frozen=True):
    """The result of encrypting stored credentials anew."""

    reencrypted: Sequence[str]  # names that are now encrypted with the newest key
    undecryptable: Sequence[str]  # names that no key decrypts, left unchanged
    version: int | None


class CredentialPage(Struct, frozen=True):
    """A page of a list. `next`: give it as `after` for the next page; null: this is the last page.

    `newest_key_id`: of the encryption key for new credentials; null: there is none, so nothing can be stored.
    """

    data: Sequence[CredentialRow]
    next: str | None
    newest_key_id: str | None


async def page_credentials(connection: AsyncConnection, vault: Vault, query: PageQuery) -> CredentialPage:
    """Credentials by name, including those that a provider names and nobody has stored."""
    users = await _provider_names(connection)
    names = sorted({*await connection.scalars(select(_credentials.c.name)), *users})
    start = 0 if query.after is None else bisect_right(names, read_cursor(query.after, cursor_scope(query), [str])[0])
    shown, more = names[start : start + query.limit], len(names) > start + query.limit
    of_page = select(_credentials).where(one_of(_credentials.c.name, shown))
    stored = {row.name: row for row in await connection.execute(of_page)}
    next_cursor = write_cursor(cursor_scope(query), [shown[-1]]) if more else None
    return CredentialPage([_to_row(name, stored.get(name), users, vault) for name in shown], next_cursor, vault.newest_key_id)


async def find_credential(connection: AsyncConnection, vault: Vault, name: str) -> CredentialRow | None:
    """A credential, also one that a provider names and nobody has stored."""
    users = await _provider_names(connection)
    row = (await connection.execute(select(_credentials).where(_credentials.c.name == name))).one_or_none()
    return None if row is None and name not in users else _to_row(name, row, users, vault)


def _to_row(name: str, row: Row[Any] | None, users: Mapping[str, Sequence[str]], vault: Vault) -> CredentialRow:
    providers = users.get(name, ())
    if row is None:
        return CredentialRow(name, None, None, False, providers)
    key, decryptable = encryption_key_id(row.encrypted), vault.can_decrypt(name, row.encrypted)
    return CredentialRow(name, key, row.updated_at.isoformat(), decryptable, providers)


async def set_credential(database: Database, vault: Vault, name: str, secret: str, *, author: Author = SYSTEM) -> int:
    """Store a credential; returns the version of the configuration that has it.

    Raises CredentialError for an invalid name or secret, NoEncryptionKey.
    """
    encrypted = vault.encrypt(check_stored_name(name), check_usable(secret, "what was given"))
    async with transaction(database) as connection:
        query = select(_credentials.c.encrypted).where(_credentials.c.name == name).with_for_update()
        before = await connection.scalar(query)
        row = insert(_credentials).values(name=name, encrypted=encrypted)
        changed = {"encrypted": row.excluded.encrypted, "updated_at": func.now()}
        await connection.execute(row.on_conflict_do_update(index_elements=["name"], set_=changed))
        version = await snapshots.publish_version(connection)
        action, old = ("create", None) if before is None else ("update", _audited(before))
        await record(connection, author, AuditEvent(action, "credential", name, old, _audited(encrypted), version=version))
        return version


async def delete_credential(database: Database, name: str, *, author: Author = SYSTEM) -> int | None:
    """Delete a credential; returns the version of the configuration without it. None: there was none."""
    async with transaction(database) as connection:
        is_named = _credentials.c.name == name.replace("\0", "")
        before = await connection.scalar(delete(_credentials).where(is_named).returning(_credentials.c.encrypted))
        if before is None:
            return None
        version = await snapshots.publish_version(connection)
        await record(connection, author, AuditEvent("delete", "credential", name, _audited(before), None, version=version))
        return version


async def reencrypt(database: Database, vault: Vault, *, author: Author = SYSTEM) -> Reencrypted:
    """Encrypt with the newest key of `vault` what older keys encrypted. Raises NoEncryptionKey."""
    reencrypted: list[str] = []
    undecryptable: list[str] = []
    async with transaction(database) as connection:
        # Locked: a credential that is set meanwhile waits, and is not overwritten with its old value.
        query = select(_credentials.c.name, _credentials.c.encrypted).order_by(_credentials.c.name).with_for_update()
        for row in (await connection.execute(query)).all():
            if not vault.can_decrypt(row.name, row.encrypted):
                undecryptable.append(row.name)
            elif encryption_key_id(row.encrypted) != vault.newest_key_id:
                encrypted = vault.encrypt(row.name, vault.decrypt(row.name, row.encrypted))
                await connection.execute(update(_credentials).where(_credentials.c.name == row.name).values(encrypted=encrypted))
                reencrypted.append(row.name)
        version = await snapshots.publish_version(connection) if reencrypted else None
        # Writers read them with each delivery.
        webhooks = tables.webhooks
        for row in (await connection.execute(select(webhooks).order_by(webhooks.c.name).with_for_update())).all():
            name = vault_name(row.id)
            if not vault.can_decrypt(name, row.encrypted):
                undecryptable.append(f"webhook {row.name}")
            elif encryption_key_id(row.encrypted) != vault.newest_key_id:
                encrypted = vault.encrypt(name, vault.decrypt(name, row.encrypted))
                await connection.execute(update(webhooks).where(webhooks.c.id == row.id).values(encrypted=encrypted))
                reencrypted.append(f"webhook {row.name}")
        after = {"key": vault.newest_key_id}
        await record_all(
            connection, author, (AuditEvent("reencrypt", "credential", name, None, after, version=version) for name in reencrypted)
        )
    return Reencrypted(reencrypted, undecryptable, version)


def _audited(encrypted: str) -> dict[str, str]:
    """Return what the audit log has of a credential: which key encrypted it, and nothing of its value."""
    return {"key": encryption_key_id(encrypted)}


async def _provider_names(connection: AsyncConnection) -> Mapping[str, list[str]]:
    """The providers that name each credential."""
    users: dict[str, list[str]] = {}
    for name, config in sorted((await snapshots.read_providers(connection)).items()):
        for each in dict.fromkeys(_stored_names(config)):
            users.setdefault(each, []).append(name)
    return users


def _stored_names(config: ProviderConfig) -> list[str]:
    return [each.removeprefix("store:") for each in config.credentials if each.startswith("store:")]
