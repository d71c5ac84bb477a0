"""A caller of OpenAI chat with the official SDK, which also checks the stream against the API's contract."""

import json
from typing import Any, ClassVar

import httpx2
import openai
from openai.lib.streaming.chat import ChatCompletionStreamState
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.chat.chat_completion import Choice

from tests.conformance.sdk_responses import (
    ESTIMATED_USAGE,
    FixedStreamTransport,
    SdkPart,
    SdkResponse,
    dump_for_next_request,
    event_payloads,
    merge_adjacent,
)
from tests.conformance.situations import CHAT

_HELLO: Any = [{"role": "user", "content": "Hello"}]


class ChatCaller:
    name = CHAT
    request_body: ClassVar[dict[str, Any]] = {
        "model": "a name",
        "messages": _HELLO,
        "logprobs": True,
        "stream_options": {"include_usage": True},
    }

    def __init__(self) -> None:
        self._transport = FixedStreamTransport()
        client = httpx2.Client(transport=self._transport)
        self._sdk = openai.OpenAI(api_key="key", base_url="http://narthex/v1", http_client=client, max_retries=0)

    def parse(self, body: bytes, *, streamed: bool) -> ChatCompletion:
        if not streamed:
            return _valid(json.loads(body))
        self._transport.set_stream(body)
        chunks = list(self._sdk.chat.completions.create(model="a name", messages=_HELLO, stream=True))
        if any(isinstance(getattr(call, "custom", None), dict) for chunk in chunks for call in _calls(chunk)):
            return _assemble_custom_calls(chunks)
        _assert_stream_contract(body)
        state = ChatCompletionStreamState()
        usage = None
        for chunk in chunks:
            state.handle_chunk(ChatCompletionChunk.model_validate(chunk.model_dump(mode="json", exclude_unset=True)))
            usage = chunk.usage or usage
        # Not get_final_completion(), which raises for a truncated response.
        dumped = state.current_completion_snapshot.model_dump(mode="json", exclude_unset=True)
        return _valid({**dumped, "usage": None if usage is None else usage.model_dump(mode="json")})

    def summarize(self, response: ChatCompletion) -> SdkResponse:
        choice = response.choices[0]
        usage = response.usage
        cached = cache_written = reasoning = None
        if usage is not None and usage.prompt_tokens_details is not None:
            cached, cache_written = usage.prompt_tokens_details.cached_tokens, usage.prompt_tokens_details.cache_write_tokens
        if usage is not None and usage.completion_tokens_details is not None:
            reasoning = usage.completion_tokens_details.reasoning_tokens
        return SdkResponse(
            parts=merge_adjacent(_parts(choice)),
            finish=choice.finish_reason,
            usage=None
            if usage is None
            else ESTIMATED_USAGE
            if getattr(usage, "estimated", False)
            else (usage.prompt_tokens, usage.completion_tokens, cached or 0, reasoning or 0, cache_written or 0),
            cited_urls=tuple(each.url_citation.url for each in choice.message.annotations or ()),
            logprob_tokens=tuple(each.token for each in (choice.logprobs.content if choice.logprobs else None) or ()),
            other_choices=tuple(each.message.content or "" for each in response.choices[1:]),
        )

    def next_request_body(self, response: ChatCompletion) -> dict[str, Any]:
        """The body of the same caller's next request: the message appended unchanged, each call with a result."""
        message = response.choices[0].message
        results = [{"role": "tool", "tool_call_id": call.id, "content": "done"} for call in message.tool_calls or ()]
        assistant = {"role": "assistant", **dump_for_next_request(message)}
        return {"model": "a name", "messages": [*_HELLO, assistant, *(results or [{"role": "user", "content": "Go on."}])]}


def _parts(choice: Choice) -> list[SdkPart]:
    message = choice.message
    parts: list[SdkPart] = [("reasoning", getattr(message, "reasoning_content", None) or "")]
    parts += [("text", message.content or ""), ("refusal", message.refusal or "")]
    for call in message.tool_calls or ():
        if call.type == "custom":
            parts.append(("custom", call.id, call.custom.name, call.custom.input))
        else:
            parts.append(("call", call.id, call.function.name, call.function.arguments))
    return parts


def _calls(chunk: ChatCompletionChunk) -> list[Any]:
    return [call for choice in chunk.choices for call in choice.delta.tool_calls or ()]


def _assemble_custom_calls(chunks: list[ChatCompletionChunk]) -> ChatCompletion:
    """The SDK (3.52) does not assemble streamed calls of custom tools; its users do it as for functions."""
    calls: dict[int, dict[str, Any]] = {}
    for call in [call for chunk in chunks for call in _calls(chunk)]:
        assembled = calls.setdefault(call.index, {"id": call.id, "type": "custom", "custom": {"name": "", "input": ""}})
        for key, value in call.custom.items():
            assembled["custom"][key] += value
    (finish,) = [choice.finish_reason for chunk in chunks for choice in chunk.choices if choice.finish_reason]
    (usage,) = [chunk.usage for chunk in chunks if chunk.usage]
    message = {"role": "assistant", "content": None, "tool_calls": [calls[index] for index in sorted(calls)]}
    choice = {"index": 0, "message": message, "finish_reason": finish, "logprobs": None}
    head = {"id": chunks[0].id, "created": chunks[0].created, "model": chunks[0].model, "object": "chat.completion"}
    return _valid({**head, "choices": [choice], "usage": usage})


def _valid(response: dict[str, Any]) -> ChatCompletion:
    """Validates a response by the SDK's own types, which the SDK does not do by itself."""
    return ChatCompletion.model_validate(response)


def _assert_stream_contract(body: bytes) -> None:
    """Asserts that the chunks keep the contract of the API.

    They share one id, and [DONE] comes only at the end. Each choice finishes once, without content after that. Usage comes at most once,
    and calls are numbered in order.
    """
    chunks = event_payloads(body)
    assert body.endswith(b"data: [DONE]\n\n") and body.count(b"[DONE]") == 1
    assert len({chunk["id"] for chunk in chunks}) == 1
    assert len([chunk for chunk in chunks if chunk.get("usage")]) <= 1
    finished: set[int] = set()
    numbered: dict[int, int] = {}
    for choice in [choice for chunk in chunks for choice in chunk["choices"]]:
        delta = choice["delta"]
        assert choice["index"] not in finished or not any(delta.get(key) for key in ("content", "reasoning_content", "tool_calls")), chunks
        if choice.get("finish_reason"):
            assert choice["index"] not in finished
            finished.add(choice["index"])
        for call in delta.get("tool_calls") or ():
            new = call["index"] not in range(numbered.get(choice["index"], 0))
            if new:
                assert call["index"] == numbered.get(choice["index"], 0) and call["id"] and call["function"]["name"], call
                numbered[choice["index"]] = call["index"] + 1
    assert finished == {choice["index"] for chunk in chunks for choice in chunk["choices"]}
