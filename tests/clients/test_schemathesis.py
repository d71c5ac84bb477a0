"""Thousands of requests that Schemathesis makes of the OpenAPI document get no 500, and no status or shape that it does not have."""

import asyncio
import os
import re
import uuid
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from pathlib import Path

import httpx2
import pytest

from tests.clients.install import HERE, SCHEMATHESIS, is_installed
from tests.support.processes import service as services
from tests.support.processes.service import Service

_LIMIT_S = 850.0  # before the watchdog of tests ends it without its output
_CHECKS = (
    "not_a_server_error,status_code_conformance,content_type_conformance,response_headers_conformance,response_schema_conformance,"
    "unsupported_method"
)
_GENERATED = re.compile(r"(\d+) generated")


@pytest.fixture(scope="module")
async def fuzzed() -> AsyncGenerator[Service]:
    """A service of its own: the requests change whatever they can."""
    assert is_installed(SCHEMATHESIS), f"{SCHEMATHESIS} is missing or out of date. `python -m tests.clients.install` makes it."
    running = services.start(workers=2)
    yield running
    services.stop(running)


@dataclass(frozen=True)
class Requests:
    """Operations to try, and how many there are at least."""

    selection: tuple[str, ...]  # options that select operations: none that could revoke the key that the requests are sent with
    at_least: int


async def send(service: Service, key: str, requests: Requests, folder: Path) -> None:
    """Sends them. Nothing may fail, and the key must still be valid: otherwise most of them were answered with 401."""
    process = await asyncio.create_subprocess_exec(
        SCHEMATHESIS / "bin" / "st",
        *("--config-file", HERE / "schemathesis.toml", "run", f"{service.url}/openapi.json", "--header", f"Authorization: Bearer {key}"),
        *("--checks", _CHECKS, "--phases", "examples,coverage,fuzzing", "--max-examples", "10", "--max-redirects", "0"),
        *("--suppress-health-check", "all", "--warnings", "off", "--no-color", "--generation-database", "none", *requests.selection),
        cwd=folder,
        env={**os.environ, "NO_PROXY": "127.0.0.1", "PYTHONPATH": str(HERE / "scripts"), "SCHEMATHESIS_HOOKS": "schemathesis_hooks"},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        output = (await asyncio.wait_for(process.communicate(), _LIMIT_S))[0].decode()
    finally:
        if process.returncode is None:
            process.kill()
    assert process.returncode == 0, output
    generated = _GENERATED.search(output)
    assert generated is not None and int(generated[1]) >= requests.at_least, output
    async with service.client(headers={"authorization": f"Bearer {key}"}) as client:
        assert (await client.get("/v1/models" if key == service.key else "/admin/v1/session")).status_code == 200, output


@pytest.fixture(scope="module")
async def owner_token(fuzzed: Service) -> str:
    """The token of a service account that may do everything. It is made once: later, the requests may have revoked the admin key."""
    async with fuzzed.admin_client() as admin:
        name = f"schemathesis-{uuid.uuid4().hex[:8]}"
        created = await admin.post("/admin/v1/service-accounts", json={"name": name, "roles": [{"role": "owner"}]})
        assert created.status_code == 201, created.text
        token: httpx2.Response = await admin.post(f"/admin/v1/service-accounts/{name}/tokens")
        assert token.status_code == 201, token.text
        return token.json()["token"]


_ACCESS = "^/admin/v1/(service-accounts|role-grants)"


# In this order: requests of the admin API leave limits behind, which would refuse most of the callers'.
async def test_routes_of_callers(fuzzed: Service, tmp_path: Path) -> None:
    await send(fuzzed, fuzzed.key, Requests(("--exclude-path-regex", "^/admin"), 2000), tmp_path)


async def test_service_accounts_and_role_grants(fuzzed: Service, tmp_path: Path) -> None:
    await send(fuzzed, fuzzed.admin_key, Requests(("--include-path-regex", _ACCESS), 500), tmp_path)


# In parts, each of which takes some minutes: together they took 12, and on a busy machine longer than any test may.
@pytest.mark.parametrize("letters", ["a-e", "f-m", "n-z"])
async def test_other_routes_of_admins(fuzzed: Service, owner_token: str, tmp_path: Path, letters: str) -> None:
    selection = ("--include-path-regex", f"^/admin/v1/[{letters}]", "--exclude-path-regex", _ACCESS)
    await send(fuzzed, owner_token, Requests(selection, 1000), tmp_path)
