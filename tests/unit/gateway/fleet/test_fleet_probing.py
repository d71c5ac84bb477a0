"""Probing by the fleet: endpoints are probed independently of each other, and each is used as the engine that it turns out to be."""

import asyncio
import json
import logging
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import httpx2
import pytest
from msgspec import Raw

from app.domain.errors import BadConfiguration
from app.domain.routing import ModelConfig, ProviderConfig, Target
from app.domain.snapshot import Snapshot
from app.gateway.fleet.endpoint import Endpoint
from app.gateway.fleet.fleet import Fleet
from app.settings import Folders, Settings
from app.store.configuration.validation.validate import validate
from providers.canonical.errors import Unreachable, Unsupported, UpstreamNotFound
from providers.canonical.raw_json import Body

ADDRESSES = ("http://broken:1", "http://healthy:2")
TARGET = Target("gpu", "m", endpoints=ADDRESSES)
SNAPSHOT = Snapshot(1, "h", {"gpu": ProviderConfig("vllm", ADDRESSES[0])}, {"m": ModelConfig((TARGET,))})

MODELS = {"data": [{"id": "m", "owned_by": "vllm", "max_model_len": 4096}]}
VLLM: Mapping[str, Any] = {"/health": "", "/v1/models": MODELS, "/version": {"version": "0.11.0"}}
SGLANG: Mapping[str, Any] = {
    "/ready": "",
    "/v1/models": {"data": [{"id": "m", "owned_by": "sglang", "max_model_len": 4096}]},
    "/server_info": {"version": "0.5.23", "model_path": "m"},
}


def engine_handler(responses: Mapping[str, Any], requested_paths: list[str] | None = None) -> Callable[[httpx2.Request], httpx2.Response]:
    """A server with these responses by path; the key "*" makes it unreachable."""

    def handle(request: httpx2.Request) -> httpx2.Response:
        if requested_paths is not None:
            requested_paths.append(request.url.path)
        body = responses.get(request.url.path)
        if responses.get("*") is not None:
            raise httpx2.ConnectError("nobody listens")
        return httpx2.Response(404 if body is None else 200, stream=httpx2.ByteStream(json.dumps(body).encode()))

    return handle


def one_broken_host_handler(request: httpx2.Request) -> httpx2.Response:
    if request.url.host == "healthy":
        return engine_handler(VLLM)(request)
    return httpx2.Response(200, headers={"content-encoding": "gzip"}, stream=httpx2.ByteStream(b"not gzip"))


def fleet_with(handler: Callable[[httpx2.Request], httpx2.Response], adapter: str = "vllm", **options: Any) -> tuple[Fleet, Endpoint]:
    fleet = Fleet(Settings(probe_interval_s=0.01), httpx2.MockTransport(handler))
    target = Target("gpu", "m")
    fleet.apply_snapshot(
        Snapshot(1, "h", {"gpu": ProviderConfig(adapter, "http://one:1/v1", options=options)}, {"m": ModelConfig((target,))})
    )
    (endpoint,) = fleet.table.endpoints_of(target)
    return fleet, endpoint


async def run_until(fleet: Fleet, condition: Callable[[], bool]) -> None:
    fleet.start()
    try:
        async with asyncio.timeout(30):
            while not condition():
                await asyncio.sleep(0.005)
    finally:
        fleet.stop()


async def test_unreadable_probe_response_does_not_stop_the_probing():
    fleet = Fleet(Settings(probe_interval_s=0.01), httpx2.MockTransport(one_broken_host_handler))
    fleet.apply_snapshot(SNAPSHOT)
    healthy_endpoint = next(endpoint for endpoint in fleet.table.endpoints_of(TARGET) if endpoint.base_url == "http://healthy:2")
    for _ in range(3):  # each time the broken endpoint is probed as well
        healthy_endpoint.probe_result = None
        healthy_endpoint.provider = healthy_endpoint.provider.at_version(None)
        await run_until(fleet, lambda: healthy_endpoint.provider.version == (0, 11, 0))


async def test_endpoint_uses_the_detected_engine_instead_of_the_configured_one(caplog: pytest.LogCaptureFixture):
    with caplog.at_level(logging.WARNING):
        fleet, endpoint = fleet_with(engine_handler(SGLANG), version="0.11.0", stream_usage=False)
        await run_until(fleet, lambda: endpoint.health == "ready")
    assert (endpoint.provider.name, endpoint.provider.version, endpoint.provider.configured_as) == ("sglang", (0, 5, 23), "gpu")
    assert endpoint.provider.options == {"stream_usage": False} and endpoint.dialects == endpoint.provider.spoken_dialects
    assert len([record for record in caplog.records if "runs another engine than configured" in record.message]) == 1


