"""The fleet: what one endpoint answers to its probe is no matter of the others', and each is spoken to as what it is."""

import asyncio
import json
import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest
from msgspec import Raw

from app.domain import ModelConfig, ProviderConfig, Snapshot, Target
from app.gateway.fleet.fleet import Endpoint, Fleet
from app.settings import Settings
from app.store.config_file import BadConfiguration
from app.store.config_validation import validate
from providers.canonical.errors import Unreachable, Unsupported, UpstreamNotFound
from providers.canonical.raw_json import Body

ADDRESSES = ("http://odd:1", "http://whole:2")
TARGET = Target("gpu", "m", endpoints=ADDRESSES)
DIRECTORY = Snapshot(1, "h", {"gpu": ProviderConfig("vllm", ADDRESSES[0])}, {"m": ModelConfig((TARGET,))})

MODELS = {"data": [{"id": "m", "owned_by": "vllm", "max_model_len": 4096}]}
VLLM: Mapping[str, Any] = {"/health": "", "/v1/models": MODELS, "/version": {"version": "0.11.0"}}
SGLANG: Mapping[str, Any] = {
    "/ready": "",
    "/v1/models": {"data": [{"id": "m", "owned_by": "sglang", "max_model_len": 4096}]},
    "/server_info": {"version": "0.5.23", "model_path": "m"},
}


def answering(told: Mapping[str, Any], asked: list[str] | None = None) -> Callable[[httpx.Request], httpx.Response]:
    """A server that tells these by path; None: it is not there."""

    def answer(request: httpx.Request) -> httpx.Response:
        if asked is not None:
            asked.append(request.url.path)
        said = told.get(request.url.path)
        if told.get("*") is not None:
            raise httpx.ConnectError("nobody listens")
        return httpx.Response(404 if said is None else 200, stream=httpx.ByteStream(json.dumps(said).encode()))

    return answer


def answered(request: httpx.Request) -> httpx.Response:
    if request.url.host == "whole":
        return answering(VLLM)(request)
    return httpx.Response(200, headers={"content-encoding": "gzip"}, stream=httpx.ByteStream(b"not gzip"))


def fleet_of(answer: Callable[[httpx.Request], httpx.Response], adapter: str = "vllm", **options: Any) -> tuple[Fleet, Endpoint]:
    fleet = Fleet(Settings(probe_interval_s=0.01), httpx.MockTransport(answer))
    target = Target("gpu", "m")
    fleet.apply_snapshot(
        Snapshot(1, "h", {"gpu": ProviderConfig(adapter, "http://one:1/v1", options=options)}, {"m": ModelConfig((target,))})
    )
    (endpoint,) = fleet.rank_endpoints(target)
    return fleet, endpoint


async def until(fleet: Fleet, holds: Callable[[], bool]) -> None:
    fleet.start()
    try:
        async with asyncio.timeout(3):
            while not holds():
                await asyncio.sleep(0.005)
    finally:
        fleet.stop()


async def test_an_answer_that_cannot_be_read_does_not_end_the_probing():
    fleet = Fleet(Settings(probe_interval_s=0.01), httpx.MockTransport(answered))
    fleet.apply_snapshot(DIRECTORY)
    whole = next(endpoint for endpoint in fleet.rank_endpoints(TARGET) if endpoint.base_url == "http://whole:2")
    for _ in range(3):  # asked again and again: the last one learns after the odd one was met several times
        whole.probe_result = None
        whole.provider = whole.provider.at_version(None)
        await until(fleet, lambda: whole.provider.version == (0, 11, 0))


async def test_an_endpoint_is_spoken_to_as_what_it_is(caplog: pytest.LogCaptureFixture):
    with caplog.at_level(logging.WARNING):
        fleet, endpoint = fleet_of(answering(SGLANG), version="0.11.0", stream_usage=False)
        await until(fleet, lambda: endpoint.health == "answers")
    assert (endpoint.provider.name, endpoint.provider.version, endpoint.provider.configured_as) == ("sglang", (0, 5, 23), "gpu")
    assert endpoint.provider.options == {"stream_usage": False} and endpoint.dialects == endpoint.provider.spoken_dialects
    assert len([record for record in caplog.records if "not what it is configured as" in record.message]) == 1


async def test_an_engine_that_nobody_named_is_found_without_a_warning(caplog: pytest.LogCaptureFixture):
    with caplog.at_level(logging.WARNING):
        fleet, endpoint = fleet_of(answering(VLLM), "auto")
        assert endpoint.provider.constraint_support["json_schema"].enforcement == "validated"
        await until(fleet, lambda: endpoint.health == "answers")
    assert (endpoint.provider.name, endpoint.provider.version) == ("vllm", (0, 11, 0))
    assert [each for each in caplog.records if each.name.startswith(("app", "providers"))] == []


