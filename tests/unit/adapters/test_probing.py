"""Recognising an engine by its responses to probes: each engine is told apart, and no response breaks the recognition."""

import json
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from providers.adapters.probe import MODELS_PATH, ListedModel, ProbeResponse, ProbeResult
from providers.catalogue import ADAPTERS, ENGINE_PROBES
from providers.engines.versions import parse_version
from providers.probing import has_changed, identify_engine, is_ready, lacks_api, next_paths, shows_no_api
from tests.support.strategies.chat_strategies import bounded


def model_list(owner: str, *more: Mapping[str, Any], **fields: Any) -> dict[str, Any]:
    return {"object": "list", "data": [{"id": "m", "object": "model", "created": 1, "owned_by": owner, **fields}, *more]}


# What the engines respond (versions: /reference/engines.md, section 0), without the fields that do not matter here.
SERVERS: dict[str, tuple[dict[str, Any], ProbeResult]] = {
    "vllm": (
        {
            MODELS_PATH: model_list(
                "vllm", {"id": "sql", "owned_by": "vllm", "root": "/a/sql", "parent": "m"}, root="m", parent=None, max_model_len=256
            ),
            "/version": {"version": "0.32.1rc1+cpu"},
        },
        ProbeResult("vllm", "0.32.1rc1+cpu", (ListedModel("m", 256), ListedModel("sql", None, "m")), lora_adapters={"sql": None}),
    ),
    "production-stack in front of vLLM": (
        {
            MODELS_PATH: model_list("vllm", root=None, parent=None),
            "/version": {"version": "0.1.9"},
            "/engines": [{"engine_id": "1", "serving_models": ["m"]}],
        },
        ProbeResult("vllm", None, (ListedModel("m"),), "production-stack"),
    ),
    "an unknown router in front of vLLM": (
        {MODELS_PATH: model_list("vllm"), "/version": {"version": "3.1"}},
        ProbeResult("vllm", None, (ListedModel("m"),), "unknown"),
    ),
    "a router that marks the adapters": (
        {MODELS_PATH: model_list("vllm", {"id": "sql", "owned_by": "vllm", "parent": "m"}), "/version": {"version": "3.1"}},
        ProbeResult("vllm", None, (ListedModel("m"), ListedModel("sql", None, "m")), "unknown", {"sql": None}),
    ),
    "sglang": (
        {
            MODELS_PATH: model_list("sglang", root="m", max_model_len=4096),
            "/server_info": {"version": "0.5.23", "model_path": "m", "internal_states": []},
        },
        ProbeResult("sglang", "0.5.23", (ListedModel("m", 4096),)),
    ),
    "sglang of an older version": (
        {MODELS_PATH: model_list("sglang"), "/get_server_info": {"version": "0.4.9", "model_path": "m"}},
        ProbeResult("sglang", "0.4.9", (ListedModel("m"),)),
    ),
    "sglang with adapters": (
        {MODELS_PATH: model_list("sglang", {"id": "sql", "owned_by": "sglang", "parent": "m", "max_model_len": None})},
        ProbeResult("sglang", None, (ListedModel("m"), ListedModel("sql", None, "m")), lora_adapters={"sql": None}),
    ),
    "lmdeploy": (
        {MODELS_PATH: model_list("lmdeploy", {"id": "sql", "owned_by": "lmdeploy"})},
        ProbeResult("lmdeploy", None, (ListedModel("m"), ListedModel("sql")), lora_adapters={"m": None, "sql": None}),
    ),
    "lmdeploy's proxy": (
        {MODELS_PATH: model_list("lmdeploy"), "/nodes/status": {"http://10.0.0.5:23333": {"models": ["m"], "role": 1}}},
        ProbeResult("lmdeploy", None, (ListedModel("m"),), "lmdeploy-proxy", {"m": None}),
    ),
    "tgi": (
        {
            MODELS_PATH: model_list("m"),
            "/info": {
                "model_id": "m",
                "version": "3.3.6",
                "max_total_tokens": 4096,
                "max_input_tokens": 4095,
                "router": "text-generation-router",
            },
        },
        ProbeResult("tgi", "3.3.6", (ListedModel("m"),)),
    ),
    "llamacpp": (
        {
            MODELS_PATH: model_list("llamacpp", meta={"n_ctx_train": 2048, "n_vocab": 300}),
            "/props": {"default_generation_settings": {"n_ctx": 512}, "total_slots": 4, "build_info": "b6800-0c1e5709"},
            "/lora-adapters": [
                {"id": 0, "path": "/adapters/sql.gguf", "scale": 0.0},
                {"id": 1, "path": "/old/law.gguf", "scale": 0.0},
                {"id": 2, "path": "/new/law.gguf", "scale": 0.0},
            ],
        },
        # Two files are named `law`: the name is ambiguous, so these are listed only by their paths.
        ProbeResult(
            *("llamacpp", "b6800-0c1e5709", (ListedModel("m", 2048),)),
            lora_adapters={"sql": 0, "/adapters/sql.gguf": 0, "/old/law.gguf": 1, "/new/law.gguf": 2},
        ),
    ),
    "llamacpp_python": ({MODELS_PATH: model_list("me", permissions=[])}, ProbeResult("llamacpp_python", None, (ListedModel("m"),))),
    "ollama": (
        {MODELS_PATH: model_list("library"), "/api/version": {"version": "0.33.1"}},
        ProbeResult("ollama", "0.33.1", (ListedModel("m"),)),
    ),
    "mini_sglang": (
        {MODELS_PATH: model_list("mini-sglang", root="m"), "/v1": {"status": "ok"}},
        ProbeResult("mini_sglang", None, (ListedModel("m"),)),
    ),
    "transformers": (
        {
            MODELS_PATH: model_list("somebody"),
            "/health": {"status": "ok"},
            "/openapi.json": {"paths": {"/v1/chat/completions": {}, "/load_model": {}, "/reset": {}}},
        },
        ProbeResult("transformers", None, (ListedModel("m"),)),
    ),
    "sandbox": (
        {MODELS_PATH: model_list("narthex-sandbox"), "/version": {"version": "0.1.0", "engine": "narthex-sandbox"}},
        ProbeResult("sandbox", "0.1.0", (ListedModel("m"),)),
    ),
    "a server without any of the paths": ({}, ProbeResult()),
    "another vendor's": ({MODELS_PATH: model_list("acme"), "/version": {"version": "9"}}, ProbeResult(None, None, (ListedModel("m"),))),
    "two engines' models behind one address": (
        {MODELS_PATH: model_list("vllm", {"id": "n", "owned_by": "sglang"})},
        ProbeResult(None, None, (ListedModel("m"), ListedModel("n"))),
    ),
}


