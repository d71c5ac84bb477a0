"""A real PostgreSQL for tests, and fresh migrated databases in it."""

import asyncio
import secrets
import shutil
import tempfile
from collections.abc import AsyncGenerator, Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from app.store.postgres.database import connect
from app.supervisor import postgres as embedded
from app.supervisor.machine.home import erase_home
from tests.support.processes.fast_folder import fast_folder
from tests.support.processes.fork_server import run_forked
from tests.support.processes.migrated_cluster import place_migrated_cluster


class Postgres:
    """A running server; `url` is an empty database, and `migrated` one with tables.

    kill() is kill -9, after which start() finds everything that was committed.
    """

    def __init__(self, home: Path) -> None:
        place_migrated_cluster(home)
        self._server = embedded.Postgres(home)
        self.url = self._server.start()
        run_forked(_make_databases, self.database_url("postgres"))

    def start(self) -> None:
        self._server.start()

    def stop(self) -> None:
        self._server.stop()

    def kill(self) -> None:
        self._server.child.kill()

    def database_url(self, name: str) -> str:
        return self.url.replace("/narthex?", f"/{name}?")

    async def execute(self, sql: str) -> None:
        connection = await connect(self.url)
        try:
            await connection.execute(sql)
        finally:
            await connection.close()


def _make_databases(url: str) -> None:
    async def make_databases() -> None:
        connection = await connect(url)
        await connection.execute("ALTER DATABASE narthex RENAME TO migrated")
        await connection.execute("CREATE DATABASE narthex")
        await connection.close()

    asyncio.run(make_databases())


@contextmanager
def running_postgres(folder: str) -> Generator[Postgres]:
    """Runs a PostgreSQL, whose files are in a folder of their own below this one and gone afterwards."""
    home = Path(tempfile.mkdtemp(prefix="narthex-test-", dir=folder))
    # Under root the server runs as a user of its own, who must reach it: else its data would be below /var/lib, on disk.
    home.chmod(0o711)
    server = Postgres(home)
    try:
        yield server
    finally:
        server.stop()
        erase_home(home)
        shutil.rmtree(home, ignore_errors=True)


@pytest.fixture(scope="session")
async def postgres() -> AsyncGenerator[Postgres]:
    with running_postgres(fast_folder()) as server:
        yield server


@pytest.fixture
async def database(postgres: Postgres) -> str:
    """The URL of this test's own database, migrated and empty."""
    name = f"test_{secrets.token_hex(4)}"
    # Ten megabytes of tables, which would go through the server's log page by page.
    await postgres.execute(f"CREATE DATABASE {name} TEMPLATE migrated STRATEGY file_copy")
    return postgres.database_url(name)


@pytest.fixture
async def blank_database(postgres: Postgres) -> str:
    """The URL of this test's own database, without tables."""
    name = f"test_{secrets.token_hex(4)}"
    await postgres.execute(f"CREATE DATABASE {name}")
    return postgres.database_url(name)
