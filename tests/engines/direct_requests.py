"""Asking an engine in its own words, with nothing between."""

import json
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import httpx

from tests.engines.running_vllm import Engine


def post_chat(engine: Engine, *, timeout_s: float = 120, **fields: Any) -> httpx.Response:
    """Its answer to a short chat with these fields added; 16 tokens unless they say otherwise."""
    return httpx.post(_url(engine), json=_request_body(engine, fields), timeout=timeout_s)


def chat_choice(engine: Engine, **fields: Any) -> Any:
    """The only choice of a whole answer, which must be a 200."""
    answer = post_chat(engine, **fields)
    assert answer.status_code == 200, answer.text
    [choice] = answer.json()["choices"]
    return choice


def stream_chunks(engine: Engine, **fields: Any) -> list[Any]:
    """Every frame of a streamed answer, decoded; the last one, [DONE], must be there and is left out."""
    answer = post_chat(engine, stream=True, **fields)
    assert answer.status_code == 200, answer.text
    *data, done = [line.removeprefix("data: ") for line in answer.text.split("\n\n") if line]
    assert done == "[DONE]"
    return [json.loads(each) for each in data]


@contextmanager
def open_stream(engine: Engine, **fields: Any) -> Generator[httpx.Response]:
    """A streamed answer that is still being written; leaving the block hangs up."""
    with httpx.stream("POST", _url(engine), json=_request_body(engine, fields | {"stream": True}), timeout=120) as answer:
        yield answer


def _url(engine: Engine) -> str:
    return f"{engine.base_url}/v1/chat/completions"


def _request_body(engine: Engine, fields: dict[str, Any]) -> dict[str, Any]:
    return {"model": engine.model, "messages": [{"role": "user", "content": "hi"}], "max_tokens": 16, "seed": 1} | fields
