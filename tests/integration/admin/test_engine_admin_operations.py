"""The admin API of engines: endpoints, operations in each engine's own HTTP calls; and LoRA adapters as models."""

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping
from typing import Any, NamedTuple

import httpx2
import pytest

from tests.support.processes.service import Service
from tests.support.processes.service_inspection import wait_until_endpoints
from tests.support.scripted_engine import ReceivedRequest, ScriptedEngine

ROUTE = "/admin/v1/models"
CHAT = "/v1/chat/completions"
HELLO: dict[str, Any] = {"messages": [{"role": "user", "content": "Hi"}]}
NO_ROUTE = {"detail": "Not Found"}


def listed(owner: str, *names: str, **adapters: str) -> dict[str, Any]:
    cards: list[dict[str, Any]] = [{"id": name, "object": "model", "owned_by": owner, "max_model_len": 4096} for name in names]
    cards += [{"id": name, "object": "model", "owned_by": owner, "parent": base} for name, base in adapters.items()]
    return {"object": "list", "data": cards}


# What each engine reports about itself.
GET_RESPONSES: Mapping[str, dict[str, Any]] = {
    "vllm": {
        "/health": b"",
        "/v1/models": listed("vllm", "base", sql="base"),
        "/version": {"version": "0.32.0"},
        "/metrics": b"vllm:num_requests_running 3.0\n",
        "/is_sleeping": {"is_sleeping": False},
    },
    "sglang": {
        "/ready": b"",
        "/v1/models": listed("sglang", "base", sql="base"),
        "/server_info": {"version": "0.5.23", "model_path": "base", "internal_states": []},
    },
    "lmdeploy": {
        "/health": {"status": "healthy"},
        "/v1/models": listed("lmdeploy", "base", "sql"),
        "/is_sleeping": {"is_sleeping": True},
        "/distserve/engine_info": json.dumps({"tp_size": 1, "dp_size": 1}),
        "/terminate": b"",
    },
    "llamacpp": {
        "/health": {"status": "ok"},
        "/v1/models": {"data": [{"id": "base", "owned_by": "llamacpp", "meta": {"n_ctx_train": 2048}}]},
        "/props": {"default_generation_settings": {}, "build_info": "b6800-0c1e5709"},
        "/lora-adapters": [{"id": 0, "path": "/adapters/other.gguf", "scale": 1.0}, {"id": 1, "path": "/adapters/sql.gguf", "scale": 1.0}],
    },
}


class EnginePool(NamedTuple):
    """The engines by name, and a client with the admin key."""

    by_name: Mapping[str, ScriptedEngine]
    admin: httpx2.AsyncClient

    def address(self, name: str) -> str:
        return f"http://127.0.0.1:{self.by_name[name].port}"

    async def run_operation(self, model: str, operation: str, **arguments: Any) -> httpx2.Response:
        return await self.admin.post(f"{ROUTE}/{model}/engine/{operation}", json=arguments)


@pytest.fixture(scope="module")
async def running(service: Service) -> AsyncGenerator[EnginePool]:
    """Models: on-ENGINE (the SGLang being configured as a vLLM), sql-on-ENGINE with the LoRA adapter `sql`, on-all with all engines, and
    on-vllm/no-such with an adapter that does not exist."""
    engines = {name: ScriptedEngine() for name in GET_RESPONSES}
    for name, engine in engines.items():
        engine.get_responses = dict(GET_RESPONSES[name])
        await engine.start()
    toml = ["[providers]"]
    adapters = {"vllm": "vllm", "sglang": "vllm", "lmdeploy": "lmdeploy", "llamacpp": "auto"}
    for name, adapter in adapters.items():
        toml.append(f'on-{name} = {{ adapter = "{adapter}", base_url = "http://127.0.0.1:{engines[name].port}" }}')
    toml.append("[models]")
    for name in engines:
        toml.append(f'on-{name} = {{ targets = [{{ provider = "on-{name}", model = "base" }}] }}')
        toml.append(f'sql-on-{name} = {{ targets = [{{ provider = "on-{name}", model = "base", lora = "sql" }}] }}')
    targets = ", ".join(f'{{ provider = "on-{name}", model = "base" }}' for name in engines)
    toml.append(f"on-all = {{ targets = [{targets}] }}")
    toml.append('"on-vllm/no-such" = { targets = [{ provider = "on-vllm", model = "base", lora = "no-such" }] }')
    service.apply("\n".join(toml))
    await wait_until_endpoints(service, lambda endpoints: all(endpoints.get(f"on-{name}", {}).get("health") == "ready" for name in engines))
    async with service.admin_client() as admin:
        yield EnginePool(engines, admin)
    for engine in engines.values():
        await engine.stop()


