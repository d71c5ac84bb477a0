"""A caller of Anthropic Messages: the official SDK, and what its API promises of a stream."""

import json
from typing import Any, ClassVar

import anthropic
import httpx2
from anthropic.types import Message, RawMessageStreamEvent
from pydantic import TypeAdapter

from tests.conformance.hearing import Heard, Recital, Spoken, datas, merged, names, sent_back
from tests.conformance.situations import ANTHROPIC

_HELLO: Any = [{"role": "user", "content": "Hello"}]
_EVENTS = TypeAdapter[Any](RawMessageStreamEvent)


class AnthropicCaller:
    name = ANTHROPIC
    ask: ClassVar[dict[str, Any]] = {"model": "a name", "max_tokens": 500, "messages": _HELLO}

    def __init__(self) -> None:
        self._recital = Recital()
        client = httpx2.Client(transport=self._recital)
        self._sdk = anthropic.Anthropic(api_key="key", base_url="http://narthex", http_client=client, max_retries=0)

    def take(self, body: bytes, *, streamed: bool) -> Message:
        if not streamed:
            return Message.model_validate_json(body)
        self._recital.say(body)
        _hold_to_promises(body)
        with self._sdk.messages.stream(model="a name", max_tokens=500, messages=_HELLO) as stream:
            return Message.model_validate(stream.get_final_message().model_dump(mode="json", exclude_unset=True))

    def hear(self, answer: Message) -> Heard:
        parts: list[Spoken] = []
        urls: list[str] = []
        for block in answer.content:
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
                    raise AssertionError(f"nobody said a {block.type}")
        usage = answer.usage
        cached, written = usage.cache_read_input_tokens or 0, usage.cache_creation_input_tokens or 0
        thought = usage.output_tokens_details.thinking_tokens if usage.output_tokens_details else 0
        return Heard(
            parts=merged(parts),
            finish=answer.stop_reason or "",
            stop_sequence=answer.stop_sequence,
            usage=(usage.input_tokens + cached + written, usage.output_tokens, cached, thought, written),
            urls=tuple(urls),
        )

    def next_ask(self, answer: Message) -> dict[str, Any]:
        """What the same caller asks next: the content as it is, each call with a result."""
        results = [{"type": "tool_result", "tool_use_id": each.id, "content": "done"} for each in answer.content if each.type == "tool_use"]
        said = {"role": "assistant", "content": [sent_back(block) for block in answer.content]}
        return {**self.ask, "messages": [*_HELLO, said, {"role": "user", "content": results or "Go on."}]}


def _hold_to_promises(body: bytes) -> None:
    """message_start, blocks one after the other, each begun and ended, message_delta, message_stop; pings anywhere."""
    events = [_EVENTS.validate_python(each).model_dump(mode="json") and each for each in datas(body) if each["type"] != "ping"]
    assert names(body) == [each["type"] for each in datas(body)]
    assert events[0]["type"] == "message_start" and events[0]["message"]["content"] == []
    assert [each["type"] for each in events[-2:]] == ["message_delta", "message_stop"]
    begun, is_open = 0, False
    for event in events[1:-2]:
        match event["type"]:
            case "content_block_start":
                assert not is_open and event["index"] == begun
                begun, is_open = begun + 1, True
            case "content_block_delta":
                assert is_open and event["index"] == begun - 1
            case "content_block_stop":
                assert is_open and event["index"] == begun - 1
                is_open = False
            case other:
                raise AssertionError(f"{other} among the blocks")
    assert not is_open
