"""The access log, as an operator reads it: one line a request, without secrets and what was written."""

import json
from typing import Any

import pytest

from tests.support.processes.service import Service
from tests.support.processes.wait_until import wait_until
from tests.support.scripted_engine import HELLO, ReceivedRequest, ScriptedEngine, stream_script

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
CHAT: dict[str, Any] = {"model": "scripted", "messages": [{"role": "user", "content": "a secret prompt"}]}


def read_logs(service: Service) -> str:
    return "".join(log.read_text() for log in (service.home / "logs").glob("gateway-*.log"))


async def lines_of(service: Service, request_id: str, count: int = 1) -> list[dict[str, Any]]:
    """The lines of a request, in the logs that all tests of this service write to."""
    found: list[dict[str, Any]] = []

    async def are_written() -> bool:
        nonlocal found
        lines = [line for line in read_logs(service).splitlines() if f'"{request_id}"' in line]
        found = [line for line in map(json.loads, lines) if line.get("from") == "access"]
        return len(found) >= count

    await wait_until(are_written, 20)
    return found


@pytest.mark.parametrize("stream", [False, True])
async def test_inference_has_one_line(service: Service, engine: ScriptedEngine, stream: bool):
    engine.script = stream_script(*HELLO) if stream else ReceivedRequest.respond_completion
    headers = {"x-request-id": f"line-{stream}", "traceparent": f"00-{TRACE}-00f067aa0ba902b7-00"}
    async with service.client() as client:
        answer = await client.post("/v1/chat/completions?of=a-secret", json={**CHAT, "stream": stream}, headers=headers)
    (line,) = await lines_of(service, f"line-{stream}")
    assert line.pop("at").endswith("Z") and line.pop("duration_ms") > 0
    assert line == {
        "method": "POST",
        "path": "/v1/chat/completions",
        "status": 200,
        "team": "default",
        "key": service.key[:15],
        "model": "scripted",
        "inference": answer.headers["x-narthex-inference-id"],
        "request_id": f"line-{stream}",
        "trace_id": TRACE,
        "level": "info",
        "from": "access",
        "message": "request",
    }


async def test_refusals_and_other_routes_have_a_line_without_secrets(service: Service, engine: ScriptedEngine):
    key, wrong = service.key, "nx-0123456789ab-" + "x" * 43
    async with service.keyless_client() as client:
        for id, method, path, headers in (
            ("refused-1", "POST", "/v1/chat/completions", {"authorization": f"Bearer {wrong}"}),
            ("refused-2", "GET", "/v1/chat/completions", {"authorization": f"Bearer {key}"}),
            ("other-1", "GET", "/v1/models?of=a-secret", {"authorization": f"Bearer {key}"}),
            ("other-2", "GET", f"/{wrong}", {}),
        ):
            await client.request(method, path, headers={**headers, "x-request-id": id}, json=CHAT if method == "POST" else None)
    (refused,) = await lines_of(service, "refused-1")
    assert (refused["status"], refused["team"], refused["key"], refused["model"]) == (401, None, None, None)
    assert [(line["status"], line["method"]) for line in await lines_of(service, "refused-2")] == [(405, "GET")]
    (models,) = await lines_of(service, "other-1")
    assert (models["status"], models["path"], models["team"], models["key"]) == (200, "/v1/models", "default", key[:15])
    assert (await lines_of(service, "other-2"))[0]["status"] == 404
    text = read_logs(service)
    assert wrong not in text and key not in text and "a-secret" not in text and "a secret prompt" not in text
