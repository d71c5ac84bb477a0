"""An address of its own for the admin API, CORS on both addresses, and the headers that make browsers careful."""

import socket
from collections.abc import AsyncGenerator, Generator
from urllib.parse import urlsplit

import httpx2
import pytest

from tests.support.processes.service import REQUEST_TIMEOUT_S, Service, start, stop
from tests.support.processes.service_inspection import connections

ORIGIN = "https://dashboard.example.com"
CHAT = {"model": "sandbox", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 4}
PREFLIGHT = {"origin": ORIGIN, "access-control-request-method": "POST", "access-control-request-headers": "authorization,x-stainless-os"}


@pytest.fixture(scope="module")
def separate() -> Generator[tuple[Service, str]]:
    """A service with two gateway processes, and the URL of its admin API."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    service = start(admin_port=port, cors_origins=f"{ORIGIN}, http://localhost:5173", metrics="admin", workers=2)
    yield service, f"http://127.0.0.1:{port}"
    stop(service)


@pytest.fixture
async def callers(separate: tuple[Service, str]) -> AsyncGenerator[httpx2.AsyncClient]:
    async with separate[0].admin_client() as client:
        yield client


@pytest.fixture
async def admin(separate: tuple[Service, str]) -> AsyncGenerator[httpx2.AsyncClient]:
    headers = {"authorization": f"Bearer {separate[0].admin_key}"}
    async with httpx2.AsyncClient(base_url=separate[1], headers=headers, timeout=REQUEST_TIMEOUT_S, verify=False) as client:
        yield client


async def test_playground_is_on_the_address_of_the_admin_api_alone(callers: httpx2.AsyncClient, admin: httpx2.AsyncClient) -> None:
    path = "/admin/v1/playground/chat/completions"
    assert (await callers.post(path, json=CHAT)).status_code == 404
    played = await admin.post(path, json=CHAT)
    assert played.status_code == 200, played.text
    assert (await admin.get("/admin/v1/own/models")).status_code == 200
    session = (await admin.get("/admin/v1/session")).json()
    assert session["callers_port"] == callers.base_url.port


async def test_each_address_serves_its_own_routes_in_every_process(separate: tuple[Service, str], admin: httpx2.AsyncClient) -> None:
    service, url = separate
    async with connections(service, 8, service.admin_key) as callers:
        for caller in callers:
            for method, path in (("GET", "/admin/v1/teams"), ("PURGE", "/admin/v1/teams"), ("GET", "/docs"), ("GET", "/metrics")):
                unknown = await caller.request(method, path)
                assert unknown.status_code == 404, path
                assert unknown.json()["error"]["message"] == f"There is nothing at {method} {path}."
                assert str(urlsplit(url).port) not in unknown.text
            assert (await caller.get("/health/ready")).status_code == 200
            assert "The path is /v1/chat/completions." in (await caller.post("/chat/completions", json=CHAT)).text
    assert (await admin.get("/admin/v1/teams")).status_code == 200
    assert (await admin.get("/docs")).headers["content-type"].startswith("text/html")
    assert "narthex_requests_in_flight" in (await admin.get("/metrics")).text
    assert (await admin.get("/health/live")).status_code == 200
    for path in ("/v1/chat/completions", "/chat/completions"):
        refused = await admin.post(path, json=CHAT)
        assert refused.status_code == 404 and "The path is" not in refused.text


async def test_answers_of_the_admin_api_and_pages_make_browsers_careful(callers: httpx2.AsyncClient, admin: httpx2.AsyncClient) -> None:
    for path in ("/admin/v1/teams", "/admin/v1/nothing", "/admin/v1/teams?limit=0"):
        headers = (await admin.get(path)).headers
        assert headers["x-content-type-options"] == "nosniff" and headers["referrer-policy"] == "no-referrer"
        assert "frame-ancestors 'none'" in headers["content-security-policy"] and headers["cache-control"] == "no-store"
        assert headers["x-frame-options"] == "DENY" and "strict-transport-security" not in headers
    assert "frame-ancestors 'none'" in (await admin.get("/docs")).headers["content-security-policy"]
    assert "content-security-policy" not in (await callers.get("/v1/models")).headers


async def test_scripts_of_an_allowed_page_read_answers_streams_and_errors(callers: httpx2.AsyncClient) -> None:
    preflight = await callers.options("/v1/chat/completions", headers=PREFLIGHT)
    assert preflight.status_code == 200 and preflight.headers["access-control-allow-origin"] == ORIGIN
    assert preflight.headers["access-control-allow-headers"] == PREFLIGHT["access-control-request-headers"]
    assert "POST" in preflight.headers["access-control-allow-methods"] and int(preflight.headers["access-control-max-age"]) > 0
    refused = {"authorization": "Bearer nx-0"}
    for path, body, more, status in (
        ("/v1/chat/completions", CHAT, {}, 200),
        ("/v1/chat/completions", {**CHAT, "stream": True}, {}, 200),
        ("/v1/chat/completions", CHAT, refused, 401),
        ("/v1/chat/completions", {}, {}, 400),
        ("/v1/nothing", {}, {}, 404),
        ("/v1/limits/preview", {}, refused, 401),
    ):
        response = await callers.post(path, json=body, headers={"origin": ORIGIN, **more})
        assert response.status_code == status, path
        assert response.headers["access-control-allow-origin"] == ORIGIN and "origin" in response.headers["vary"]
        assert "x-request-id" in response.headers["access-control-expose-headers"]
        assert "access-control-allow-credentials" not in response.headers
    # The connection is kept after both a preflight and a stream, and other headers stay as they are.
    assert (await callers.post("/v1/chat/completions", json=CHAT)).headers.keys().isdisjoint({"access-control-allow-origin"})


async def test_scripts_of_other_pages_read_nothing(callers: httpx2.AsyncClient, admin: httpx2.AsyncClient) -> None:
    for client, path in ((callers, "/v1/chat/completions"), (callers, "/v1/models"), (admin, "/admin/v1/teams")):
        refused = await client.options(path, headers={**PREFLIGHT, "origin": "https://evil.example"})
        assert refused.status_code == 403 and "NARTHEX_CORS_ORIGINS" in refused.json()["error"]["message"]
        assert "access-control-allow-origin" not in refused.headers
        served = await client.get(path, headers={"origin": "https://evil.example"})
        assert "access-control-allow-origin" not in served.headers and served.headers["vary"] == "origin"


async def test_admin_routes_take_credentials_of_allowed_origins_and_metrics_none(admin: httpx2.AsyncClient) -> None:
    preflight = await admin.options("/admin/v1/teams", headers=PREFLIGHT)
    assert preflight.headers["access-control-allow-credentials"] == "true"
    teams = await admin.get("/admin/v1/teams", headers={"origin": "http://localhost:5173"})
    assert teams.headers["access-control-allow-origin"] == "http://localhost:5173"
    assert teams.headers["access-control-allow-credentials"] == "true" and "etag" in teams.headers["access-control-expose-headers"]
    assert "access-control-allow-origin" not in (await admin.get("/metrics", headers={"origin": ORIGIN})).headers
    assert "access-control-allow-origin" not in (await admin.options("/metrics", headers=PREFLIGHT)).headers


def test_commands_find_the_admin_address(separate: tuple[Service, str]) -> None:
    service, url = separate
    listed = service.run("engines", "list", "--json")
    assert listed.returncode == 0, listed.stderr
    assert f"The admin API is on {url}." in service.run("status").stdout
    log = (service.home / "up.log").read_text()
    assert f"{url}/docs" in log and f"Base URL    {service.url}/v1" in log
