"""What administrators see of engines, and tell them to do, each in its own words; and LoRA adapters as models of ours."""

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping
from typing import Any, NamedTuple

import httpx
import pytest

from tests.stories.scripted import Asked, ScriptedEngine
from tests.stories.service import Service

ROUTE = "/admin/v1/models"
CHAT = "/v1/chat/completions"
HELLO: dict[str, Any] = {"messages": [{"role": "user", "content": "Hi"}]}
NO_ROUTE = {"detail": "Not Found"}


def listed(owner: str, *names: str, **adapters: str) -> dict[str, Any]:
    cards: list[dict[str, Any]] = [{"id": name, "object": "model", "owned_by": owner, "max_model_len": 4096} for name in names]
    cards += [{"id": name, "object": "model", "owned_by": owner, "parent": base} for name, base in adapters.items()]
    return {"object": "list", "data": cards}


# What each tells of itself.
TOLD: Mapping[str, dict[str, Any]] = {
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


class Engines(NamedTuple):
    """The engines by name, and a client with the administrator's key."""

    by_name: Mapping[str, ScriptedEngine]
    admin: httpx.AsyncClient

    def address(self, name: str) -> str:
        return f"http://127.0.0.1:{self.by_name[name].port}"

    async def tell(self, model: str, operation: str, **arguments: Any) -> httpx.Response:
        return await self.admin.post(f"{ROUTE}/{model}/engine/{operation}", json=arguments)


@pytest.fixture(scope="module")
async def running(service: Service) -> AsyncGenerator[Engines]:
    """Models: on-vllm, on-sglang, on-lmdeploy and on-llamacpp (an engine each), on-all (all of them, llama.cpp being configured as a vLLM),
    and sql-on-... with the LoRA adapter `sql`; on-vllm/no-such with one that is not there."""
    engines = {name: ScriptedEngine() for name in TOLD}
    for name, engine in engines.items():
        engine.told = dict(TOLD[name])
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
    async with service.client(headers={"authorization": f"Bearer {service.admin_key}"}) as admin:
        found = Engines(engines, admin)
        await _until_found(found)
        yield found
    for engine in engines.values():
        await engine.stop()


async def _until_found(found: Engines) -> None:
    """By both workers: whichever is asked, many times in a row."""
    in_a_row = 0
    async with asyncio.timeout(15):
        while in_a_row < 12:
            async with httpx.AsyncClient(base_url=found.admin.base_url, headers=found.admin.headers) as fresh:
                told = await endpoints(fresh)
            in_a_row = in_a_row + 1 if all(told.get(f"on-{name}", {}).get("health") == "answers" for name in found.by_name) else 0
            await asyncio.sleep(0.02)


async def endpoints(admin: httpx.AsyncClient) -> dict[str, dict[str, Any]]:
    answer = await admin.get("/admin/v1/endpoints")
    assert answer.status_code == 200, answer.text
    return {each["provider"]: each for each in answer.json()["data"]}


@pytest.fixture
def gpus(running: Engines) -> Engines:
    for engine in running.by_name.values():
        engine.asked.clear()
        engine.got.clear()
        engine.script = answering()
    return running


def answering(*absent: str, **statuses: int) -> Any:
    """Answers every POST with what it was sent; `absent` paths are not there; `statuses` by the last part of a path."""

    async def script(asked: Asked) -> None:
        path = asked.path.partition("?")[0]
        if path in absent:
            return await asked.answer(404, json.dumps(NO_ROUTE).encode())
        status = statuses.get(path.rpartition("/")[2], 200)
        said = {"did": path} if status == 200 else {"object": "error", "message": "It was not to be.", "code": status}
        await asked.answer(status, json.dumps(said).encode())

    return script


async def test_every_endpoint_is_told_of_as_what_it_is(gpus: Engines):
    told = await endpoints(gpus.admin)
    vllm, sglang, lmdeploy, llamacpp = (told[f"on-{name}"] for name in gpus.by_name)
    assert {
        key: vllm[key] for key in ("endpoint", "adapter", "engine", "version", "served_as", "router", "warning", "breaker", "in_flight")
    } == {
        "endpoint": gpus.address("vllm"),
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
    assert vllm["serves"] == ["on-all", "on-vllm", "on-vllm/no-such", "sql-on-vllm"] and vllm["answered_at"].startswith("20")
    assert {"sleep", "load_lora", "metrics"} <= set(vllm["operations"]) and "terminate" not in vllm["operations"]
    assert (sglang["adapter"], sglang["served_as"], sglang["version"]) == ("vllm", "sglang", "0.5.23")
    assert sglang["warning"] == "configured as vllm, and served as the sglang that it is"
    assert (lmdeploy["engine"], lmdeploy["version"]) == ("lmdeploy", None)
    assert (llamacpp["adapter"], llamacpp["engine"], llamacpp["warning"]) == ("auto", "llamacpp", None)
    assert llamacpp["version"] == "b6800-0c1e5709" and llamacpp["models"][0]["context_length"] == 2048


async def test_hosts_are_listed_and_not_asked(gpus: Engines, engine: ScriptedEngine):
    told = await endpoints(gpus.admin)
    assert told["first"]["health"] == "not_asked" and told["first"]["operations"] == []


async def test_an_engines_own_metrics_are_passed_through(gpus: Engines):
    answer = await gpus.admin.get("/admin/v1/endpoints/metrics", params={"endpoint": gpus.address("vllm")})
    assert answer.status_code == 200 and answer.text == "vllm:num_requests_running 3.0\n"
    assert answer.headers["content-type"].startswith("text/plain")
    answer = await gpus.admin.get("/admin/v1/endpoints/metrics", params={"endpoint": gpus.address("sglang")})
    assert answer.status_code == 501 and "--enable-metrics" in answer.json()["error"]["message"]
    answer = await gpus.admin.get("/admin/v1/endpoints/metrics", params={"endpoint": "http://elsewhere:1"})
    assert answer.status_code == 404


TABLE: list[tuple[str, str, dict[str, Any], str, dict[str, Any]]] = [
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


@pytest.mark.parametrize(
    ("engine", "operation", "arguments", "path", "body"), TABLE, ids=lambda each: each if isinstance(each, str) else ""
)
async def test_an_operation_is_the_engines_own_call(
    gpus: Engines, engine: str, operation: str, arguments: dict[str, Any], path: str, body: dict[str, Any]
):
    answer = await gpus.tell(f"on-{engine}", operation, **arguments)
    assert answer.status_code == 200, answer.text
    (asked,) = gpus.by_name[engine].asked
    assert (asked.path, asked.body) == (path, body) and asked.headers["content-type"] == "application/json"
    did = {"endpoint": gpus.address(engine), "engine": engine, "status": 200, "answer": {"did": path.partition("?")[0]}}
    assert answer.json() == {"operation": operation, "data": [did]}


@pytest.mark.parametrize(
    ("engine", "operation", "told"),
    [
        ("vllm", "is_sleeping", {"is_sleeping": False}),
        ("lmdeploy", "is_sleeping", {"is_sleeping": True}),
        ("lmdeploy", "engine_info", json.dumps({"tp_size": 1, "dp_size": 1})),
        ("llamacpp", "loras", TOLD["llamacpp"]["/lora-adapters"]),
    ],
)
async def test_a_question_may_be_asked_by_get(gpus: Engines, engine: str, operation: str, told: Any):
    for answer in (await gpus.admin.get(f"{ROUTE}/on-{engine}/engine/{operation}"), await gpus.tell(f"on-{engine}", operation)):
        assert answer.status_code == 200 and answer.json()["data"][0]["answer"] == told


async def test_what_changes_something_is_not_asked_by_get(gpus: Engines):
    for operation in ("sleep", "terminate"):
        answer = await gpus.admin.get(f"{ROUTE}/on-lmdeploy/engine/{operation}")
        assert answer.status_code == 400 and "POST" in answer.json()["error"]["message"]
    assert not gpus.by_name["lmdeploy"].asked and "/terminate" not in [each.path for each in gpus.by_name["lmdeploy"].got]


async def test_an_engine_is_ended_only_when_that_is_confirmed(gpus: Engines):
    refused = await gpus.tell("on-lmdeploy", "terminate")
    assert refused.status_code == 400 and refused.json()["error"]["param"] == "confirm"
    assert "/terminate" not in [each.path for each in gpus.by_name["lmdeploy"].got]
    assert (await gpus.tell("on-lmdeploy", "terminate", confirm=True)).status_code == 200
    assert "/terminate" in [each.path for each in gpus.by_name["lmdeploy"].got]


@pytest.mark.parametrize(
    ("engine", "operation", "arguments", "script", "why"),
    [
        ("vllm", "sleep", {}, answering("/sleep"), "VLLM_SERVER_DEV_MODE=1"),
        ("vllm", "abort", {"abort_all": True}, answering("/abort_requests", "/inference/v1/abort_requests"), "--enable-scale-out"),
        ("vllm", "generate", {}, answering("/inference/v1/generate"), "--enable-scale-out"),
        ("vllm", "unload_lora", {"lora_name": "sql"}, answering("/v1/unload_lora_adapter"), "VLLM_ALLOW_RUNTIME_LORA_UPDATING=1"),
        ("lmdeploy", "abort", {"abort_all": True}, answering(abort_request=501), "--enable-abort-handling"),
        ("lmdeploy", "gc", {}, answering("/distserve/gc"), "proxy"),
        ("lmdeploy", "init_weights", {}, answering(init_weights_update_group=501), "--backend pytorch"),
        ("lmdeploy", "load_lora", {"lora_name": "sql"}, answering(), "--adapters"),
        ("llamacpp", "sleep", {}, answering(), "--sleep-idle-seconds"),
        ("llamacpp", "metrics", {}, answering(), "--metrics"),
        ("vllm", "terminate", {"confirm": True}, answering(), "end its process"),
        ("sglang", "is_sleeping", {}, answering(), "does not tell"),
        ("sglang", "p2p_connect", {}, answering(), "no such call"),
    ],
)
async def test_what_an_engine_does_not_offer_is_a_501_that_says_why(
    gpus: Engines, engine: str, operation: str, arguments: dict[str, Any], script: Any, why: str
):
    gpus.by_name[engine].script = script
    answer = await gpus.tell(f"on-{engine}", operation, **arguments)
    assert answer.status_code == 501 and why in answer.json()["error"]["message"], answer.text
    assert answer.json()["data"][0]["status"] == 501


async def test_vllm_is_told_to_abort_wherever_it_takes_that(gpus: Engines):
    gpus.by_name["vllm"].script = answering("/abort_requests")
    assert (await gpus.tell("on-vllm", "abort", request_ids=["a"])).status_code == 200
    assert [asked.path for asked in gpus.by_name["vllm"].asked] == ["/abort_requests", "/inference/v1/abort_requests"]


async def test_an_engines_refusal_is_told_in_its_words(gpus: Engines):
    gpus.by_name["sglang"].script = answering(load_lora_adapter=400)
    answer = await gpus.tell("on-sglang", "load_lora", lora_name="s", lora_path="/s")
    assert answer.status_code == 400 and answer.json()["error"]["message"] == "It was not to be."
    gpus.by_name["vllm"].script = answering(unload_lora_adapter=404)
    answer = await gpus.tell("on-vllm", "unload_lora", lora_name="s")
    assert answer.status_code == 404 and answer.json()["error"]["message"] == "It was not to be."


async def test_what_was_told_is_not_told_again_where_the_connection_breaks(gpus: Engines):
    """An engine that was ended breaks off, and behind its address may stand another by then."""

    async def breaking(asked: Asked) -> None:
        asked.cut()

    gpus.by_name["vllm"].script = breaking
    for number in range(1, 4):  # the probes after each keep a connection open, which the next takes
        assert (await gpus.tell("on-vllm", "sleep")).status_code == 502
        assert len(gpus.by_name["vllm"].asked) == number


async def test_of_all_endpoints_each_tells_what_came_of_it(gpus: Engines):
    gpus.by_name["vllm"].script = answering("/sleep")
    gpus.by_name["lmdeploy"].script = answering(sleep=500)
    answer = await gpus.tell("on-all", "sleep")
    assert answer.status_code == 502 and answer.json()["error"]["message"].startswith("3 of 4 endpoints failed.")
    assert {each["engine"]: each["status"] for each in answer.json()["data"]} == {
        "vllm": 501,
        "sglang": 200,
        "lmdeploy": 502,
        "llamacpp": 501,
    }
    one = await gpus.tell("on-all", "sleep", endpoint=gpus.address("sglang"))
    assert one.status_code == 200 and len(one.json()["data"]) == 1


async def test_generate_is_asked_of_one_endpoint(gpus: Engines):
    answer = await gpus.tell("on-all", "generate", prompt="Hi")
    assert answer.status_code == 200 and sum(len(each.asked) for each in gpus.by_name.values()) == 1


@pytest.mark.parametrize(
    ("model", "operation", "arguments", "status", "told"),
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
async def test_a_slip_reaches_no_engine(gpus: Engines, model: str, operation: str, arguments: dict[str, Any], status: int, told: str):
    answer = await gpus.tell(model, operation, **arguments)
    assert answer.status_code == status and told in answer.json()["error"]["message"]
    assert not any(each.asked for each in gpus.by_name.values())


async def test_engines_are_for_admin_keys(gpus: Engines, client: httpx.AsyncClient):
    assert (await client.get("/admin/v1/endpoints")).status_code == 403
    assert (await client.post(f"{ROUTE}/on-vllm/engine/sleep", json={})).status_code == 403
    assert not gpus.by_name["vllm"].asked


SELECTED = {
    "vllm": {"model": "sql"},
    "sglang": {"model": "base:sql"},
    "lmdeploy": {"model": "sql"},
    "llamacpp": {"model": "base", "lora": [{"id": 1, "scale": 1.0}]},
}


@pytest.mark.parametrize("name", SELECTED)
async def test_a_lora_adapter_is_asked_for_in_the_engines_words(gpus: Engines, client: httpx.AsyncClient, name: str):
    gpus.by_name[name].script = Asked.whole
    answer = await client.post(CHAT, json={**HELLO, "model": f"sql-on-{name}"})
    assert answer.status_code == 200 and answer.json()["model"] == f"sql-on-{name}", answer.text
    sent = gpus.by_name[name].asked[-1].body
    assert {key: sent.get(key) for key in SELECTED[name]} == SELECTED[name]


async def test_an_adapter_that_is_not_there_troubles_no_engine(gpus: Engines, client: httpx.AsyncClient):
    answer = await client.post(CHAT, json={**HELLO, "model": "on-vllm/no-such"})
    assert (
        answer.status_code == 404
        and "no LoRA adapter 'no-such'" in answer.json()["error"]["message"]
        and "sql" not in answer.text  # it may be somebody else's
    )
    assert not gpus.by_name["vllm"].asked


async def test_the_command_lists_endpoints_and_tells_them(gpus: Engines, service: Service):
    told = await asyncio.to_thread(service.run, "engines", "list")
    assert told.returncode == 0 and gpus.address("vllm") in told.stdout and "served as the sglang" in told.stdout
    done = await asyncio.to_thread(service.run, "engines", "run", "on-all", "wake", 'tags=["weights"]')
    assert gpus.by_name["vllm"].asked[-1].path == "/wake_up?tags=weights" and gpus.by_name["sglang"].asked[-1].body == {"tags": ["weights"]}
    assert done.returncode == 1 and "llama.cpp wakes by itself" in done.stdout