async def endpoints(admin: httpx2.AsyncClient) -> dict[str, dict[str, Any]]:
    answer = await admin.get("/admin/v1/endpoints")
    assert answer.status_code == 200, answer.text
    return {each["provider"]: each for each in answer.json()["data"]}


@pytest.fixture
def engine_pool(running: EnginePool) -> EnginePool:
    for engine in running.by_name.values():
        engine.requests.clear()
        engine.get_requests.clear()
        engine.script = operation_script()
    return running


def operation_script(*absent: str, **statuses: int) -> Any:
    """Responds to every POST with its path; `absent` paths are 404; `statuses` are by the last part of a path."""

    async def script(request: ReceivedRequest) -> None:
        path = request.path.partition("?")[0]
        if path in absent:
            return await request.respond(404, json.dumps(NO_ROUTE).encode())
        status = statuses.get(path.rpartition("/")[2], 200)
        body = {"did": path} if status == 200 else {"object": "error", "message": "It was not to be.", "code": status}
        await request.respond(status, json.dumps(body).encode())

    return script


async def test_endpoints_are_listed_with_detected_engine_version_and_models(engine_pool: EnginePool):
    listed_endpoints = await endpoints(engine_pool.admin)
    vllm, sglang, lmdeploy, llamacpp = (listed_endpoints[f"on-{name}"] for name in engine_pool.by_name)
    assert {
        key: vllm[key] for key in ("endpoint", "adapter", "engine", "version", "served_as", "router", "warning", "breaker", "in_flight")
    } == {
        "endpoint": engine_pool.address("vllm"),
        "adapter": "vllm",
        "engine": "vllm",
        "version": "0.32.0",
        "served_as": "vllm",
        "router": None,
        "warning": None,
        "breaker": "closed",
        "in_flight": 0,
    }
    assert vllm["models"] == [
        {"id": "base", "context_length": 4096, "parent": None},
        {"id": "sql", "context_length": None, "parent": "base"},
    ]
    assert vllm["serves"] == ["on-all", "on-vllm", "on-vllm/no-such", "sql-on-vllm"] and vllm["last_response_at"].startswith("20")
    assert {"sleep", "load_lora", "metrics"} <= set(vllm["operations"]) and "terminate" not in vllm["operations"]
    assert (sglang["adapter"], sglang["served_as"], sglang["version"]) == ("vllm", "sglang", "0.5.23")
    assert sglang["warning"] == "configured as vllm, but served as the sglang that it is"
    assert (lmdeploy["engine"], lmdeploy["version"]) == ("lmdeploy", None)
    assert (llamacpp["adapter"], llamacpp["engine"], llamacpp["warning"]) == ("auto", "llamacpp", None)
    assert llamacpp["version"] == "b6800-0c1e5709" and llamacpp["models"][0]["context_length"] == 2048


async def test_hosted_endpoints_are_listed_without_being_probed(engine_pool: EnginePool, engine: ScriptedEngine):
    listed_endpoints = await endpoints(engine_pool.admin)
    assert listed_endpoints["first"]["health"] == "not_probed" and listed_endpoints["first"]["operations"] == []


async def test_engine_metrics_are_passed_through_or_501(engine_pool: EnginePool):
    answer = await engine_pool.admin.get("/admin/v1/endpoints/metrics", params={"endpoint": engine_pool.address("vllm")})
    assert answer.status_code == 200 and answer.text == "vllm:num_requests_running 3.0\n"
    assert answer.headers["content-type"].startswith("text/plain")
    answer = await engine_pool.admin.get("/admin/v1/endpoints/metrics", params={"endpoint": engine_pool.address("sglang")})
    assert answer.status_code == 501 and "--enable-metrics" in answer.json()["error"]["message"]
    answer = await engine_pool.admin.get("/admin/v1/endpoints/metrics", params={"endpoint": "http://elsewhere:1"})
    assert answer.status_code == 404


