"""The oldest versions of the servers that Narthex works with. docs/operations.md names them, and tests compare."""

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from app.domain.errors import UnsupportedServer

MIN_POSTGRES = 15
MIN_REDIS = (6, 2)
REDIS_NEEDED = f"Redis {MIN_REDIS[0]}.{MIN_REDIS[1]} or newer, or Valkey"


async def check_postgres(connection: AsyncConnection) -> None:
    """Raises UnsupportedServer if PostgreSQL is too old."""
    query = text("SELECT current_setting('server_version'), current_setting('server_version_num')::int")
    version, number = (await connection.execute(query)).one()
    if number // 10_000 < MIN_POSTGRES:
        raise UnsupportedServer(f"PostgreSQL {version.split(' ')[0]} is too old: Narthex needs {MIN_POSTGRES} or newer.")


def is_old_redis(name: str, version: str) -> bool:
    """Whether a server of this name and version is too old; Valkey never is. False also for a version that is no number."""
    found = tuple(int(part) for part in version.split(".")[:2] if part.isdigit())
    return name == "Redis" and bool(found) and found < MIN_REDIS