async def test_auto_adapter_detects_the_engine_without_a_warning(caplog: pytest.LogCaptureFixture):
    with caplog.at_level(logging.WARNING):
        fleet, endpoint = fleet_with(engine_handler(VLLM), "auto")
        assert endpoint.provider.constraint_support["json_schema"].enforcement == "validated"
        await run_until(fleet, lambda: endpoint.health == "ready")
    assert (endpoint.provider.name, endpoint.provider.version) == ("vllm", (0, 11, 0))
    assert [each for each in caplog.records if each.name.startswith(("app", "providers"))] == []


def web_server(request: httpx2.Request) -> httpx2.Response:
    """Another service of the company, at the address that a provider should have."""
    found = request.method == "GET" and request.url.path == "/info"
    body = b'{"version": "1.0", "app": {"name": "wiki"}}' if found else b"<html>Not found</html>"
    return httpx2.Response(200 if found else 404, headers={"content-type": "text/html"}, stream=httpx2.ByteStream(body))


async def test_address_without_such_an_api_is_not_ready_and_one_that_gets_it_is():
    answers: list[Callable[[httpx2.Request], httpx2.Response]] = [web_server]
    fleet, endpoint = fleet_with(lambda request: answers[-1](request))
    await run_until(fleet, lambda: endpoint.health == "no_api")
    assert endpoint.in_cooldown(time.monotonic(), "m")
    answers.append(engine_handler(VLLM))
    await run_until(fleet, lambda: endpoint.health == "ready")
    assert not endpoint.in_cooldown(time.monotonic(), "m") and endpoint.provider.version == (0, 11, 0)


async def test_server_that_has_only_the_chat_route_is_ready():
    def handle(request: httpx2.Request) -> httpx2.Response:
        is_chat = request.method == "POST" and request.url.path == "/v1/chat/completions"
        return httpx2.Response(400 if is_chat else 404, stream=httpx2.ByteStream(b'{"error": "no messages"}'))

    fleet, endpoint = fleet_with(handle)
    await run_until(fleet, lambda: endpoint.health != "unknown")
    assert endpoint.health == "ready"


@pytest.mark.parametrize("status", [401, 403])
async def test_endpoint_that_refuses_our_credential_says_so_and_is_called_all_the_same(status: int):
    fleet, endpoint = fleet_with(lambda request: httpx2.Response(status, stream=httpx2.ByteStream(b"{}")))
    await run_until(fleet, lambda: endpoint.health != "unknown")
    assert endpoint.health == "refused" and not endpoint.in_cooldown(time.monotonic(), "m")


async def test_unrecognised_engine_keeps_the_configured_adapter():
    fleet, endpoint = fleet_with(engine_handler({"/health": "", "/v1/models": {"data": [{"id": "m", "owned_by": "acme"}]}}))
    await run_until(fleet, lambda: endpoint.health == "ready")
    assert (endpoint.provider.name, endpoint.provider.version) == ("vllm", None) and endpoint.probe_result is not None


@pytest.mark.parametrize("adapter", ["openai", "anthropic"])
async def test_hosted_provider_is_not_probed(adapter: str):
    requested_hosts: list[str] = []

    def handle(request: httpx2.Request) -> httpx2.Response:
        requested_hosts.append(request.url.host)
        return engine_handler(VLLM)(request)

    fleet = Fleet(Settings(probe_interval_s=0.01), httpx2.MockTransport(handle))
    providers = {"gpu": ProviderConfig("vllm", "http://engine:1/v1"), "host": ProviderConfig(adapter, "http://host:1/v1")}
    fleet.apply_snapshot(Snapshot(1, "h", providers, {"m": ModelConfig((Target("gpu", "m"), Target("host", "m")))}))
    (endpoint,) = fleet.table.endpoints_of(Target("host", "m"))
    await run_until(fleet, lambda: len(requested_hosts) > 20)
    assert set(requested_hosts) == {"engine"} and endpoint.health == "not_probed"