# Engine, operation and arguments; the path and body that the engine receives.
OPERATION_CALLS: list[tuple[str, str, dict[str, Any], str, dict[str, Any]]] = [
    ("vllm", "abort", {"request_ids": ["a"]}, "/abort_requests", {"request_ids": ["a"]}),
    ("vllm", "sleep", {"level": 2, "mode": "wait"}, "/sleep?level=2&mode=wait", {}),
    ("vllm", "wake", {"tags": ["weights", "kv_cache"]}, "/wake_up?tags=weights&tags=kv_cache", {}),
    ("vllm", "flush_cache", {"reset_external": True}, "/reset_prefix_cache?reset_external=true", {}),
    ("vllm", "update_weights", {"update_info": {"names": ["w"]}}, "/update_weights", {"update_info": {"names": ["w"]}}),
    (
        *("vllm", "load_lora", {"lora_name": "sql", "lora_path": "/a/sql", "load_inplace": True}, "/v1/load_lora_adapter"),
        {"lora_name": "sql", "lora_path": "/a/sql", "load_inplace": True},
    ),
    ("vllm", "unload_lora", {"lora_name": "sql"}, "/v1/unload_lora_adapter", {"lora_name": "sql"}),
    ("vllm", "generate", {"token_ids": [1]}, "/inference/v1/generate", {"token_ids": [1], "model": "base"}),
    ("sglang", "abort", {"rid": "a", "abort_all": False}, "/abort_request", {"rid": "a"}),
    ("sglang", "sleep", {"tags": ["weights"]}, "/release_memory_occupation", {"tags": ["weights"]}),
    ("sglang", "wake", {}, "/resume_memory_occupation", {}),
    ("sglang", "flush_cache", {"timeout": 1.5}, "/flush_cache?timeout=1.5", {}),
    (
        "sglang",
        "update_weights",
        {"model_path": "/w", "flush_cache": True},
        "/update_weights_from_disk",
        {"model_path": "/w", "flush_cache": True},
    ),
    ("sglang", "load_lora", {"lora_name": "s", "lora_path": "/s"}, "/load_lora_adapter", {"lora_name": "s", "lora_path": "/s"}),
    ("sglang", "unload_lora", {"lora_name": "s"}, "/unload_lora_adapter", {"lora_name": "s"}),
    ("sglang", "generate", {"text": "Hi", "rid": "a"}, "/generate", {"text": "Hi", "rid": "a"}),
    ("lmdeploy", "abort", {"session_id": 7, "abort_message": "no"}, "/abort_request", {"session_id": 7, "abort_message": "no"}),
    ("lmdeploy", "sleep", {"level": 1}, "/sleep?level=1", {}),
    ("lmdeploy", "wake", {"tags": ["kv_cache"]}, "/wakeup?tags=kv_cache", {}),
    (
        "lmdeploy",
        "update_weights",
        {"serialized_named_tensors": "x", "finished": True},
        "/update_weights",
        {"serialized_named_tensors": "x", "finished": True},
    ),
    ("lmdeploy", "generate", {"prompt": "Hi"}, "/generate", {"prompt": "Hi"}),
    *(
        (engine, operation, {"group_name": "g", **more}, path, {"group_name": "g", **more})
        for engine in ("sglang", "lmdeploy")
        for operation, path, more in (
            (
                *("init_weights", "/init_weights_update_group"),
                {"master_address": "10.0.0.9", "master_port": 29500, "rank_offset": 1, "world_size": 2},
            ),
            (
                *("update_weights_from_distributed", "/update_weights_from_distributed"),
                {"names": ["w"], "dtypes": ["bfloat16"], "shapes": [[2, 2]]},
            ),
            ("finish_weights", "/destroy_weights_update_group", dict[str, Any]()),
        )
    ),
    (
        "lmdeploy",
        "update_weights_from_ipc",
        {"zmq_handles": {"GPU-1": "ipc:x"}},
        "/update_weights_from_ipc",
        {"zmq_handles": {"GPU-1": "ipc:x"}},
    ),
    (
        *("lmdeploy", "p2p_connect"),
        {"protocol": 2, "remote_engine_id": "b", "remote_engine_endpoint_info": {"zmq": "x"}, "remote_kvtransfer_endpoint_info": []},
        "/distserve/p2p_connect",
        {"protocol": 2, "remote_engine_id": "b", "remote_engine_endpoint_info": {"zmq": "x"}, "remote_kvtransfer_endpoint_info": []},
    ),
    (
        *("lmdeploy", "p2p_drop_connect", {"engine_id": "a", "remote_engine_id": "b"}),
        *("/distserve/p2p_drop_connect", {"engine_id": "a", "remote_engine_id": "b"}),
    ),
    (
        *("lmdeploy", "free_cache", {"remote_engine_id": "b", "remote_session_id": 3}),
        *("/distserve/free_cache", {"remote_engine_id": "b", "remote_session_id": 3}),
    ),
    ("lmdeploy", "connection_warmup", {}, "/distserve/connection_warmup", {}),
    ("llamacpp", "generate", {"prompt": "Hi", "n_predict": 3}, "/completion", {"prompt": "Hi", "n_predict": 3}),
]


