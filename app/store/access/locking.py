"""The lock that every change to accounts and roles takes: whether one may be made depends on the others."""

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection


async def lock_access(connection: AsyncConnection) -> None:
    """Wait until no other transaction changes accounts or roles, and keep others from it until the end of this one."""
    await connection.execute(text("SELECT pg_advisory_xact_lock(hashtext('narthex access'))"))
