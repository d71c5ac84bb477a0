"""Stored credentials: set, deleted, listed, and encrypted anew. What they hold goes in, and never comes out of here."""

from collections.abc import Mapping, Sequence

from msgspec import Struct
from sqlalchemy import delete, func, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from app.domain import ProviderConfig
from app.store import directory, tables
from app.store.database import transaction
from app.store.vault import Vault, key_of
from providers.credentials.references import stored_name, usable

_stored = tables.credentials


class CredentialRow(Struct, frozen=True):
    """`key`: the id of the key that encrypts it, None: nothing is stored under the name, though `providers` name it.

    `opens`: whether a vault has that key, and it is whole. `updated_at` as ISO 8601.
    """

    name: str
    key: str | None
    updated_at: str | None
    opens: bool
    providers: Sequence[str]


class Resealed(Struct, frozen=True):
    """`sealed`: names that the newest key encrypts now. `unopened`: those that no key opens, left as they were."""

    sealed: Sequence[str]
    unopened: Sequence[str]
    version: int | None


async def list_credentials(database: str | AsyncEngine, vault: Vault) -> list[CredentialRow]:
    """By name; those too that a provider names and nobody has stored."""
    async with transaction(database) as connection:
        users = await _users(connection)
        rows = {
            row.name: CredentialRow(
                row.name, key_of(row.sealed), row.updated_at.isoformat(), vault.opens(row.name, row.sealed), users.get(row.name, ())
            )
            for row in await connection.execute(select(_stored))
        }
    missing = {name: CredentialRow(name, None, None, False, providers) for name, providers in users.items() if name not in rows}
    return [each for _, each in sorted({**rows, **missing}.items())]


async def set_credential(database: str | AsyncEngine, vault: Vault, name: str, secret: str) -> int:
    """The version of the configuration that has it. Raises NoCredential for a name or a secret that can be none, NoKeys."""
    sealed = vault.seal(stored_name(name), usable(secret, "what was given"))
    async with transaction(database) as connection:
        row = insert(_stored).values(name=name, sealed=sealed)
        changed = {"sealed": row.excluded.sealed, "updated_at": func.now()}
        await connection.execute(row.on_conflict_do_update(index_elements=["name"], set_=changed))
        return await directory.announce(connection)


async def delete_credential(database: str | AsyncEngine, name: str) -> int | None:
    """The version of the configuration that lacks it; None: there was none."""
    async with transaction(database) as connection:
        gone = await connection.execute(delete(_stored).where(_stored.c.name == name.replace("\0", "")))
        return await directory.announce(connection) if gone.rowcount else None


async def reseal(database: str | AsyncEngine, vault: Vault) -> Resealed:
    """All that older keys encrypt and `vault` opens, with its newest. Raises NoKeys."""
    sealed: list[str] = []
    unopened: list[str] = []
    async with transaction(database) as connection:
        # Locked: what is set meanwhile waits, and is not overwritten by what was there before.
        rows = await connection.execute(select(_stored.c.name, _stored.c.sealed).order_by(_stored.c.name).with_for_update())
        for row in rows.all():
            if not vault.opens(row.name, row.sealed):
                unopened.append(row.name)
            elif key_of(row.sealed) != vault.newest:
                anew = vault.seal(row.name, vault.open(row.name, row.sealed))
                await connection.execute(update(_stored).where(_stored.c.name == row.name).values(sealed=anew))
                sealed.append(row.name)
        version = await directory.announce(connection) if sealed else None
    return Resealed(sealed, unopened, version)


async def _users(connection: AsyncConnection) -> Mapping[str, list[str]]:
    """Which providers name which."""
    users: dict[str, list[str]] = {}
    for name, config in sorted((await directory.read_providers(connection)).items()):
        for each in dict.fromkeys(_names(config)):
            users.setdefault(each, []).append(name)
    return users


def _names(config: ProviderConfig) -> list[str]:
    return [each.removeprefix("store:") for each in config.credentials if each.startswith("store:")]