@pytest.mark.parametrize("engine", GET_RESPONSES)
async def test_each_operation_becomes_the_engines_own_http_call(engine_pool: EnginePool, engine: str):
    received: list[Any] = []
    expected: list[Any] = []
    for _, operation, arguments, path, body in (call for call in OPERATION_CALLS if call[0] == engine):
        engine_pool.by_name[engine].requests.clear()
        answer = await engine_pool.run_operation(f"on-{engine}", operation, **arguments)
        requests = [(each.path, each.body, each.headers["content-type"]) for each in engine_pool.by_name[engine].requests]
        received.append((operation, requests, answer.status_code, answer.json()))
        expected.append((operation, [(path, body, "application/json")], 200, operation_result(engine_pool, engine, operation, path)))
    assert received == expected


def operation_result(engine_pool: EnginePool, engine: str, operation: str, path: str) -> dict[str, Any]:
    """The response of the admin API to an operation on one endpoint."""
    did = {"endpoint": engine_pool.address(engine), "engine": engine, "status": 200, "response": {"did": path.partition("?")[0]}}
    return {"operation": operation, "data": [did]}


@pytest.mark.parametrize(
    ("engine", "operation", "response"),
    [
        ("vllm", "is_sleeping", {"is_sleeping": False}),
        ("lmdeploy", "is_sleeping", {"is_sleeping": True}),
        ("lmdeploy", "engine_info", json.dumps({"tp_size": 1, "dp_size": 1})),
        ("llamacpp", "loras", GET_RESPONSES["llamacpp"]["/lora-adapters"]),
    ],
)
async def test_read_only_operations_work_by_get_and_post(engine_pool: EnginePool, engine: str, operation: str, response: Any):
    for answer in (
        await engine_pool.admin.get(f"{ROUTE}/on-{engine}/engine/{operation}"),
        await engine_pool.run_operation(f"on-{engine}", operation),
    ):
        assert answer.status_code == 200 and answer.json()["data"][0]["response"] == response


async def test_mutating_operations_are_refused_by_get(engine_pool: EnginePool):
    for operation in ("sleep", "terminate"):
        answer = await engine_pool.admin.get(f"{ROUTE}/on-lmdeploy/engine/{operation}")
        assert answer.status_code == 400 and "POST" in answer.json()["error"]["message"]
    assert not engine_pool.by_name["lmdeploy"].requests and "/terminate" not in [
        each.path for each in engine_pool.by_name["lmdeploy"].get_requests
    ]


async def test_terminate_requires_confirmation(engine_pool: EnginePool):
    refused = await engine_pool.run_operation("on-lmdeploy", "terminate")
    assert refused.status_code == 400 and refused.json()["error"]["param"] == "confirm"
    assert "/terminate" not in [each.path for each in engine_pool.by_name["lmdeploy"].get_requests]
    assert (await engine_pool.run_operation("on-lmdeploy", "terminate", confirm=True)).status_code == 200
    assert "/terminate" in [each.path for each in engine_pool.by_name["lmdeploy"].get_requests]


