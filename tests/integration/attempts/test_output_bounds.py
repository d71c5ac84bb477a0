"""Bounds on output tokens through the whole service: what is reserved is what the engine may write."""

from typing import Any

import httpx2
import pytest

HELLO: Any = {"model": "sandbox", "messages": [{"role": "user", "content": "Tell me a long story."}]}


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/completions", {"model": "sandbox", "prompt": "Once upon a time", "max_completion_tokens": 3}),
        ("/v1/completions", {"model": "sandbox", "prompt": "Once upon a time", "max_tokens": 90, "max_new_tokens": 3}),
        ("/v1/chat/completions", {**HELLO, "max_tokens": 90, "n_predict": 3}),
        ("/v1/chat/completions", {**HELLO, "options": {"num_predict": 3}}),
        ("/v1/responses", {"model": "sandbox", "input": "Tell me a long story.", "max_output_tokens": 90, "max_tokens": 3}),
        ("/v1/messages", {**HELLO, "max_tokens": 90, "generation_config": '{"max_new_tokens": 3}'}),
    ],
)
async def test_engine_stops_at_the_smallest_bound(client: httpx2.AsyncClient, path: str, body: Any):
    answer = await client.post(path, json=body)
    usage = answer.json()["usage"]
    assert (answer.status_code, usage.get("completion_tokens", usage.get("output_tokens"))) == (200, 3)


async def test_bound_in_a_string_that_only_python_reads_is_refused(client: httpx2.AsyncClient):
    config = '{"max_new_tokens": 100000, "temperature": NaN}'
    answer = await client.post("/v1/chat/completions", json={**HELLO, "generation_config": config})
    error = answer.json()["error"]
    assert (answer.status_code, error["param"]) == (400, "generation_config") and "cannot be read" in error["message"]


async def test_limits_reserve_the_smallest_bound(client: httpx2.AsyncClient):
    async def preview(**bounds: Any) -> dict[str, Any]:
        return (await client.post("/v1/limits/preview", json={**HELLO, **bounds})).json()["reserves"]

    assert (await preview(max_tokens=5000, n_predict=7))["output_tokens"] == 7
    assert (await preview(max_tokens=7, n_predict=5000))["output_tokens"] == 7
