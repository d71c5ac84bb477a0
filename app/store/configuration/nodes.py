"""Registered nodes (engines that joined by themselves) and drained endpoints (which get no new requests), in Postgres."""

from collections.abc import Collection

from sqlalchemy import delete, func, select, tuple_, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncEngine

from app.domain.routing import Node
from app.store.configuration import snapshots
from app.store.postgres import tables
from app.store.postgres.audit_log import SYSTEM, AuditEvent, Author, record
from app.store.postgres.database import Database, transaction

_nodes = tables.nodes
_drained = tables.drained_endpoints
MAX_NODES = 10_000


class TooManyNodes(Exception):
    """Raised if as many nodes are registered as may be."""


async def add_node(database: AsyncEngine, node: Node) -> None:
    """Register a node, or renew and change its registration. Raises TooManyNodes."""
    values = {"models": list(node.models), "speed": node.speed}
    async with transaction(database) as connection:
        row = insert(_nodes).values(provider=node.provider, address=node.address, **values)
        of_node = (_nodes.c.provider == node.provider) & (_nodes.c.address == node.address)
        before = (await connection.execute(select(_nodes.c.models, _nodes.c.speed).where(of_node))).one_or_none()
        if before is None and (await connection.scalar(select(func.count()).select_from(_nodes)) or 0) >= MAX_NODES:
            raise TooManyNodes
        changed = {**values, "registered_at": func.now(), "renewed_at": func.now()}
        await connection.execute(row.on_conflict_do_update(index_elements=["provider", "address"], set_=changed))
        if before is None or (list(before.models), before.speed) != (values["models"], values["speed"]):
            await snapshots.publish_version(connection)


async def remove_nodes(database: AsyncEngine, nodes: Collection[tuple[str, str]]) -> int:
    """Remove nodes by provider and address. How many of them were registered."""
    if not nodes:
        return 0
    async with transaction(database) as connection:
        removed = await connection.execute(delete(_nodes).where(tuple_(_nodes.c.provider, _nodes.c.address).in_(list(nodes))))
        if removed.rowcount:
            await snapshots.publish_version(connection)
        return removed.rowcount


async def take_nodes(database: AsyncEngine, address: str | None) -> list[tuple[str, str]]:
    """Remove the nodes with this address; None: all. Their providers and addresses."""
    async with transaction(database) as connection:
        of_address = delete(_nodes) if address is None else delete(_nodes).where(_nodes.c.address == address)
        rows = (await connection.execute(of_address.returning(_nodes.c.provider, _nodes.c.address))).all()
        if rows:
            await snapshots.publish_version(connection)
        return [(row.provider, row.address) for row in rows]


async def renew_nodes(database: AsyncEngine, nodes: Collection[tuple[str, str]], *, older_than_s: float) -> None:
    """Note that nodes are alive, unless another process did so less than `older_than_s` ago."""
    if nodes:
        is_due = _nodes.c.renewed_at < func.now() - func.make_interval(0, 0, 0, 0, 0, 0, older_than_s)
        async with transaction(database) as connection:
            is_one = tuple_(_nodes.c.provider, _nodes.c.address).in_(list(nodes))
            await connection.execute(update(_nodes).where(is_one & is_due).values(renewed_at=func.now()))


async def remove_expired_nodes(database: AsyncEngine, nodes: Collection[tuple[str, str]], *, expired_s: float) -> int:
    """Remove those of the nodes that no process has renewed for so long. How many were removed."""
    if not nodes:
        return 0
    async with transaction(database) as connection:
        is_one = tuple_(_nodes.c.provider, _nodes.c.address).in_(list(nodes))
        is_expired = _nodes.c.renewed_at < func.now() - func.make_interval(0, 0, 0, 0, 0, 0, expired_s)
        removed = await connection.execute(delete(_nodes).where(is_one & is_expired))
        if removed.rowcount:
            await snapshots.publish_version(connection)
        return removed.rowcount


async def set_drained(database: Database, provider: str, address: str, *, drained: bool, author: Author = SYSTEM) -> None:
    """Take an endpoint out of rotation, or put it back. It may be any address, as an endpoint may come back later."""
    async with transaction(database) as connection:
        if drained:
            row = insert(_drained).values(provider=provider, address=address).on_conflict_do_nothing()
            changed = (await connection.execute(row)).rowcount
        else:
            is_one = (_drained.c.provider == provider) & (_drained.c.address == address)
            changed = (await connection.execute(delete(_drained).where(is_one))).rowcount
        if changed:
            version = await snapshots.publish_version(connection)
            before, after = {"drained": not drained}, {"drained": drained}
            name = f"{provider} {address}"
            await record(
                connection, author, AuditEvent("drain" if drained else "undrain", "endpoint", name, before, after, version=version)
            )
