"""The command `narthex providers test`: each way in which a host can fail is classified with advice, and a working host is described."""

import asyncio
import json
import socket
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from click.testing import CliRunner, Result

from app.cli import main
from app.domain.routing import ModelConfig, ProviderConfig, Target
from app.domain.snapshot import Snapshot
from app.gateway.provider_check.check import check_provider
from app.gateway.provider_check.result import CheckResult
from app.settings import ProxyUrl, Settings
from app.store.configuration.snapshots import build_snapshot
from app.store.postgres.vault import Vault
from tests.support.processes.service import Service
from tests.support.scripted_engine import ReceivedRequest, ScriptedEngine

VAULT = Vault(["a key for trying providers, drawn at random"])
JSON = "content-type: application/json\r\n"
MODELS = {"object": "list", "data": [{"id": "m"}, {"id": "n"}]}


@pytest.fixture
async def host() -> AsyncGenerator[ScriptedEngine]:
    engine = ScriptedEngine()
    await engine.start()
    yield engine
    await engine.stop()


def make_snapshot(adapter: str, address: str, *credentials: str, model: str = "m", **options: Any) -> Snapshot:
    stored = {name: VAULT.encrypt(name, f"sk-{name}-secret") for name in ("one", "two")}
    providers = {"host": ProviderConfig(adapter, address, credentials or ("store:one",), options)}
    models = {"m": ModelConfig((Target("host", model),))} if model else {}
    return build_snapshot(1, providers, models, credentials=stored)


async def check_host(
    host: ScriptedEngine,
    *credentials: str,
    adapter: str = "openai",
    model: str | None = None,
    caller_credential: str | None = None,
) -> list[CheckResult]:
    snapshot = make_snapshot(adapter, f"http://127.0.0.1:{host.port}/v1", *credentials)
    return await check_provider(snapshot, "host", Settings(), VAULT, model=model, caller_credential=caller_credential)


def respond_json(status: int, body: Any, headers: str = "") -> Any:
    async def script(request: ReceivedRequest) -> None:
        await request.respond(status, json.dumps(body).encode(), JSON + headers)

    return script


async def test_working_provider_reports_models_latency_and_rate_limits(host: ScriptedEngine):
    limits = "x-ratelimit-limit-requests: 60\r\nx-ratelimit-remaining-requests: 59\r\nx-request-id: req-1\r\n"
    host.get_responses["/v1/models"] = respond_json(200, MODELS, limits)
    (found,) = await check_host(host)
    assert (found.outcome, found.requested, found.models) == ("works", "its models", ["m", "n"])
    assert (found.status, found.request_id) == (200, "req-1") and found.latency_ms is not None
    assert [(each.resource, each.limit, each.remaining) for each in found.rate_limits] == [("requests", 60, 59)]
    assert host.get_requests[0].headers["authorization"] == "Bearer sk-one-secret"


async def test_named_model_is_checked_by_a_short_completion(host: ScriptedEngine):
    (found,) = await check_host(host, model="n")
    assert (found.outcome, found.requested) == ("works", "a short answer")
    assert host.requests[0].body["model"] == "n" and not host.get_requests
    (unlisted,) = await check_host(host, adapter="together")
    assert (unlisted.outcome, unlisted.requested) == ("works", "a short answer") and host.requests[1].body["model"] == "m"


async def test_model_check_uses_the_dialect_pinned_by_its_target(host: ScriptedEngine):
    host.script = respond_json(200, {"object": "list", "data": [{"object": "embedding", "index": 0, "embedding": [0.5]}], "model": "m"})
    snapshot = make_snapshot("openai", f"http://127.0.0.1:{host.port}/v1")
    pinned = build_snapshot(
        1, snapshot.providers, {"m": ModelConfig((Target("host", "m", dialect="openai_embeddings"),))}, credentials=snapshot.credentials
    )
    (found,) = await check_provider(pinned, "host", Settings(), VAULT, model="m")
    assert found.requested == "an embedding" and {request.path for request in (*host.requests, *host.get_requests)} == {"/v1/embeddings"}


async def test_each_credential_is_checked_separately(host: ScriptedEngine):
    async def only_the_second(request: ReceivedRequest) -> None:
        is_valid = request.headers["authorization"] == "Bearer sk-two-secret"
        await request.respond(200 if is_valid else 401, json.dumps(MODELS if is_valid else {"error": {"message": "bad key"}}).encode())

    host.get_responses["/v1/models"] = only_the_second
    found = await check_host(host, "store:one", "store:two", "store:three")
    assert [each.outcome for each in found] == ["credential_refused", "works", "credential_unreadable"]
    assert [each.credential for each in found] == ["store:one", "store:two", "store:three"]
    assert "narthex credentials set three" in found[2].message


@pytest.mark.parametrize(
    ("outcome", "status", "message"),
    [
        ("credential_refused", 401, "Incorrect API key provided: sk-one-secret"),
        ("credential_expired", 401, "The security token included in the request is expired"),
        ("rate_limited", 429, "Rate limit reached"),
        ("quota_exhausted", 402, "Insufficient balance"),
        ("model_missing", 404, "The model `m` does not exist or you do not have access to it"),
        ("model_missing", 400, "unknown model m"),
        ("model_missing", 404, "Publisher Model `projects/p/locations/us-east5/publishers/google/models/m` was not found"),
        ("wrong_region", 400, "The model is not supported in this region"),
        ("refused", 400, "Something is odd about this"),
        ("failed", 500, "Oh no"),
    ],
)
async def test_host_refusal_is_classified_with_advice(host: ScriptedEngine, outcome: str, status: int, message: str):
    host.script = respond_json(status, {"error": {"message": message}}, "retry-after: 7\r\n")
    (found,) = await check_host(host, model="m")
    assert (found.outcome, found.status) == (outcome, status) and found.advice and "sk-one-secret" not in repr(found)
    assert ("7 s" in found.message) == (outcome == "rate_limited")


