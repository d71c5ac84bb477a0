"""Stored credentials: set, deleted, listed, and encrypted anew. What they hold goes in, and never comes out of here."""

from collections.abc import Mapping, Sequence

from msgspec import Struct
from sqlalchemy import delete, func, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from app.domain import ProviderConfig
from app.store import snapshots, tables
from app.store.database import transaction
from app.store.vault import Vault, encryption_key_id
from providers.credentials.references import check_stored_name, check_usable

_credentials = tables.credentials


class CredentialRow(Struct, frozen=True):
    """`key`: the id of the key that encrypts it, None: nothing is stored under the name, though `providers` name it.

    `opens`: whether a vault has that key, and it is whole. `updated_at` as ISO 8601.
    """

    name: str
    key: str | None
    updated_at: str | None
    opens: bool
    providers: Sequence[str]


class Reencrypted(Struct, frozen=True):
    """`sealed`: names that the newest key encrypts now. `unopened`: those that no key opens, left as they were."""

    sealed: Sequence[str]
    unopened: Sequence[str]
    version: int | None


async def list_credentials(database: str | AsyncEngine, vault: Vault) -> list[CredentialRow]:
    """By name; those too that a provider names and nobody has stored."""
    async with transaction(database) as connection:
        users = await _provider_names(connection)
        rows = {
            row.name: CredentialRow(
                row.name,
                encryption_key_id(row.sealed),
                row.updated_at.isoformat(),
                vault.can_decrypt(row.name, row.sealed),
                users.get(row.name, ()),
            )
            for row in await connection.execute(select(_credentials))
        }
    missing = {name: CredentialRow(name, None, None, False, providers) for name, providers in users.items() if name not in rows}
    return [each for _, each in sorted({**rows, **missing}.items())]


async def set_credential(database: str | AsyncEngine, vault: Vault, name: str, secret: str) -> int:
    """The version of the configuration that has it. Raises NoCredential for a name or a secret that can be none, NoKeys."""
    encrypted = vault.encrypt(check_stored_name(name), check_usable(secret, "what was given"))
    async with transaction(database) as connection:
        row = insert(_credentials).values(name=name, sealed=encrypted)
        changed = {"sealed": row.excluded.sealed, "updated_at": func.now()}
        await connection.execute(row.on_conflict_do_update(index_elements=["name"], set_=changed))
        return await snapshots.publish_version(connection)


async def delete_credential(database: str | AsyncEngine, name: str) -> int | None:
    """The version of the configuration that lacks it; None: there was none."""
    async with transaction(database) as connection:
        deleted = await connection.execute(delete(_credentials).where(_credentials.c.name == name.replace("\0", "")))
        return await snapshots.publish_version(connection) if deleted.rowcount else None


async def reencrypt(database: str | AsyncEngine, vault: Vault) -> Reencrypted:
    """All that older keys encrypt and `vault` opens, with its newest. Raises NoKeys."""
    reencrypted: list[str] = []
    undecryptable: list[str] = []
    async with transaction(database) as connection:
        # Locked: what is set meanwhile waits, and is not overwritten by what was there before.
        rows = await connection.execute(select(_credentials.c.name, _credentials.c.sealed).order_by(_credentials.c.name).with_for_update())
        for row in rows.all():
            if not vault.can_decrypt(row.name, row.sealed):
                undecryptable.append(row.name)
            elif encryption_key_id(row.sealed) != vault.newest_key_id:
                encrypted = vault.encrypt(row.name, vault.decrypt(row.name, row.sealed))
                await connection.execute(update(_credentials).where(_credentials.c.name == row.name).values(sealed=encrypted))
                reencrypted.append(row.name)
        version = await snapshots.publish_version(connection) if reencrypted else None
    return Reencrypted(reencrypted, undecryptable, version)


async def _provider_names(connection: AsyncConnection) -> Mapping[str, list[str]]:
    """Which providers name which."""
    users: dict[str, list[str]] = {}
    for name, config in sorted((await snapshots.read_providers(connection)).items()):
        for each in dict.fromkeys(_stored_names(config)):
            users.setdefault(each, []).append(name)
    return users


def _stored_names(config: ProviderConfig) -> list[str]:
    return [each.removeprefix("store:") for each in config.credentials if each.startswith("store:")]
