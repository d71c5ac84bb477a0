"""What stories do to a service besides asking it: many connections, stopped processes, a look at everything that was stored."""

import asyncio
import contextlib
import os
import signal
import zlib
from collections.abc import AsyncGenerator, Generator
from pathlib import Path
from typing import Any

import asyncpg
import httpx

from app.store.database import connect
from tests.support.service import Service


@contextlib.asynccontextmanager
async def connections(service: Service, number: int, key: str | None = None) -> AsyncGenerator[list[httpx.AsyncClient]]:
    """So many callers, each on a connection of its own that is open: the kernel gives some of them to every worker."""
    headers = {"authorization": f"Bearer {key or service.key}"}
    one = httpx.Limits(max_connections=1, max_keepalive_connections=1)
    async with contextlib.AsyncExitStack() as stack:
        callers = [await stack.enter_async_context(service.client(headers=headers, limits=one)) for _ in range(number)]
        await asyncio.gather(*(caller.get("/health/live") for caller in callers))
        yield callers


@contextlib.contextmanager
def paused_processes(*pids: int) -> Generator[None]:
    """Processes that are there and do nothing."""
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


def process_tree(pid: int) -> list[int]:
    """A process and its children, such as a Postgres with those that serve its connections."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *(int(child) for child in children)]


def database_url(service: Service) -> str:
    lines = (service.home / "run" / "servers").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines)["DATABASE_URL"]


def file_contents(home: Path) -> dict[Path, str]:
    """What lies in a home as it is: logs, spool, what is kept of the directory. Not the servers' own files."""
    servers = home / "data"
    found = [path for path in home.rglob("*") if path.is_file() and servers not in path.parents]
    return {path: path.read_bytes().decode("utf-8", "replace") for path in found}


async def all_stored_text(service: Service) -> str:
    """Every row of every table, content unpacked."""
    connection: asyncpg.Connection[Any] = await connect(database_url(service))
    tables = [row["tablename"] for row in await connection.fetch("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")]
    values = [value for table in tables for row in await connection.fetch(f'SELECT * FROM "{table}"') for value in row.values()]
    await connection.close()
    return "\n".join(_text(value) for value in values)


def _text(value: Any) -> str:
    if not isinstance(value, bytes):
        return str(value)
    try:
        return zlib.decompress(value).decode("utf-8", "replace")
    except zlib.error:  # a hash, or an id
        return value.decode("utf-8", "replace")
