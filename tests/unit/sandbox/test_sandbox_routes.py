"""The sandbox's routes: a stream has the frames that its pace and its faults reckon with."""

from typing import Any

import msgspec
import pytest

from app.sandbox.protocol.request_schema import read_body
from app.sandbox.routes import ROUTES

CHAT: dict[str, Any] = {"messages": [{"role": "user", "content": "How is the weather?"}]}
WEATHER: dict[str, Any] = {"type": "function", "function": {"name": "get_weather"}}
PROMPTS: dict[str, Any] = {"prompt": ["one", "two"], "n": 2}


@pytest.mark.parametrize("includes_usage", [True, False])
@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/chat/completions", CHAT),
        ("/v1/chat/completions", {**CHAT, "n": 3, "sandbox": {"reasoning": True}}),
        ("/v1/chat/completions", {**CHAT, "tools": [WEATHER]}),
        ("/v1/chat/completions", {**CHAT, "sandbox": {"usage": False, "say": ""}}),
        ("/v1/completions", PROMPTS),
        ("/v1/completions", {**PROMPTS, "echo": True, "prompt": ["one", "", [1, 2]]}),
        ("/inference/v1/generate", {"token_ids": [72], "sampling_params": {"n": 2}}),
        ("/inference/v1/generate", {"token_ids": [72], "sampling_params": {}, "sandbox": {"say": ""}}),
    ],
    ids=lambda value: str(value)[:70],
)
async def test_stream_has_as_many_frames_as_it_says(path: str, body: dict[str, Any], includes_usage: bool) -> None:
    raw = msgspec.json.encode({"model": "sandbox", **body, "stream": True, "stream_options": {"include_usage": includes_usage}})
    route = ROUTES[path]
    response = await route.prepare(read_body(raw, route.body))()
    assert not isinstance(response.content, dict)
    assert response.frame_count == len(list(response.content))
