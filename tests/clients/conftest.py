"""Fixtures for the clients: the complete service, its sandbox, and scripted engines of every dialect."""

import re
import tomllib

import httpx2
import pytest

from tests.clients.client_runs import ClientRuns
from tests.clients.install import FOLDERS, HERE, is_installed
from tests.integration.conftest import client, engine, engines, service
from tests.support.processes.service import Service
from tests.support.scripted_engine import ScriptedEngine

__all__ = ["client", "engine", "engines", "service"]

_ABORTED = re.compile(r'^sandbox_requests_total\{model="sandbox-slow",outcome="aborted"\} (\S+)$', re.MULTILINE)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A client runs once for each model, so the checks of that run belong to one process of xdist, as do the other tests of a file."""
    for item in items:
        if isinstance(item, pytest.Function) and HERE in item.path.parents:
            of_client = item.callspec.params.keys() >= {"client", "model"} if hasattr(item, "callspec") else False
            name = "{client}-{model}".format(**item.callspec.params) if of_client else item.path.stem
            item.add_marker(pytest.mark.xdist_group(name))


@pytest.fixture(scope="session")
async def runs(service: Service, engines: tuple[ScriptedEngine, ScriptedEngine]) -> ClientRuns:
    """The reports of every client, which runs once for each model."""
    missing = [str(folder.relative_to(HERE.parents[1])) for folder in FOLDERS if not is_installed(folder)]
    assert not missing, f"Not installed, or out of date: {', '.join(missing)}. `python -m tests.clients.install` makes them."
    exported = service.run("export")
    assert exported.returncode == 0, exported.stderr
    port = engines[0].port
    service.apply(f"""
        [providers]
        google = {{ adapter = "gemini", base_url = "http://127.0.0.1:{port}" }}
        aws = {{ adapter = "bedrock", base_url = "http://127.0.0.1:{port}" }}
        [models]
        gemini = {{ targets = [{{ provider = "google", model = "gemini-3-flash-preview" }}] }}
        gemini-flash-latest = {{ targets = [{{ provider = "google", model = "gemini-flash-latest" }}] }}
        bedrock = {{ targets = [{{ provider = "aws", model = "us.amazon.nova-2-lite-v1:0" }}] }}
    """)
    sandbox = tomllib.loads(exported.stdout)["providers"]["sandbox"]["base_url"].removesuffix("/v1")

    async def aborted() -> float:
        async with httpx2.AsyncClient(timeout=60) as client:
            found = _ABORTED.search((await client.get(f"{sandbox}/metrics")).text)
        return float(found[1]) if found else 0.0

    return ClientRuns(service, engines[0], aborted)
