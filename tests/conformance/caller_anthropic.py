"""A caller of Anthropic Messages with the official SDK, which also checks the stream against the API's contract."""

import json
from typing import Any, ClassVar

import anthropic
import httpx2
from anthropic.types import Message, RawMessageStreamEvent
from pydantic import TypeAdapter

from tests.conformance.sdk_responses import (
    ESTIMATED_INPUT,
    ESTIMATED_USAGE,
    FixedStreamTransport,
    SdkPart,
    SdkResponse,
    dump_for_next_request,
    event_names,
    event_payloads,
    merge_adjacent,
)
from tests.conformance.situations import ANTHROPIC

_HELLO: Any = [{"role": "user", "content": "Hello"}]
_EVENTS = TypeAdapter[Any](RawMessageStreamEvent)


class AnthropicCaller:
    name = ANTHROPIC
    request_body: ClassVar[dict[str, Any]] = {"model": "a name", "max_tokens": 500, "messages": _HELLO}

    def __init__(self) -> None:
        self._transport = FixedStreamTransport()
        client = httpx2.Client(transport=self._transport)
        self._sdk = anthropic.Anthropic(api_key="key", base_url="http://narthex", http_client=client, max_retries=0)

    def parse(self, body: bytes, *, streamed: bool) -> Message:
        if not streamed:
            return Message.model_validate_json(body)
        self._transport.set_stream(body)
        _assert_stream_contract(body)
        with self._sdk.messages.stream(model="a name", max_tokens=500, messages=_HELLO) as stream:
            return Message.model_validate(stream.get_final_message().model_dump(mode="json", exclude_unset=True))

    def summarize(self, response: Message) -> SdkResponse:
        parts: list[SdkPart] = []
        urls: list[str] = []
        for block in response.content:
            match block.type:
                case "text":
                    parts.append(("text", block.text))
                    urls += [url for each in block.citations or () if (url := getattr(each, "url", None))]
                case "thinking":
                    parts.append(("reasoning", block.thinking))
                case "tool_use":
                    parts.append(("call", block.id, block.name, json.dumps(block.input)))
                case "redacted_thinking" | "server_tool_use" | "web_search_tool_result":
                    pass
                case _:
                    raise AssertionError(f"unexpected block: {block.type}")
        usage = response.usage
        cached, cache_written = usage.cache_read_input_tokens or 0, usage.cache_creation_input_tokens or 0
        reasoning = usage.output_tokens_details.thinking_tokens if usage.output_tokens_details else 0
        return SdkResponse(
            parts=merge_adjacent(parts),
            finish=response.stop_reason or "",
            stop_sequence=response.stop_sequence,
            usage=ESTIMATED_USAGE
            if usage.input_tokens == ESTIMATED_INPUT
            else (usage.input_tokens + cached + cache_written, usage.output_tokens, cached, reasoning, cache_written),
            cited_urls=tuple(urls),
        )

    def next_request_body(self, response: Message) -> dict[str, Any]:
        """The body of the same caller's next request: the content unchanged, each call with a result."""
        results = [
            {"type": "tool_result", "tool_use_id": each.id, "content": "done"} for each in response.content if each.type == "tool_use"
        ]
        assistant = {"role": "assistant", "content": [dump_for_next_request(block) for block in response.content]}
        return {**self.request_body, "messages": [*_HELLO, assistant, {"role": "user", "content": results or "Go on."}]}


def _assert_stream_contract(body: bytes) -> None:
    """Asserts the order of events, with pings anywhere.

    It is message_start, blocks one after the other, each started and stopped, message_delta, message_stop.
    """
    events = [_EVENTS.validate_python(each).model_dump(mode="json") and each for each in event_payloads(body) if each["type"] != "ping"]
    assert event_names(body) == [each["type"] for each in event_payloads(body)]
    assert events[0]["type"] == "message_start" and events[0]["message"]["content"] == []
    assert [each["type"] for each in events[-2:]] == ["message_delta", "message_stop"]
    blocks_started, is_open = 0, False
    for event in events[1:-2]:
        match event["type"]:
            case "content_block_start":
                assert not is_open and event["index"] == blocks_started
                blocks_started, is_open = blocks_started + 1, True
            case "content_block_delta":
                assert is_open and event["index"] == blocks_started - 1
            case "content_block_stop":
                assert is_open and event["index"] == blocks_started - 1
                is_open = False
            case other:
                raise AssertionError(f"{other} among the blocks")
    assert not is_open
