"""A real Valkey for tests, emptied for each."""

import shutil
import tempfile
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
import redis

from app.supervisor import valkey as embedded
from app.supervisor.machine.home import erase_home
from tests.support.processes.fast_folder import fast_folder


class Valkey:
    """A running server. kill() is kill -9, after which start() finds everything acknowledged; flush() loses all keys."""

    def __init__(self, home: Path) -> None:
        self._server = embedded.Valkey(home)
        self.url = self._server.start()
        self.client: Any = redis.Redis.from_url(self.url)  # pyright: ignore[reportUnknownMemberType]

    @property
    def pid(self) -> int:
        assert self._server.child.pid is not None
        return self._server.child.pid

    def start(self) -> None:
        """Does nothing if it runs."""
        if self._server.child.pid is None:
            self._server.start()

    def stop(self) -> None:
        self._server.stop()

    def kill(self) -> None:
        self._server.child.kill()

    def flush(self) -> None:
        self.client.flushall()


@pytest.fixture(scope="session")
def valkey_server() -> Generator[Valkey]:
    home = Path(tempfile.mkdtemp(prefix="narthex-test-", dir=fast_folder()))
    home.chmod(0o711)
    server = Valkey(home)
    try:
        yield server
    finally:
        server.client.close()
        server.stop()
        erase_home(home)
        shutil.rmtree(home, ignore_errors=True)


@pytest.fixture
def valkey(valkey_server: Valkey) -> Valkey:
    """The server, running and empty."""
    valkey_server.start()
    valkey_server.flush()
    return valkey_server
