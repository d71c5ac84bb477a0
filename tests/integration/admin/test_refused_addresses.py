"""Providers and webhooks at addresses that are not called: refused where they are configured, and where they are called."""

import asyncio
import json
from collections.abc import AsyncGenerator
from typing import Any

import httpx2
import pytest

from tests.support.processes.commands import run_command
from tests.support.processes.service import NARTHEX, PROCESS_TIMEOUT_S, Service

METADATA = [
    "http://169.254.169.254/v1",
    "http://[::ffff:a9fe:a9fe]/v1",
    "http://2852039166",
    "http://metadata.google.internal/computeMetadata",
]


@pytest.fixture
async def admin(service: Service) -> AsyncGenerator[httpx2.AsyncClient]:
    async with service.admin_client() as admin:
        yield admin


def own_urls(service: Service) -> list[str]:
    port = httpx2.URL(service.url).port
    return [f"http://127.0.0.1:{port}/v1", f"http://localhost:{port}/v1", f"http://0x7f000001:{port}"]


@pytest.mark.parametrize("url", METADATA)
async def test_a_new_provider_at_a_metadata_service_is_refused_in_words(admin: httpx2.AsyncClient, url: str):
    answer = await admin.put("/admin/v1/providers/refused-metadata", json={"adapter": "openai", "base_url": url})
    assert answer.status_code == 400
    message = answer.json()["error"]["message"]
    assert "providers.refused-metadata.base_url" in message and "NARTHEX_ALLOWED_ADDRESSES" in message


async def test_a_new_provider_or_endpoint_that_is_the_gateway_itself_is_refused_in_words(admin: httpx2.AsyncClient, service: Service):
    for url in own_urls(service):
        answer = await admin.put("/admin/v1/providers/refused-self", json={"adapter": "openai", "base_url": url})
        assert (answer.status_code, "the gateway itself" in answer.text) == (400, True), answer.text
    toml = f"""
        [providers.refused-pool]
        adapter = "vllm"
        base_url = "http://127.0.0.1:9"
        [models.refused-pool]
        targets = [{{ provider = "refused-pool", model = "m", endpoints = ["http://127.0.0.1:9", "{own_urls(service)[0]}"] }}]
    """
    applied = await asyncio.to_thread(service.run, "apply", "-", "--yes", stdin=toml)
    assert applied.returncode == 1 and "models.refused-pool.targets[0].endpoints" in applied.stderr
    assert (await admin.get("/admin/v1/providers/refused-pool")).status_code == 404


@pytest.mark.parametrize("url", ["https://169.254.169.254/hook", "https://metadata.google.internal/"])
async def test_a_webhook_at_a_metadata_service_is_refused_in_words(admin: httpx2.AsyncClient, url: str):
    answer = await admin.post("/admin/v1/webhooks", json={"name": "refused-hook", "url": url})
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, "url")
    assert "NARTHEX_ALLOWED_ADDRESSES" in answer.json()["error"]["message"]


async def test_what_is_configured_already_keeps_the_service_running_and_is_not_called(
    admin: httpx2.AsyncClient, client: httpx2.AsyncClient, service: Service
):
    """A command stores it whose setting allows it, like a version that did not look; the gateway's setting does not."""
    self_url = own_urls(service)[1]
    toml = f"""
        [providers]
        kept-self = {{ adapter = "openai", base_url = "{self_url}" }}
        kept-metadata = {{ adapter = "openai", base_url = "http://169.254.169.254/v1" }}
        [models]
        kept-self = {{ targets = [{{ provider = "kept-self", model = "m" }}], retries = 0 }}
        kept-metadata = {{ targets = [{{ provider = "kept-metadata", model = "m" }}], retries = 0 }}
    """
    environment = {**service.environment, "NARTHEX_ALLOWED_ADDRESSES": "localhost, 169.254.169.254"}
    stored = await asyncio.to_thread(run_command, NARTHEX, ("apply", "-", "--yes"), environment, toml, PROCESS_TIMEOUT_S)
    assert stored.returncode == 0, stored.stderr
    try:
        for name in ("kept-self", "kept-metadata"):
            body: Any = {"model": name, "messages": [{"role": "user", "content": "Hi"}]}
            answer = await client.post("/v1/chat/completions", json=body)
            message = answer.json()["error"]["message"]
            assert (answer.status_code, message) == (
                502,
                f"The address of {name} is one that this gateway does not call; its operator can see why.",
            )
            tested = await asyncio.to_thread(service.run, "providers", "test", name, "--json")
            assert json.loads(tested.stdout)["results"][0]["outcome"] == "refused_address", tested.stdout
        # Other changes of a configuration that has it are as free as before, of the same entry, too.
        shown = await admin.get("/admin/v1/providers/kept-self")
        changed = await admin.patch(
            "/admin/v1/providers/kept-self", json={"options": {"stream": "never"}}, headers={"if-match": shown.headers["etag"]}
        )
        assert changed.status_code == 200, changed.text
        assert (await client.get("/health/ready")).status_code == 200
    finally:
        for path in ("models/kept-self", "models/kept-metadata", "providers/kept-self", "providers/kept-metadata"):
            assert (await admin.delete(f"/admin/v1/{path}", headers={"if-match": "*"})).status_code == 200
