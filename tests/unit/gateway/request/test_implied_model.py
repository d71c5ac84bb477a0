"""The model of a request that names none: the only one of its key that serves the route, else a 400 that lists no other key's models."""

import json
from typing import Any

import httpx2
import pytest

from app.domain.callers import Caller
from app.domain.experiments import ExperimentConfig
from app.domain.routing import ModelConfig, ProviderConfig, Target
from app.gateway.fleet.fleet import Fleet
from app.gateway.routing.implied_model import find_implied_model
from app.settings import Settings
from app.store.configuration.snapshots import build_snapshot
from providers.adapters.probe import ProbeResult
from providers.canonical.errors import InvalidRequest
from providers.catalogue import DIALECTS

PROVIDERS = {
    name: ProviderConfig(adapter, f"http://{name}/v1")
    for name, adapter in {"lmdeploy": "lmdeploy", "vllm": "vllm", "plain": "openai", "auto": "auto", "host": "anthropic"}.items()
}
MODELS = {
    "lm": ModelConfig((Target("host", "x"), Target("lmdeploy", "x"))),
    "lm-2": ModelConfig((Target("lmdeploy", "y"),)),
    "v": ModelConfig((Target("vllm", "x"),)),
    "pinned": ModelConfig((Target("vllm", "x", dialect="openai_chat"),)),
    "plain": ModelConfig((Target("plain", "x"),)),
    "auto": ModelConfig((Target("auto", "x"),)),
    "host": ModelConfig((Target("host", "x"),)),
}
SNAPSHOT = build_snapshot(1, PROVIDERS, MODELS)
BODIES: dict[str, Any] = {
    "pooling": {"input": "a"},
    "encode": {"input": "a"},
    "generate": {"prompt": "a"},
    "vllm_generate": {"token_ids": [1], "sampling_params": {}},
}


def fleet() -> Fleet:
    fleet = Fleet(Settings(), httpx2.MockTransport(lambda _: httpx2.Response(404)))
    fleet.apply_snapshot(SNAPSHOT)
    return fleet


def implied(route: str, *models: str, in_fleet: Fleet | None = None, **body: Any) -> str:
    caller = Caller("k", "t", "team", "full", models=models or None)
    request = DIALECTS[route].parse_request(json.dumps(body or BODIES[route]).encode())
    assert request.names_no_model
    return find_implied_model(SNAPSHOT, in_fleet or fleet(), caller, DIALECTS[route], request.body)


@pytest.mark.parametrize(
    ("route", "models", "expected"),
    [
        ("generate", ("lm", "v", "plain", "host"), "lm"),
        ("generate", ("lm*", "unknown", "host"), None),
        ("generate", ("v", "host"), None),
        ("pooling", ("v", "plain", "pinned", "host"), "v"),
        ("pooling", ("plain", "host"), "plain"),
        ("pooling", ("v", "lm"), None),
        ("pooling", ("pinned", "host"), None),
        ("encode", ("lm", "host"), "lm"),
        ("vllm_generate", ("lm", "v", "plain"), "v"),
        ("vllm_generate", ("pinned", "lm"), None),
    ],
)
def test_only_model_of_the_key_that_serves_the_route_is_meant(route: str, models: tuple[str, ...], expected: str | None):
    if expected is not None:
        assert implied(route, *models) == expected
        return
    with pytest.raises(InvalidRequest) as refused:
        implied(route, *models)
    assert refused.value.param == "model"


def test_of_several_models_only_those_of_the_key_are_listed():
    with pytest.raises(InvalidRequest) as refused:
        implied("encode", "lm", "v", "host")
    assert ": lm, v. Name one" in refused.value.message and "lm-2" not in refused.value.message
    with pytest.raises(InvalidRequest) as refused:
        implied("generate")
    assert ": lm, lm-2. Name one" in refused.value.message


def test_shape_of_the_request_decides_too():
    assert implied("pooling", "lm", "v", messages=[{"role": "user", "content": "a"}]) == "v"


def test_model_with_only_an_experiment_serves_what_its_arms_serve():
    models = {**MODELS, "split": ModelConfig((), experiment=ExperimentConfig({"lm": 1.0, "host": 1.0}))}
    snapshot = build_snapshot(1, PROVIDERS, models)
    in_fleet = Fleet(Settings(), httpx2.MockTransport(lambda _: httpx2.Response(404)))
    in_fleet.apply_snapshot(snapshot)
    body = DIALECTS["generate"].parse_request(json.dumps(BODIES["generate"]).encode()).body
    caller = Caller("k", "t", "team", "full", models=("split", "host"))
    assert find_implied_model(snapshot, in_fleet, caller, DIALECTS["generate"], body) == "split"


def test_detected_engine_counts_rather_than_the_configured_one():
    detected = fleet()
    (endpoint,) = detected.table.endpoints_of(Target("auto", "x"))
    with pytest.raises(InvalidRequest):
        implied("generate", "auto", "host", in_fleet=detected)
    endpoint.apply_probe_result(ProbeResult(engine="lmdeploy"))
    assert implied("generate", "auto", "host", in_fleet=detected) == "auto"


@pytest.mark.parametrize("route", ["openai_chat", "openai_embeddings", "anthropic_messages"])
def test_other_apis_require_a_model(route: str):
    body = {"messages": [{"role": "user", "content": "a"}], "max_tokens": 1, "input": "a"}
    with pytest.raises(InvalidRequest, match="model"):
        DIALECTS[route].parse_request(json.dumps(body).encode())


def test_key_that_may_use_very_many_models_has_to_name_one():
    models = {f"m{number}": ModelConfig((Target("lmdeploy", "x"),)) for number in range(501)}
    snapshot = build_snapshot(1, PROVIDERS, models)
    in_fleet = Fleet(Settings(), httpx2.MockTransport(lambda _: httpx2.Response(404)))
    in_fleet.apply_snapshot(snapshot)
    body = DIALECTS["generate"].parse_request(json.dumps(BODIES["generate"]).encode()).body
    for usable, message in ((None, "too many models"), (("m1*",), "m1"), (("m7",), None)):
        caller = Caller("k", "t", "team", "full", models=usable)
        if message is None:
            assert find_implied_model(snapshot, in_fleet, caller, DIALECTS["generate"], body) == "m7"
            continue
        with pytest.raises(InvalidRequest, match=message):
            find_implied_model(snapshot, in_fleet, caller, DIALECTS["generate"], body)