async def test_what_no_engine_says_leaves_an_endpoint_as_it_is_configured():
    fleet, endpoint = fleet_of(answering({"/health": "", "/v1/models": {"data": [{"id": "m", "owned_by": "acme"}]}}))
    await until(fleet, lambda: endpoint.health == "answers")
    assert (endpoint.provider.name, endpoint.provider.version) == ("vllm", None) and endpoint.probe_result is not None


@pytest.mark.parametrize("adapter", ["openai", "anthropic"])
async def test_a_host_is_not_asked(adapter: str):
    asked: list[str] = []
    fleet, endpoint = fleet_of(answering(VLLM, asked), adapter)
    fleet.start()
    await asyncio.sleep(0.05)
    fleet.stop()
    assert not asked and endpoint.health == "not_asked"


async def test_once_it_is_known_only_little_is_asked():
    asked: list[str] = []
    fleet, endpoint = fleet_of(answering(SGLANG, asked), "sglang")
    await until(fleet, lambda: endpoint.health == "answers" and len(asked) > 20)
    assert asked.count("/server_info") == 1 and set(asked[4:]) == {"/ready", "/v1/models"} and "/health" not in asked
    assert abs(asked.count("/ready") - asked.count("/v1/models")) <= 1  # two questions each time


async def test_after_a_silence_it_may_be_another_engine():
    told = dict(VLLM)
    fleet, endpoint = fleet_of(answering(told))
    await until(fleet, lambda: endpoint.health == "answers")
    told["*"] = "gone"
    await until(fleet, lambda: endpoint.health == "silent" and endpoint.open_until > 0)
    told.clear()
    told.update(SGLANG)
    await until(fleet, lambda: endpoint.provider.name == "sglang" and endpoint.open_until == 0)


async def test_a_new_lora_adapter_is_found_while_it_runs():
    told = dict(VLLM)
    fleet, endpoint = fleet_of(answering(told))
    await until(fleet, lambda: endpoint.provider.lora_adapters == {})
    with pytest.raises(UpstreamNotFound, match=r"gpu has no LoRA adapter 'sql'\."):
        endpoint.provider.select_lora_adapter("m", "sql", Body())
    told["/v1/models"] = {"data": [*MODELS["data"], {"id": "sql", "owned_by": "vllm", "parent": "m"}]}
    await until(fleet, lambda: endpoint.provider.lora_adapters == {"sql": None})
    assert endpoint.provider.select_lora_adapter("m", "sql", Body()) == "sql"


async def test_who_takes_its_place_without_a_pause_is_never_asked_for_a_generation():
    """SGLang's /health, which is vLLM's cheap path, runs one."""
    told, asked = dict(VLLM), list[str]()
    fleet, endpoint = fleet_of(answering(told, asked))
    await until(fleet, lambda: endpoint.provider.name == "vllm" and endpoint.health == "answers")
    told.clear()
    told.update(SGLANG)
    asked.clear()
    await until(fleet, lambda: endpoint.provider.name == "sglang" and len(asked) > 12)
    assert "/health" not in asked


@pytest.mark.parametrize("doubt", ["a minute", "a fault", "told to do something"])
async def test_another_version_with_the_same_models_is_found_without_a_pause(doubt: str):
    told = dict(VLLM)
    fleet, endpoint = fleet_of(answering(told))
    await until(fleet, lambda: endpoint.provider.version == (0, 11, 0))
    told["/version"] = {"version": "0.32.0"}
    if doubt == "told to do something":
        await fleet.reprobe(endpoint)
        assert endpoint.provider.version == (0, 32, 0)
    elif doubt == "a fault":
        fleet.record_failure(endpoint, Unreachable("It broke off."))
    else:
        assert endpoint.learned_at is not None
        endpoint.learned_at -= 61.0
    await until(fleet, lambda: endpoint.provider.version == (0, 32, 0))


async def test_one_that_is_slow_to_answer_does_not_keep_the_others_from_being_asked():
    asked: list[str] = []
    slow = asyncio.Event()

    async def answer(request: httpx.Request) -> httpx.Response:
        if request.url.host == "odd":
            await slow.wait()
        return answering(VLLM, asked)(request)

    fleet = Fleet(Settings(probe_interval_s=0.01), httpx.MockTransport(answer))
    fleet.apply_snapshot(DIRECTORY)
    await until(fleet, lambda: asked.count("/v1/models") > 5)


