"""Actions of tests on a service besides requests: many connections, paused processes, a search of everything stored."""

import asyncio
import contextlib
import os
import signal
import zlib
from collections.abc import AsyncGenerator, Callable, Generator
from pathlib import Path
from typing import Any

import asyncpg
import httpx2

from app.store.postgres.database import connect
from tests.support.processes.service import Service
from tests.support.processes.wait_until import wait_until


@contextlib.asynccontextmanager
async def connections(service: Service, number: int, key: str | None = None) -> AsyncGenerator[list[httpx2.AsyncClient]]:
    """This many callers, each with an open connection of its own: the kernel gives some of them to every worker."""
    headers = {"authorization": f"Bearer {key or service.key}"}
    one = httpx2.Limits(max_connections=1, max_keepalive_connections=1)
    async with contextlib.AsyncExitStack() as stack:
        callers = [await stack.enter_async_context(service.client(headers=headers, limits=one)) for _ in range(number)]
        await asyncio.gather(*(caller.get("/health/live") for caller in callers))
        yield callers


@contextlib.contextmanager
def paused_processes(*pids: int) -> Generator[None]:
    """Pauses these processes, which meanwhile exist and do nothing."""
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


async def wait_until_endpoints(service: Service, condition: Callable[[dict[str, Any]], bool]) -> None:
    """Returns once every worker reports endpoints (by provider) that meet the condition.

    Twelve responses in a row must meet it: a dozen new connections reach each of two workers.
    """

    async def is_met() -> bool:
        for _ in range(12):
            async with service.admin_client() as admin:
                response = await admin.get("/admin/v1/endpoints")
            if not condition({each["provider"]: each for each in response.json()["data"]}):
                return False
        return True

    await wait_until(is_met)


def processor_s(*pids: int) -> float:
    """The processor time that these processes have used, in seconds."""
    ticks = 0
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
        ticks += int(fields[11]) + int(fields[12])  # of the process itself, in user mode and in the kernel
    return ticks / os.sysconf("SC_CLK_TCK")


def process_tree(pid: int) -> list[int]:
    """A process and its children, such as Postgres with the processes that serve its connections."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *(int(child) for child in children)]


def database_url(service: Service) -> str:
    lines = (service.home / "run" / "servers").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines)["DATABASE_URL"]


def file_contents(home: Path) -> dict[Path, str]:
    """The files of a home: logs, spool, the configuration snapshot. Not those of Postgres and Valkey."""
    servers = home / "data"
    found = [path for path in home.rglob("*") if path.is_file() and servers not in path.parents]
    return {path: path.read_bytes().decode("utf-8", "replace") for path in found}


async def all_stored_text(service: Service) -> str:
    """Every value of every table, with content unpacked."""
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
    except zlib.error:  # a hash or an id
        return value.decode("utf-8", "replace")