async def test_missing_credential_is_reported(host: ScriptedEngine):
    host.get_responses["/v1/models"] = respond_json(401, {"error": {"message": "Missing bearer authentication"}})
    snapshot = make_snapshot("openai", f"http://127.0.0.1:{host.port}/v1")
    without_credential = build_snapshot(1, {"host": ProviderConfig("openai", f"http://127.0.0.1:{host.port}/v1")}, snapshot.models)
    (found,) = await check_provider(without_credential, "host", Settings(), VAULT)
    assert (found.outcome, found.credential) == ("credential_missing", None)


async def test_caller_supplied_credential_is_checked_if_given(host: ScriptedEngine):
    host.get_responses["/v1/models"] = MODELS
    (found,) = await check_host(host, "header:x-key")
    assert found.outcome == "caller_credential_missing" and "x-key" in found.message and not host.get_requests
    (found,) = await check_host(host, "header:x-key", caller_credential="sk-brought")
    assert found.outcome == "works" and host.get_requests[0].headers["authorization"] == "Bearer sk-brought"


async def test_refusing_or_unreachable_proxy_is_reported():
    async def forbid(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 403 Policy forbids\r\n\r\n")
        writer.close()

    async def check_through_proxy(port: int) -> CheckResult:
        settings = Settings(https_proxy=ProxyUrl(f"http://me:a-secret@127.0.0.1:{port}"))
        (found,) = await check_provider(make_snapshot("openai", "https://host.example/v1"), "host", settings, VAULT)
        assert found.outcome == "proxy" and "HTTPS_PROXY" in (found.advice or "") and "a-secret" not in repr(found)
        return found

    server = await asyncio.start_server(forbid, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    assert "403 Policy forbids" in (await check_through_proxy(port)).message
    server.close()
    await server.wait_closed()
    assert f"127.0.0.1:{port} cannot be reached" in (await check_through_proxy(port)).message


async def test_connection_failure_is_reported_by_its_cause():
    async def outcome_for(address: str) -> str:
        (found,) = await check_provider(make_snapshot("openai", address), "host", Settings(), VAULT)
        assert found.advice
        return found.outcome

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        closed_port = free.getsockname()[1]
    plain_server = await asyncio.start_server(_respond_not_http, "127.0.0.1", 0)
    plain_port = plain_server.sockets[0].getsockname()[1]
    assert await outcome_for(f"http://127.0.0.1:{closed_port}") == "connection_refused"
    assert await outcome_for("http://no-such-host.invalid") == "name_not_resolved"
    assert await outcome_for(f"https://127.0.0.1:{plain_port}") == "tls"
    assert await outcome_for(f"http://127.0.0.1:{plain_port}") == "connection_broken"
    plain_server.close()


async def _respond_not_http(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read(1)
    writer.write(b"220 this is no HTTP\r\n\r\n")
    writer.close()


def run_command(service: Service, *arguments: str) -> Result:
    return CliRunner().invoke(main, arguments, env=dict(service.environment))


def test_providers_test_reports_by_text_json_and_exit_status(service: Service, engine: ScriptedEngine):
    working = run_command(service, "providers", "test", "sandbox")
    assert working.exit_code == 0 and "It works" in working.output and "models: " in working.output
    failing = run_command(service, "providers", "test", "nowhere", "--json")
    report = json.loads(failing.output)
    assert failing.exit_code == 1 and not report["works"] and report["results"][0]["outcome"] == "connection_refused"
    missing = run_command(service, "providers", "test", "nobody")
    assert missing.exit_code == 1 and "There is no provider 'nobody'" in missing.output


def test_providers_and_providers_list_print_the_same(service: Service, engine: ScriptedEngine):
    plain, listed = run_command(service, "providers", "--json"), run_command(service, "providers", "list", "--json")
    assert plain.output == listed.output and "sandbox" in {each["name"] for each in json.loads(plain.output)["providers"]}
    assert run_command(service, "providers", "--json", "list").exit_code == 2


async def test_the_api_checks_a_provider_as_the_command_does(service: Service, host: ScriptedEngine):
    host.get_responses["/v1/models"] = respond_json(200, MODELS)
    service.apply(f'[providers.checked]\nadapter = "openai"\nbase_url = "http://127.0.0.1:{host.port}/v1"')
    async with service.admin_client() as admin:
        found = (await admin.post("/admin/v1/providers/checked/test")).json()
        assert (found["provider"], found["adapter"]) == ("checked", "openai")
        [result] = found["results"]
        assert found["works"] == (result["outcome"] == "works") and result["address"].startswith(f"http://127.0.0.1:{host.port}")
        named = (await admin.post("/admin/v1/providers/checked/test", json={"model": "n"})).json()["results"][0]
        assert named["requested"] == "a short answer" and host.requests[-1].body["model"] == "n"
        missing = await admin.post("/admin/v1/providers/none-such/test", json={})
        assert missing.status_code == 404
        wrong = await admin.post("/admin/v1/providers/checked/test", json={"modle": "n"})
        assert (wrong.status_code, wrong.json()["error"]["param"]) == (400, "modle")
        statuses = [(await admin.post("/admin/v1/providers/checked/test")).status_code for _ in range(25)]
        assert 503 in statuses, "each check may cost something"
