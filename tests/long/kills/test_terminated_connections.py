"""Postgres ends every connection for half a minute under load: no caller sees a 500, and a revoked key is refused at once afterwards."""

import tempfile
from collections.abc import Generator
from pathlib import Path

import pytest

from app.supervisor.machine.home import erase_home
from tests.support.processes import service as services
from tests.support.processes.fast_folder import fast_folder
from tests.support.processes.postgres import Postgres
from tests.support.processes.terminate_connections import chat_while_connections_end, seconds_until_refused
from tests.support.scripted_engine import ScriptedEngine

TERMINATE_FOR_S = 30.0


@pytest.fixture
def folder() -> Generator[Path]:
    made = Path(tempfile.mkdtemp(prefix="narthex-test-", dir=fast_folder()))
    made.chmod(0o711)
    yield made
    erase_home(made)


async def test_half_a_minute_of_terminated_connections(folder: Path, monkeypatch: pytest.MonkeyPatch):
    server, engine = Postgres(folder), ScriptedEngine()
    await engine.start()
    monkeypatch.setenv("DATABASE_URL", server.url)
    service = services.start(workers=2)
    try:
        service.apply(f"""
            [providers.engine]
            adapter = "openai"
            base_url = "http://127.0.0.1:{engine.port}"
            [models.m]
            targets = [{{ provider = "engine", model = "m" }}]
        """)
        statuses = await chat_while_connections_end(service, server.url, TERMINATE_FOR_S)
        assert statuses[200] and statuses.keys() <= {200, 401, 503}, statuses
        assert await seconds_until_refused(service, server.url) < 2
    finally:
        services.stop(service)
        await engine.stop()
        server.stop()