@pytest.mark.parametrize(
    ("engine", "operation", "arguments", "script", "reason"),
    [
        ("vllm", "sleep", {}, operation_script("/sleep"), "VLLM_SERVER_DEV_MODE=1"),
        ("vllm", "abort", {"abort_all": True}, operation_script("/abort_requests", "/inference/v1/abort_requests"), "--enable-scale-out"),
        ("vllm", "generate", {}, operation_script("/inference/v1/generate"), "--enable-scale-out"),
        ("vllm", "unload_lora", {"lora_name": "sql"}, operation_script("/v1/unload_lora_adapter"), "VLLM_ALLOW_RUNTIME_LORA_UPDATING=1"),
        ("lmdeploy", "abort", {"abort_all": True}, operation_script(abort_request=501), "--enable-abort-handling"),
        ("lmdeploy", "gc", {}, operation_script("/distserve/gc"), "proxy"),
        ("lmdeploy", "init_weights", {}, operation_script(init_weights_update_group=501), "--backend pytorch"),
        ("lmdeploy", "load_lora", {"lora_name": "sql"}, operation_script(), "--adapters"),
        ("llamacpp", "sleep", {}, operation_script(), "--sleep-idle-seconds"),
        ("llamacpp", "metrics", {}, operation_script(), "--metrics"),
        ("vllm", "terminate", {"confirm": True}, operation_script(), "end its process"),
        ("sglang", "is_sleeping", {}, operation_script(), "does not report"),
        ("sglang", "p2p_connect", {}, operation_script(), "no such call"),
    ],
)
async def test_unsupported_operation_is_a_501_with_its_reason(
    engine_pool: EnginePool, engine: str, operation: str, arguments: dict[str, Any], script: Any, reason: str
):
    engine_pool.by_name[engine].script = script
    answer = await engine_pool.run_operation(f"on-{engine}", operation, **arguments)
    assert answer.status_code == 501 and reason in answer.json()["error"]["message"], answer.text
    assert answer.json()["data"][0]["status"] == 501


async def test_vllm_abort_tries_each_known_route(engine_pool: EnginePool):
    engine_pool.by_name["vllm"].script = operation_script("/abort_requests")
    assert (await engine_pool.run_operation("on-vllm", "abort", request_ids=["a"])).status_code == 200
    assert [request.path for request in engine_pool.by_name["vllm"].requests] == ["/abort_requests", "/inference/v1/abort_requests"]


async def test_engine_refusal_of_an_operation_is_passed_through(engine_pool: EnginePool):
    engine_pool.by_name["sglang"].script = operation_script(load_lora_adapter=400)
    answer = await engine_pool.run_operation("on-sglang", "load_lora", lora_name="s", lora_path="/s")
    assert answer.status_code == 400 and answer.json()["error"]["message"] == "It was not to be."
    engine_pool.by_name["vllm"].script = operation_script(unload_lora_adapter=404)
    answer = await engine_pool.run_operation("on-vllm", "unload_lora", lora_name="s")
    assert answer.status_code == 404 and answer.json()["error"]["message"] == "It was not to be."


async def test_operation_is_not_resent_after_a_broken_connection(engine_pool: EnginePool):
    """An engine that is ended closes its connections, and another may listen on its address by then."""

    async def reset_connection(request: ReceivedRequest) -> None:
        request.reset_connection()

    engine_pool.by_name["vllm"].script = reset_connection
    for number in range(1, 4):  # the probes after each leave an open connection, which the next one uses
        assert (await engine_pool.run_operation("on-vllm", "sleep")).status_code == 502
        assert len(engine_pool.by_name["vllm"].requests) == number


async def test_operation_on_all_endpoints_reports_each_result(engine_pool: EnginePool):
    engine_pool.by_name["vllm"].script = operation_script("/sleep")
    engine_pool.by_name["lmdeploy"].script = operation_script(sleep=500)
    answer = await engine_pool.run_operation("on-all", "sleep")
    assert answer.status_code == 500 and answer.json()["error"]["message"].startswith("3 of 4 endpoints failed.")
    assert {each["engine"]: each["status"] for each in answer.json()["data"]} == {
        "vllm": 501,
        "sglang": 200,
        "lmdeploy": 500,
        "llamacpp": 501,
    }
    one = await engine_pool.run_operation("on-all", "sleep", endpoint=engine_pool.address("sglang"))
    assert one.status_code == 200 and len(one.json()["data"]) == 1