async def test_detected_engine_is_probed_for_readiness_and_models_only():
    requested_paths: list[str] = []
    fleet, endpoint = fleet_with(engine_handler(SGLANG, requested_paths), "sglang")
    await run_until(fleet, lambda: endpoint.health == "ready" and len(requested_paths) > 20)
    assert (
        requested_paths.count("/server_info") == 1
        and set(requested_paths[4:]) == {"/ready", "/v1/models"}
        and "/health" not in requested_paths
    )
    assert abs(requested_paths.count("/ready") - requested_paths.count("/v1/models")) <= 1  # each round sends both


async def test_engine_is_detected_anew_after_it_was_unreachable():
    responses = dict(VLLM)
    fleet, endpoint = fleet_with(engine_handler(responses))
    await run_until(fleet, lambda: endpoint.health == "ready")
    responses["*"] = "gone"
    await run_until(fleet, lambda: endpoint.health == "unreachable" and endpoint.breaker.open_until > 0)
    responses.clear()
    responses.update(SGLANG)
    await run_until(fleet, lambda: endpoint.provider.name == "sglang" and endpoint.breaker.open_until == 0)


async def test_lora_adapter_loaded_later_is_discovered_by_probes():
    responses = dict(VLLM)
    fleet, endpoint = fleet_with(engine_handler(responses))
    await run_until(fleet, lambda: endpoint.provider.lora_adapters == {})
    with pytest.raises(UpstreamNotFound, match=r"gpu has no LoRA adapter 'sql'\."):
        endpoint.provider.select_lora_adapter("m", "sql", Body())
    responses["/v1/models"] = {"data": [*MODELS["data"], {"id": "sql", "owned_by": "vllm", "parent": "m"}]}
    await run_until(fleet, lambda: endpoint.provider.lora_adapters == {"sql": None})
    assert endpoint.provider.select_lora_adapter("m", "sql", Body()) == "sql"


async def test_sglang_replacing_vllm_is_never_probed_at_its_generating_health_path():
    """/health, which is cheap on vLLM, runs a generation on SGLang."""
    responses, requested_paths = dict(VLLM), list[str]()
    fleet, endpoint = fleet_with(engine_handler(responses, requested_paths))
    await run_until(fleet, lambda: endpoint.provider.name == "vllm" and endpoint.health == "ready")
    responses.clear()
    responses.update(SGLANG)
    requested_paths.clear()
    await run_until(fleet, lambda: endpoint.provider.name == "sglang" and len(requested_paths) > 12)
    assert "/health" not in requested_paths


@pytest.mark.parametrize("trigger", ["a minute", "a failure", "a command"])
async def test_new_engine_version_is_detected_after_a_minute_a_failure_or_a_command(trigger: str):
    responses = dict(VLLM)
    fleet, endpoint = fleet_with(engine_handler(responses))
    await run_until(fleet, lambda: endpoint.provider.version == (0, 11, 0))
    responses["/version"] = {"version": "0.32.0"}
    if trigger == "a command":
        await fleet.reprobe(endpoint)
        assert endpoint.provider.version == (0, 32, 0)
    elif trigger == "a failure":
        fleet.record_failure(endpoint, "m", Unreachable("It broke off."))
    else:
        assert endpoint.learned_at is not None
        endpoint.learned_at -= 61.0
    await run_until(fleet, lambda: endpoint.provider.version == (0, 32, 0))


async def test_slow_endpoint_does_not_delay_probes_of_other_endpoints():
    requested_paths: list[str] = []
    slow = asyncio.Event()

    async def handle(request: httpx2.Request) -> httpx2.Response:
        if request.url.host == "broken":
            await slow.wait()
        return engine_handler(VLLM, requested_paths)(request)

    fleet = Fleet(Settings(probe_interval_s=0.01), httpx2.MockTransport(handle))
    fleet.apply_snapshot(SNAPSHOT)
    await run_until(fleet, lambda: requested_paths.count("/v1/models") > 5)