def probe_responses(server: Mapping[str, Any]) -> dict[str, ProbeResponse]:
    """The responses to every probe that the fleet sends to such a server."""
    responses: dict[str, ProbeResponse] = {}
    while more := [path for path in next_paths(responses) if path not in responses]:
        responses |= {
            path: ProbeResponse(200, json.dumps(server[path]).encode()) if path in server else ProbeResponse(404, b'{"detail":"Not Found"}')
            for path in more
        }
    return responses


@pytest.mark.parametrize("name", SERVERS)
def test_engine_is_recognised_by_its_responses(name: str):
    server, expected = SERVERS[name]
    assert identify_engine(probe_responses(server)) == expected


def test_self_identifying_engine_is_probed_with_few_requests():
    for name in ("vllm", "sglang", "lmdeploy", "llamacpp", "mini_sglang", "sandbox"):
        assert len(probe_responses(SERVERS[name][0])) <= 3
    assert "/openapi.json" not in probe_responses(SERVERS["ollama"][0])


def test_every_detectable_engine_has_a_probe_and_no_host_has():
    assert {result.engine for _, result in SERVERS.values() if result.engine} | {"auto"} == set(ENGINE_PROBES)
    assert not {"openai", "anthropic"} & set(ENGINE_PROBES)


def test_liveness_probe_avoids_endpoints_that_run_a_generation():
    assert ENGINE_PROBES["sglang"].health_path == "/ready" and ENGINE_PROBES["tgi"].health_path == "/info"
    assert not any("/health" in responses for server, _ in (SERVERS["sglang"], SERVERS["tgi"]) for responses in (probe_responses(server),))


