"""The access log, as an operator reads it: one line a request, without secrets and what was written."""

import json
from collections.abc import AsyncGenerator, Generator
from typing import Any

import pytest

from tests.support import service as services
from tests.support.scripted_engine import HELLO, ReceivedRequest, ScriptedEngine, stream_script
from tests.support.service import Service
from tests.support.wait_until import wait_until

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
CHAT: dict[str, Any] = {"model": "scripted", "messages": [{"role": "user", "content": "a secret prompt"}]}


@pytest.fixture(scope="module")
def logging_service() -> Generator[Service]:
    running = services.start(access_log="stdout", workers=1)
    yield running
    services.stop(running)


@pytest.fixture(scope="module")
async def own_engine(logging_service: Service) -> AsyncGenerator[ScriptedEngine]:
    engine = ScriptedEngine()
    await engine.start()
    logging_service.apply(f"""
        [providers]
        first = {{ adapter = "openai", base_url = "http://127.0.0.1:{engine.port}" }}
        [models]
        scripted = {{ targets = [{{ provider = "first", model = "engine-model" }}] }}
    """)
    yield engine
    await engine.stop()


async def lines_of(service: Service, request_id: str, count: int = 1) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []

    async def are_written() -> bool:
        nonlocal found
        text = "".join(log.read_text() for log in (service.home / "logs").glob("gateway-*.log"))
        lines = [json.loads(line) for line in text.splitlines() if '"from":"access"' in line]
        found = [line for line in lines if line["request_id"] == request_id]
        return len(found) >= count

    await wait_until(are_written, 20)
    return found


@pytest.mark.parametrize("stream", [False, True])
async def test_inference_has_one_line(logging_service: Service, own_engine: ScriptedEngine, stream: bool):
    own_engine.script = stream_script(*HELLO) if stream else ReceivedRequest.respond_completion
    headers = {"x-request-id": f"line-{stream}", "traceparent": f"00-{TRACE}-00f067aa0ba902b7-00"}
    async with logging_service.client() as client:
        answer = await client.post("/v1/chat/completions?of=a-secret", json={**CHAT, "stream": stream}, headers=headers)
    (line,) = await lines_of(logging_service, f"line-{stream}")
    assert line.pop("at").endswith("Z") and line.pop("duration_ms") > 0
    assert line == {
        "method": "POST",
        "path": "/v1/chat/completions",
        "status": 200,
        "team": "default",
        "key": logging_service.key[:15],
        "model": "scripted",
        "inference": answer.headers["x-narthex-inference-id"],
        "request_id": f"line-{stream}",
        "trace_id": TRACE,
        "level": "info",
        "from": "access",
        "message": "request",
    }


async def test_refusals_and_other_routes_have_a_line_without_secrets(logging_service: Service, own_engine: ScriptedEngine):
    key, wrong = logging_service.key, "nx-0123456789ab-" + "x" * 43
    async with logging_service.keyless_client() as client:
        for id, method, path, headers in (
            ("refused-1", "POST", "/v1/chat/completions", {"authorization": f"Bearer {wrong}"}),
            ("refused-2", "GET", "/v1/chat/completions", {"authorization": f"Bearer {key}"}),
            ("other-1", "GET", "/v1/models?of=a-secret", {"authorization": f"Bearer {key}"}),
            ("other-2", "GET", f"/{wrong}", {}),
        ):
            await client.request(method, path, headers={**headers, "x-request-id": id}, json=CHAT if method == "POST" else None)
    (refused,) = await lines_of(logging_service, "refused-1")
    assert (refused["status"], refused["team"], refused["key"], refused["model"]) == (401, None, None, None)
    assert [(line["status"], line["method"]) for line in await lines_of(logging_service, "refused-2")] == [(405, "GET")]
    (models,) = await lines_of(logging_service, "other-1")
    assert (models["status"], models["path"], models["team"], models["key"]) == (200, "/v1/models", "default", key[:15])
    assert (await lines_of(logging_service, "other-2"))[0]["status"] == 404
    text = "".join(log.read_text() for log in (logging_service.home / "logs").glob("gateway-*.log"))
    assert wrong not in text and key not in text and "a-secret" not in text and "a secret prompt" not in text