async def test_503_probe_response_keeps_the_detected_engine():
    responses, down = dict(SGLANG), list[int]()

    def handle(request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(503, stream=httpx2.ByteStream(b"<html>")) if down else engine_handler(responses)(request)

    fleet, endpoint = fleet_with(handle, "auto")
    await run_until(fleet, lambda: endpoint.health == "ready")
    down.append(1)
    endpoint.learned_at = None
    await run_until(fleet, lambda: endpoint.health == "not_ready")
    assert endpoint.provider.name == "sglang" and endpoint.probe_result is not None and endpoint.probe_result.engine == "sglang"


@pytest.mark.parametrize("status", [301, 307, 308])
async def test_probe_does_not_follow_redirects(status: int):
    hosts: list[str] = []

    def handle(request: httpx2.Request) -> httpx2.Response:
        hosts.append(request.url.host)
        return httpx2.Response(status, headers={"location": "http://elsewhere:1/v1/models"}, stream=httpx2.ByteStream(b""))

    fleet, endpoint = fleet_with(handle)
    await run_until(fleet, lambda: len(hosts) > 8)
    assert set(hosts) == {"one"} and endpoint.provider.name == "vllm"


async def test_probes_use_a_rotated_credential_and_keep_it_when_its_file_is_gone(tmp_path: Path):
    credential_path = tmp_path / "secret"
    credential_path.write_text("old")

    def handle(request: httpx2.Request) -> httpx2.Response:
        is_authorized = request.headers["authorization"] == "Bearer new"
        return (
            engine_handler(VLLM)(request) if is_authorized else httpx2.Response(401, stream=httpx2.ByteStream(b'{"error":"Unauthorized"}'))
        )

    fleet = Fleet(Settings(probe_interval_s=0.01, credential_folders=Folders(str(tmp_path))), httpx2.MockTransport(handle))
    target = Target("gpu", "m")
    config = ProviderConfig("vllm", "http://one:1/v1", f"file:{credential_path}")
    fleet.apply_snapshot(Snapshot(1, "h", {"gpu": config}, {"m": ModelConfig((target,))}))
    (endpoint,) = fleet.table.endpoints_of(target)
    await run_until(fleet, lambda: endpoint.health == "refused")
    assert endpoint.provider.version is None
    credential_path.write_text("new")
    await run_until(fleet, lambda: endpoint.provider.version == (0, 11, 0))
    credential_path.unlink()
    assert not endpoint.reload_credential()
    assert endpoint.build_request(httpx2.URL("http://one:1/abort_request"), b"{}").headers["authorization"] == "Bearer new"


async def test_lora_is_unreachable_until_the_engine_is_detected_and_then_unsupported():
    fleet, endpoint = fleet_with(engine_handler({"/v1/models": {"data": [{"id": "m", "owned_by": "acme"}]}}), "auto")
    with pytest.raises(Unreachable, match="not known yet"):
        endpoint.provider.select_lora_adapter("m", "sql", Body())
    await run_until(fleet, lambda: endpoint.health == "ready")
    with pytest.raises(Unsupported, match="LoRA"):
        endpoint.provider.select_lora_adapter("m", "sql", Body())
    assert endpoint.provider.name == "openai" and endpoint.provider.constraint_support["json_schema"].enforcement == "validated"


def test_llamacpp_lora_is_applied_to_chat_and_refused_for_input_requests():
    """llama.cpp ignores `lora` there, and would respond with the base model."""
    _, endpoint = fleet_with(engine_handler({}), "llamacpp")
    endpoint.provider.lora_adapters = {"sql": 1}
    with pytest.raises(Unsupported, match="only where it generates text"):
        endpoint.provider.select_lora_adapter("m", "sql", Body({"input": Raw(b'"x"')}))
    body = Body({"messages": Raw(b"[]")})
    assert endpoint.provider.select_lora_adapter("m", "sql", body) == "m" and json.loads(body.write())["lora"] == [{"id": 1, "scale": 1.0}]


async def test_sleeping_engine_is_not_ready_and_its_breaker_opens():
    fleet, endpoint = fleet_with(engine_handler({"/health": {"status": "sleeping"}, "/v1/models": MODELS}), "lmdeploy")
    await run_until(fleet, lambda: endpoint.health == "not_ready" and endpoint.breaker.open_until > 0)


def test_adapter_without_lora_support_refuses_a_lora():
    _, endpoint = fleet_with(engine_handler({}), "sandbox")
    with pytest.raises(Unsupported, match="LoRA"):
        endpoint.provider.select_lora_adapter("m", "sql", Body())


@pytest.mark.parametrize(
    ("adapter", "lora", "message"), [("sandbox", "sql", "These do: .*vllm"), ("vllm", " ", "engine's name"), ("vllm", "sql", None)]
)
def test_configured_lora_needs_a_name_and_an_adapter_that_supports_it(adapter: str, lora: str, message: str | None):
    model = ModelConfig((Target("gpu", "m", lora=lora),))
    snapshot = Snapshot(1, "h", {"gpu": ProviderConfig(adapter, "http://one:1")}, {"m": model})
    if message is None:
        validate(snapshot)
        return
    with pytest.raises(BadConfiguration, match=message):
        validate(snapshot)
