"""Snapshots: the configuration in Postgres as one immutable record in memory, and on disk for a start without Postgres."""

import hashlib
import logging
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
from sqlalchemy import func, select, text
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from app.domain import Limit, ModelConfig, Price, ProviderConfig, Snapshot
from app.store import tables

log = logging.getLogger(__name__)

EMPTY = Snapshot(version=0, hash="", providers={}, models={})
CHANNEL = "narthex_directory"
_NO_CREDENTIALS: Mapping[str, str] = {}
_NO_TIMES: Mapping[str, int] = {}


async def read_version(connection: AsyncConnection) -> int:
    """The current version of the configuration; cheap enough to query often. 0: nothing was ever configured."""
    return await connection.scalar(select(tables.snapshot_version.c.version)) or 0


async def read_snapshot(connection: AsyncConnection) -> Snapshot:
    """The current configuration. The connection must be in a REPEATABLE READ transaction for its parts to be consistent."""
    version = await read_version(connection)
    providers = await read_providers(connection)
    models = {
        row.name: msgspec.convert(row.config, ModelConfig)
        for row in await connection.execute(select(tables.models.c.name, tables.models.c.config).order_by(tables.models.c.name))
    }
    columns = tables.limits.c
    rows = (await connection.execute(select(columns.config, columns.counted_since).order_by(columns.position, columns.name))).all()
    limits = [msgspec.convert(row.config, Limit) for row in rows]
    limits_since = {
        limit.name: int(row.counted_since.timestamp() * 1000) for limit, row in zip(limits, rows, strict=True) if row.counted_since
    }
    prices = [msgspec.convert(config, Price) for config in await connection.scalars(select(tables.prices.c.config))]
    stored = select(tables.credentials.c.name, tables.credentials.c.encrypted)
    credentials = {row.name: row.encrypted for row in await connection.execute(stored)}
    return build_snapshot(version, providers, models, limits, prices, credentials, limits_since)


async def read_providers(connection: AsyncConnection) -> Mapping[str, ProviderConfig]:
    rows = await connection.execute(select(tables.providers.c.name, tables.providers.c.config).order_by(tables.providers.c.name))
    return {row.name: msgspec.convert(row.config, ProviderConfig) for row in rows}


def build_snapshot(
    version: int,
    providers: Mapping[str, ProviderConfig],
    models: Mapping[str, ModelConfig],
    limits: Sequence[Limit] = (),
    prices: Sequence[Price] = (),
    credentials: Mapping[str, str] = _NO_CREDENTIALS,
    limits_since: Mapping[str, int] = _NO_TIMES,
) -> Snapshot:
    unhashed = Snapshot(version, "", providers, models, tuple(limits), tuple(sorted(prices, key=price_key)), credentials, limits_since)
    return msgspec.structs.replace(unhashed, hash=hashlib.sha256(_hashed_content(unhashed)).hexdigest()[:32])


def price_key(price: Price) -> tuple[str, str, str]:
    """The identity of a price, by which prices are sorted."""
    return price.provider, price.model, price.since or ""


def _hashed_content(snapshot: Snapshot) -> bytes:
    """The content that the hash covers: everything but stored credentials, which change no response, and the age of limits.

    Sections that came with later versions are included only if they are not empty, so that earlier hashes stay true.
    """
    later_sections = {"limits": snapshot.limits, "prices": snapshot.prices}
    content = {"providers": snapshot.providers, "models": snapshot.models, **{name: each for name, each in later_sections.items() if each}}
    return msgspec.json.encode(content, order="sorted")


async def publish_version(connection: AsyncConnection) -> int:
    """Increment the version, in the transaction of a change, and notify the workers at its commit."""
    counter = insert(tables.snapshot_version).values(id=1, version=1)
    incremented = counter.on_conflict_do_update(index_elements=["id"], set_={"version": tables.snapshot_version.c.version + 1})
    version = (await connection.execute(incremented.returning(tables.snapshot_version.c.version))).scalar_one()
    await connection.execute(text("SELECT pg_notify(:channel, '')"), {"channel": CHANNEL})
    return version


async def store_snapshot(connection: AsyncConnection, snapshot: Snapshot) -> None:
    """Store the configuration in Postgres under its hash, which inferences carry."""
    document = msgspec.json.decode(_hashed_content(snapshot))
    await connection.execute(insert(tables.snapshots).values(hash=snapshot.hash, document=document).on_conflict_do_nothing())


async def report_worker(connection: AsyncConnection, worker: str, version: int) -> None:
    """Report that a worker serves a version; `apply` waits for these reports."""
    seen = insert(tables.workers).values(id=worker, version=version)
    await connection.execute(
        seen.on_conflict_do_update(index_elements=["id"], set_={"version": seen.excluded.version, "seen_at": func.now()})
    )


async def remove_worker(connection: AsyncConnection, worker: str) -> None:
    await connection.execute(tables.workers.delete().where(tables.workers.c.id == worker))


def save_to_disk(snapshot: Snapshot, path: Path) -> None:
    """Save the snapshot to disk, atomically."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    draft = path.with_suffix(f".{os.getpid()}.new")
    draft.write_bytes(msgspec.json.encode(snapshot))
    draft.chmod(0o600)
    draft.replace(path)


def load_from_disk(path: Path) -> Snapshot | None:
    """The snapshot that an earlier run saved; None if there is none that can be read."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Snapshot)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.DecodeError) as fault:
        log.warning("the saved configuration cannot be read, so it is ignored", extra={"path": str(path), "fault": str(fault)})
        return None
