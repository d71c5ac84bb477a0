"""Opening connections: to a server that is to take writes, and for a question that is asked once."""

import asyncio
from collections.abc import Sequence
from typing import Any, TypeVar

from app.store.redis.address import Address
from app.store.redis.connection import COMMANDS, Connection
from app.store.redis.replies import RedisReplyError, RedisUnavailable
from app.store.redis.resp import command
from providers.transport.write_batcher import WriteBatcher

R = TypeVar("R")


async def open_connection(address: Address, connection: Connection[R], timeout_s: float, *, must_be_primary: bool = False) -> None:
    """Connects, and logs in. Raises OSError, TimeoutError, RedisUnavailable or RedisReplyError.

    `must_be_primary`: the address was found, so that the server may have become a replica since.
    """
    async with asyncio.timeout(timeout_s):
        await address.connect(lambda: connection)
    for handshake_command in address.handshake_commands:
        await send_command(connection, command(handshake_command))
    if must_be_primary:
        try:
            role = (await send_command(connection, command((b"ROLE",))))[0]
        except RedisReplyError as error:
            if not str(error).startswith("NOPERM"):
                raise
        else:
            if role != b"master":
                raise RedisUnavailable(f"{address.host}:{address.port} is no primary.", unsent=True)


async def send_command(connection: Connection[R], request: bytes | R) -> Any:
    """Returns the reply. Raises RedisUnavailable or RedisReplyError."""
    waiter: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    connection.send(request, waiter)
    return await waiter


async def query_server(address: Address, requests: Sequence[bytes], timeout_s: float) -> list[Any]:
    """Replies to commands over a connection that is closed afterwards. Raises RedisUnavailable or RedisReplyError."""
    connection = Connection(WriteBatcher(), COMMANDS, timeout_s, _do_nothing)
    try:
        await open_connection(address, connection, timeout_s)
        return [await send_command(connection, request) for request in requests]
    except (OSError, TimeoutError) as fault:
        raise RedisUnavailable(repr(fault), unsent=True) from fault
    finally:
        connection.abort()


def _do_nothing() -> None:
    pass