async def test_generate_operation_is_sent_to_one_endpoint_only(engine_pool: EnginePool):
    answer = await engine_pool.run_operation("on-all", "generate", prompt="Hi")
    assert answer.status_code == 200 and sum(len(each.requests) for each in engine_pool.by_name.values()) == 1


@pytest.mark.parametrize(
    ("model", "operation", "arguments", "status", "message"),
    [
        ("on-vllm", "sleep", {"depth": 2}, 400, "'depth'"),
        ("on-vllm", "sleep", {"level": "deep"}, 400, "integer"),
        ("on-vllm", "sleep", {"level": True}, 400, "integer"),
        ("on-vllm", "load_lora", {"lora_name": "s"}, 400, "lora_path"),
        ("on-vllm", "dance", {}, 404, "dance"),
        ("no-such", "sleep", {}, 404, "no-such"),
        ("on-vllm", "sleep", {"endpoint": "http://elsewhere:1"}, 404, "elsewhere"),
        ("on-vllm", "sleep", {"endpoint": 5}, 400, "address"),
    ],
)
async def test_invalid_operation_request_reaches_no_engine(
    engine_pool: EnginePool, model: str, operation: str, arguments: dict[str, Any], status: int, message: str
):
    answer = await engine_pool.run_operation(model, operation, **arguments)
    assert answer.status_code == status and message in answer.json()["error"]["message"]
    assert not any(each.requests for each in engine_pool.by_name.values())


async def test_engine_operations_require_an_admin_key(engine_pool: EnginePool, client: httpx2.AsyncClient):
    assert (await client.get("/admin/v1/endpoints")).status_code == 403
    assert (await client.post(f"{ROUTE}/on-vllm/engine/sleep", json={})).status_code == 403
    assert not engine_pool.by_name["vllm"].requests


SELECTED = {
    "vllm": {"model": "sql"},
    "sglang": {"model": "base:sql"},
    "lmdeploy": {"model": "sql"},
    "llamacpp": {"model": "base", "lora": [{"id": 1, "scale": 1.0}]},
}


@pytest.mark.parametrize("name", SELECTED)
async def test_lora_adapter_is_selected_in_each_engines_own_way(engine_pool: EnginePool, client: httpx2.AsyncClient, name: str):
    engine_pool.by_name[name].script = ReceivedRequest.respond_completion
    answer = await client.post(CHAT, json={**HELLO, "model": f"sql-on-{name}"})
    assert answer.status_code == 200 and answer.json()["model"] == f"sql-on-{name}", answer.text
    sent = engine_pool.by_name[name].requests[-1].body
    assert {key: sent.get(key) for key in SELECTED[name]} == SELECTED[name]


async def test_missing_lora_adapter_is_404_without_an_upstream_call(engine_pool: EnginePool, client: httpx2.AsyncClient):
    answer = await client.post(CHAT, json={**HELLO, "model": "on-vllm/no-such"})
    assert (
        answer.status_code == 404
        and "no LoRA adapter 'no-such'" in answer.json()["error"]["message"]
        and "sql" not in answer.text  # another caller's adapter is not named
    )
    assert not engine_pool.by_name["vllm"].requests


async def test_engines_cli_lists_endpoints_and_runs_operations(engine_pool: EnginePool, service: Service):
    listing = await asyncio.to_thread(service.run, "engines", "list")
    assert listing.returncode == 0 and engine_pool.address("vllm") in listing.stdout and "served as the sglang" in listing.stdout
    done = await asyncio.to_thread(service.run, "engines", "run", "on-all", "wake", 'tags=["weights"]')
    assert engine_pool.by_name["vllm"].requests[-1].path == "/wake_up?tags=weights" and engine_pool.by_name["sglang"].requests[-1].body == {
        "tags": ["weights"]
    }
    assert done.returncode == 1 and "llama.cpp wakes by itself" in done.stdout