@pytest.mark.parametrize(
    ("response", "ready"),
    [
        (ProbeResponse(200, b""), True),
        (ProbeResponse(200, b'{"status": "healthy"}'), True),
        (ProbeResponse(200, b'{"status": "sleeping"}'), False),
        (ProbeResponse(503, b""), False),
        (ProbeResponse(404, b""), True),
        (ProbeResponse(401, b'"sleeping"'), True),
    ],
)
def test_sleeping_or_loading_engine_is_not_ready(response: ProbeResponse, ready: bool):
    assert is_ready(response) is ready


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("0.11.2rc1+cpu", (0, 11, 2)),
        ("0.12", (0, 12)),
        ("v1.2.3", (1, 2, 3)),
        ("dev", None),
        ("", None),
        ("9" * 5000, None),
    ],
)
def test_version_is_parsed_from_its_leading_numbers(version: str, expected: tuple[int, ...] | None):
    assert parse_version(version) == expected


keys = st.sampled_from(["data", "id", "owned_by", "parent", "meta", "version", "path", "paths"]) | st.text(max_size=4)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=4),
    max_leaves=12,
)
bodies = st.binary(max_size=40) | json_values.map(lambda value: json.dumps(value).encode())
response_sets = st.dictionaries(
    st.sampled_from(
        sorted(
            {
                MODELS_PATH,
                "/openapi.json",
                *(path for probe in ENGINE_PROBES.values() for path in (probe.health_path, *probe.detail_paths)),
                "/server_info",
            }
        )
    ),
    st.builds(ProbeResponse, st.sampled_from([0, 200, 404, 500]), bodies),
)


@bounded
@given(response_sets, st.sampled_from(sorted(SERVERS)))
def test_arbitrary_probe_responses_never_break_recognition(random_responses: dict[str, ProbeResponse], name: str):
    server = probe_responses(SERVERS[name][0])
    for mixed in (random_responses, {**server, **random_responses}):
        result = identify_engine(mixed)
        assert result.engine is None or result.engine in ENGINE_PROBES
        assert msgspec.json.encode(result)
        assert MODELS_PATH in next_paths(mixed)
        assert not has_changed(result, mixed.get(MODELS_PATH, ProbeResponse(404, b"")))


@pytest.mark.parametrize("name", ["sglang", "lmdeploy", "llamacpp", "mini_sglang", "ollama"])
def test_another_engine_serving_the_same_models_is_detected(name: str):
    result = identify_engine(probe_responses({MODELS_PATH: model_list("vllm"), "/version": {"version": "0.32.0"}}))
    assert has_changed(result, probe_responses(SERVERS[name][0])[MODELS_PATH]) is (
        name != "ollama"
    )  # vLLM's model card may have the same fields
    assert not has_changed(result, ProbeResponse(200, b"<html>"))


def test_deeply_nested_model_list_is_no_engine():
    assert identify_engine({MODELS_PATH: ProbeResponse(200, b"[" * 100_000)}) == ProbeResult()


def test_adapters_of_probed_engines_can_be_built():
    for name in ENGINE_PROBES.keys() & ADAPTERS.keys():
        assert ADAPTERS[name]("p", {}).name == name


@pytest.mark.parametrize("name", SERVERS)
def test_only_a_server_without_any_known_path_is_in_doubt(name: str):
    responses = probe_responses(SERVERS[name][0])
    assert shows_no_api(identify_engine(responses), responses[MODELS_PATH]) == (name == "a server without any of the paths")


@pytest.mark.parametrize("status", [401, 403, 500, 503])
def test_server_that_does_not_show_its_models_is_not_in_doubt(status: int):
    assert not shows_no_api(ProbeResult(), ProbeResponse(status, b""))


@pytest.mark.parametrize(
    ("status", "body", "lacks"),
    [
        (404, b'{"detail":"Not Found"}', True),
        (404, b"<html>nothing here</html>", True),
        (404, b"404 page not found", True),
        (404, b'{"error":"Not Found"}', True),
        (405, b'{"detail":"Method Not Allowed"}', True),
        (302, b"", True),
        (200, b"<!doctype html><title>An app</title>", True),
        (404, b'{"error": {"message": "The model `` does not exist.", "type": "NotFoundError"}}', False),
        (404, b'{"error": "model \'\' not found"}', False),
        (400, b'{"error": "invalid request"}', False),
        (401, b"", False),
        (422, b'{"detail":[{"msg":"Field required"}]}', False),
        (200, b'{"choices": []}', False),
        (500, b"", False),
    ],
)
def test_answer_to_an_empty_request_shows_whether_there_is_an_api(status: int, body: bytes, lacks: bool):
    assert lacks_api(ProbeResponse(status, body)) is lacks