async def test_what_starts_or_stands_before_it_says_nothing_about_an_engine():
    told, down = dict(SGLANG), list[int]()

    def answer(request: httpx.Request) -> httpx.Response:
        return httpx.Response(503, stream=httpx.ByteStream(b"<html>")) if down else answering(told)(request)

    fleet, endpoint = fleet_of(answer, "auto")
    await until(fleet, lambda: endpoint.health == "answers")
    down.append(1)
    endpoint.learned_at = None
    await until(fleet, lambda: endpoint.health == "not_ready")
    assert endpoint.provider.name == "sglang" and endpoint.probe_result is not None and endpoint.probe_result.engine == "sglang"


@pytest.mark.parametrize("status", [301, 307, 308])
async def test_a_probe_that_is_sent_elsewhere_does_not_go_there(status: int):
    hosts: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        hosts.append(request.url.host)
        return httpx.Response(status, headers={"location": "http://elsewhere:1/v1/models"}, stream=httpx.ByteStream(b""))

    fleet, endpoint = fleet_of(answer)
    await until(fleet, lambda: len(hosts) > 8)
    assert set(hosts) == {"one"} and endpoint.provider.name == "vllm"


async def test_a_credential_that_was_replaced_is_used_by_probes_too(tmp_path: Path):
    place = tmp_path / "secret"
    place.write_text("old")

    def answer(request: httpx.Request) -> httpx.Response:
        good = request.headers["authorization"] == "Bearer new"
        return answering(VLLM)(request) if good else httpx.Response(401, stream=httpx.ByteStream(b'{"error":"Unauthorized"}'))

    fleet = Fleet(Settings(probe_interval_s=0.01), httpx.MockTransport(answer))
    target = Target("gpu", "m")
    config = ProviderConfig("vllm", "http://one:1/v1", f"file:{place}")
    fleet.apply_snapshot(Snapshot(1, "h", {"gpu": config}, {"m": ModelConfig((target,))}))
    (endpoint,) = fleet.rank_endpoints(target)
    await until(fleet, lambda: endpoint.health == "answers")
    assert endpoint.provider.version is None
    place.write_text("new")
    await until(fleet, lambda: endpoint.provider.version == (0, 11, 0))
    place.unlink()
    assert not endpoint.reload_credential()
    assert endpoint.build_request(httpx.URL("http://one:1/abort_request"), b"{}").headers["authorization"] == "Bearer new"


async def test_a_lora_adapter_of_an_engine_that_is_not_found_yet_is_not_refused_for_good():
    fleet, endpoint = fleet_of(answering({"/v1/models": {"data": [{"id": "m", "owned_by": "acme"}]}}), "auto")
    with pytest.raises(Unreachable, match="not known yet"):
        endpoint.provider.select_lora_adapter("m", "sql", Body())
    await until(fleet, lambda: endpoint.health == "answers")
    with pytest.raises(Unsupported, match="LoRA"):
        endpoint.provider.select_lora_adapter("m", "sql", Body())
    assert endpoint.provider.name == "openai" and endpoint.provider.constraint_support["json_schema"].enforcement == "validated"


def test_what_does_not_write_is_not_asked_of_a_numbered_adapter():
    """llama.cpp reads no `lora` there, and would answer by the base."""
    _, endpoint = fleet_of(answering({}), "llamacpp")
    endpoint.provider.lora_adapters = {"sql": 1}
    with pytest.raises(Unsupported, match="writes"):
        endpoint.provider.select_lora_adapter("m", "sql", Body({"input": Raw(b'"x"')}))
    body = Body({"messages": Raw(b"[]")})
    assert endpoint.provider.select_lora_adapter("m", "sql", body) == "m" and json.loads(body.write())["lora"] == [{"id": 1, "scale": 1.0}]


async def test_an_engine_that_loads_or_sleeps_is_left_for_last():
    fleet, endpoint = fleet_of(answering({"/health": {"status": "sleeping"}, "/v1/models": MODELS}), "lmdeploy")
    await until(fleet, lambda: endpoint.health == "not_ready" and endpoint.open_until > 0)


def test_what_has_no_lora_adapters_refuses_them():
    _, endpoint = fleet_of(answering({}), "sandbox")
    with pytest.raises(Unsupported, match="LoRA"):
        endpoint.provider.select_lora_adapter("m", "sql", Body())


@pytest.mark.parametrize(
    ("adapter", "lora", "told"), [("sandbox", "sql", "These can: .*vllm"), ("vllm", " ", "engine's name"), ("vllm", "sql", None)]
)
def test_a_lora_adapter_is_applied_where_it_can_be_asked_for(adapter: str, lora: str, told: str | None):
    model = ModelConfig((Target("gpu", "m", lora=lora),))
    directory = Snapshot(1, "h", {"gpu": ProviderConfig(adapter, "http://one:1")}, {"m": model})
    if told is None:
        validate(directory)
        return
    with pytest.raises(BadConfiguration, match=told):
        validate(directory)
