"""Chat requests to an engine directly, without the gateway."""

import json
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import httpx2

from tests.engines.vllm.running_vllm import Engine


def post_chat(engine: Engine, *, timeout_s: float = 120, **fields: Any) -> httpx2.Response:
    """The response to a short chat with these fields added; 16 tokens by default."""
    return httpx2.post(_url(engine), json=_request_body(engine, fields), timeout=timeout_s)


def chat_choice(engine: Engine, **fields: Any) -> Any:
    """The only choice of an unstreamed response, which must be a 200."""
    response = post_chat(engine, **fields)
    assert response.status_code == 200, response.text
    [choice] = response.json()["choices"]
    return choice


def stream_chunks(engine: Engine, **fields: Any) -> list[Any]:
    """Every decoded chunk of a streamed response; the final [DONE] is required and left out."""
    response = post_chat(engine, stream=True, **fields)
    assert response.status_code == 200, response.text
    *data, done = [line.removeprefix("data: ") for line in response.text.split("\n\n") if line]
    assert done == "[DONE]"
    return [json.loads(each) for each in data]


@contextmanager
def open_stream(engine: Engine, **fields: Any) -> Generator[httpx2.Response]:
    """A streamed response in progress; leaving the block disconnects."""
    with httpx2.stream("POST", _url(engine), json=_request_body(engine, fields | {"stream": True}), timeout=120) as response:
        yield response


def _url(engine: Engine) -> str:
    return f"{engine.base_url}/v1/chat/completions"


def _request_body(engine: Engine, fields: dict[str, Any]) -> dict[str, Any]:
    return {"model": engine.model, "messages": [{"role": "user", "content": "hi"}], "max_tokens": 16, "seed": 1} | fields
