"""vLLM behind routers: their errors are classified, and no vLLM version is assumed that they do not report."""

from collections.abc import AsyncGenerator
from typing import Any

import httpx2
import pytest

from tests.support.engines.routers import ROUTERS, RouterError, ScriptedRouter
from tests.support.processes.service import Service
from tests.support.processes.wait_until import wait_until
from tests.support.scripted_engine import ScriptedEngine

CHAT = "/v1/chat/completions"
HI: Any = [{"role": "user", "content": "Hello!"}]
# After an overload a target cools down, and another one is tried first: so the other errors of a router come before its overloads.
ERRORS = [
    pytest.param(name, error, id=f"{name}: {description}")
    for name, router in ROUTERS.items()
    for description, error in sorted(router.errors.items(), key=lambda each: each[1].error_class == "Overloaded")
]


@pytest.fixture(scope="module")
async def routers(service: Service) -> AsyncGenerator[dict[str, ScriptedRouter]]:
    """A router for each of ROUTERS.

    Its models are NAME; NAME-pair, with a second target; and NAME-versioned, with a version in its options.
    """
    running = {name: ScriptedRouter() for name in ROUTERS}
    spare = ScriptedEngine()
    await spare.start()
    lines = [f'[providers.spare]\nadapter = "openai"\nbase_url = "http://127.0.0.1:{spare.port}"']
    for name, router in running.items():
        router.become(name)
        await router.server.start()
        address = f'adapter = "vllm"\nbase_url = "http://127.0.0.1:{router.server.port}"'
        lines += [f'[providers."{name}"]\n{address}', f'[providers."{name}-versioned"]\n{address}\noptions = {{ version = "0.33.0" }}']
        first = f'{{ provider = "{name}", model = "engine-model" }}'
        lines += [
            f'[models."{name}"]\ntargets = [{first}]',
            f'[models."{name}-versioned"]\ntargets = [{{ provider = "{name}-versioned", model = "engine-model" }}]',
            f'[models."{name}-pair"]\ntargets = [{first}, {{ provider = "spare", model = "engine-model" }}]',
        ]
    service.apply("\n".join(lines))
    yield running
    for server in (spare, *(router.server for router in running.values())):
        await server.stop()


async def send_chat(client: httpx2.AsyncClient, model: str, **fields: Any) -> httpx2.Response:
    return await client.post(CHAT, json={"model": model, "messages": HI, **fields})


# For each error class: the status (None: the router's) and the type that callers get, and whether another target is tried.
EXPECTED_RESPONSES: dict[str, tuple[int | None, str, bool]] = {
    "Overloaded": (None, "service_unavailable_error", True),
    "UpstreamNotFound": (None, "not_found_error", True),
    "UpstreamRejected": (None, "invalid_request_error", False),
    "UpstreamFailed": (None, "backend_error", True),
    "CredentialRefused": (502, "backend_error", True),
}


@pytest.mark.parametrize(("name", "router_error"), ERRORS)
async def test_router_error_is_classified_and_falls_back_only_where_useful(
    client: httpx2.AsyncClient, routers: dict[str, ScriptedRouter], name: str, router_error: RouterError
):
    routers[name].become(name)
    routers[name].set_error(router_error)
    status, kind, retried_elsewhere = EXPECTED_RESPONSES[router_error.error_class]
    alone = await send_chat(client, name)
    error = alone.json()["error"]
    # 408 means that the request waited too long in a queue, which callers get as an overload.
    assert (alone.status_code, error["type"]) == (status or (503 if router_error.status == 408 else router_error.status), kind)
    assert alone.headers.get("retry-after") == router_error.headers.get("retry-after")
    assert (router_error.body if isinstance(router_error.body, str) else message_of(router_error.body)) in error["message"]
    with_another = await send_chat(client, f"{name}-pair")
    assert with_another.status_code == (200 if retried_elsewhere else alone.status_code)


def message_of(body: dict[str, Any]) -> str:
    error = body["error"]
    return error if isinstance(error, str) else error["message"]


@pytest.mark.parametrize("name", ROUTERS)
async def test_regex_is_enforced_if_the_vllm_version_is_known_and_validated_otherwise(
    client: httpx2.AsyncClient, routers: dict[str, ScriptedRouter], name: str
):
    router = routers[name]
    known = router.become(name).reports_vllm_version
    router.set_text("aaa")
    await wait_until(lambda: any(request.path == "/v1/models" for request in router.server.get_requests))
    constraint = {"guided_regex": "a+"}

    async def is_reported() -> bool:
        answer = await send_chat(client, name, **constraint)
        assert answer.status_code == 200
        return answer.headers["x-narthex-guided"] == ("enforced" if known else "validated")

    await wait_until(is_reported)
    assert router.server.requests[-1].body["structured_outputs"] == {"regex": "a+"}
    if not known:
        router.set_text("bbb")
        assert (await send_chat(client, name, **constraint)).status_code == 502
    with_version = await send_chat(client, f"{name}-versioned", **constraint)
    assert with_version.headers["x-narthex-guided"] == "enforced"
    # Every version of vLLM obeys a schema.
    schema = {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "integer"}}}
    assert (await send_chat(client, name, response_format=schema)).headers["x-narthex-guided"] == "enforced"


async def test_strict_tool_is_checked_until_the_vllm_version_is_configured(client: httpx2.AsyncClient, routers: dict[str, ScriptedRouter]):
    routers["smg"].become("smg")
    tools = [{"type": "function", "function": {"name": "book", "strict": True, "parameters": {"type": "object"}}}]
    response = await send_chat(client, "smg", tools=tools)
    assert (response.status_code, response.headers["x-narthex-emulated"]) == (200, "tools[0].function.strict")
    response = await send_chat(client, "smg-versioned", tools=tools)
    assert response.status_code == 200 and "x-narthex-emulated" not in response.headers
    assert [request.body["tools"] for request in routers["smg"].server.requests] == [tools, tools]
