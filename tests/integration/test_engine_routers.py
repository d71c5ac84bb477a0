"""vLLM behind the routers that companies put before it: what their errors mean, and no more of vLLM believed than they tell."""

import asyncio
import time
from collections.abc import AsyncGenerator
from typing import Any

import httpx
import pytest

from tests.support.engines.routers import ROUTERS, RouterError, ScriptedRouter
from tests.support.scripted_engine import ScriptedEngine
from tests.support.service import Service

CHAT = "/v1/chat/completions"
HI: Any = [{"role": "user", "content": "Hello!"}]
# A router that has been overloaded rests for a while, in which another target is asked first: so what is nobody else's to mend comes first.
ERRORS = [
    pytest.param(name, said, id=f"{name}: {what}")
    for name, router in ROUTERS.items()
    for what, said in sorted(router.errors.items(), key=lambda each: each[1].error_class == "Overloaded")
]


@pytest.fixture(scope="module")
async def routers(service: Service) -> AsyncGenerator[dict[str, ScriptedRouter]]:
    """One for each of ROUTERS, each a model of its name; NAME-pair has another target after it, NAME-told a version in its options."""
    running = {name: ScriptedRouter() for name in ROUTERS}
    spare = ScriptedEngine()
    await spare.start()
    lines = [f'[providers.spare]\nadapter = "openai"\nbase_url = "http://127.0.0.1:{spare.port}"']
    for name, router in running.items():
        router.become(name)
        await router.server.start()
        address = f'adapter = "vllm"\nbase_url = "http://127.0.0.1:{router.server.port}"'
        lines += [f'[providers."{name}"]\n{address}', f'[providers."{name}-told"]\n{address}\noptions = {{ version = "0.33.0" }}']
        first = f'{{ provider = "{name}", model = "engine-model" }}'
        lines += [
            f'[models."{name}"]\ntargets = [{first}]',
            f'[models."{name}-told"]\ntargets = [{{ provider = "{name}-told", model = "engine-model" }}]',
            f'[models."{name}-pair"]\ntargets = [{first}, {{ provider = "spare", model = "engine-model" }}]',
        ]
    service.apply("\n".join(lines))
    yield running
    for server in (spare, *(router.server for router in running.values())):
        await server.stop()


async def send_chat(client: httpx.AsyncClient, model: str, **fields: Any) -> httpx.Response:
    return await client.post(CHAT, json={"model": model, "messages": HI, **fields})


# Of ours: the status and the type that a caller is told, and whether another target is tried.
EXPECTED_RESPONSES: dict[str, tuple[int | None, str, bool]] = {
    "Overloaded": (None, "rate_limit_exceeded", True),
    "UpstreamNotFound": (None, "not_found_error", True),
    "UpstreamRejected": (None, "invalid_request_error", False),
    "UpstreamFailed": (502, "backend_error", True),
    "CredentialRefused": (502, "backend_error", True),
}


@pytest.mark.parametrize(("name", "said"), ERRORS)
async def test_router_error_is_classified_and_falls_back_only_where_useful(
    client: httpx.AsyncClient, routers: dict[str, ScriptedRouter], name: str, said: RouterError
):
    routers[name].become(name)
    routers[name].set_error(said)
    status, kind, elsewhere = EXPECTED_RESPONSES[said.error_class]
    alone = await send_chat(client, name)
    error = alone.json()["error"]
    # A 408 says that the request has waited too long in a queue: to callers that is an overload.
    assert (alone.status_code, error["type"]) == (status or (503 if said.status == 408 else said.status), kind)
    assert alone.headers.get("retry-after") == said.headers.get("retry-after")
    assert (said.body if isinstance(said.body, str) else message_of(said.body)) in error["message"]
    with_another = await send_chat(client, f"{name}-pair")
    assert with_another.status_code == (200 if elsewhere else alone.status_code)


def message_of(body: dict[str, Any]) -> str:
    error = body["error"]
    return error if isinstance(error, str) else error["message"]


async def wait_until_probed(router: ScriptedRouter, path: str) -> None:
    """Until it was asked what it is."""
    deadline = time.monotonic() + 10
    while not any(request.path == path for request in router.server.get_requests):
        assert time.monotonic() < deadline
        await asyncio.sleep(0.02)


@pytest.mark.parametrize("name", ROUTERS)
async def test_regex_is_enforced_if_the_vllm_version_is_known_and_validated_otherwise(
    client: httpx.AsyncClient, routers: dict[str, ScriptedRouter], name: str
):
    router = routers[name]
    known = router.become(name).reports_vllm_version
    router.set_text("aaa")
    await wait_until_probed(router, "/v1/models")
    constraint = {"guided_regex": "a+"}
    deadline = time.monotonic() + 10
    while (answer := await send_chat(client, name, **constraint)).headers["x-narthex-guided"] != ("enforced" if known else "validated"):
        assert time.monotonic() < deadline
        await asyncio.sleep(0.05)
    assert answer.status_code == 200
    assert router.server.requests[-1].body["structured_outputs"] == {"regex": "a+"}
    if not known:
        router.set_text("bbb")
        assert (await send_chat(client, name, **constraint)).status_code == 502
    with_version = await send_chat(client, f"{name}-told", **constraint)
    assert with_version.headers["x-narthex-guided"] == "enforced"
    # What every vLLM obeys is promised of any.
    schema = {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "integer"}}}
    assert (await send_chat(client, name, response_format=schema)).headers["x-narthex-guided"] == "enforced"


async def test_strict_tool_is_refused_until_the_vllm_version_is_configured(client: httpx.AsyncClient, routers: dict[str, ScriptedRouter]):
    routers["smg"].become("smg")
    tools = [{"type": "function", "function": {"name": "book", "strict": True, "parameters": {"type": "object"}}}]
    refused = await send_chat(client, "smg", tools=tools)
    assert refused.status_code == 422
    assert "option `version`" in refused.json()["error"]["message"]
    assert routers["smg"].server.requests == []
    assert (await send_chat(client, "smg-told", tools=tools)).status_code == 200
    assert routers["smg"].server.requests[0].body["tools"] == tools
