"""A caller of OpenAI Responses with the official SDK, which also checks the stream against the API's contract."""

from typing import Any, ClassVar, get_args

import httpx2
import openai
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import BaseModel

from tests.conformance.sdk_responses import (
    ESTIMATED_USAGE,
    FixedStreamTransport,
    SdkPart,
    SdkResponse,
    dump_for_next_request,
    event_names,
    event_payloads,
    merge_adjacent,
)
from tests.conformance.situations import RESPONSES

_HELLO: Any = [{"role": "user", "content": "Hello"}]
_EVENTS: dict[str, type[BaseModel]] = {
    get_args(each.model_fields["type"].annotation)[0]: each for each in get_args(get_args(ResponseStreamEvent)[0])
}
_INCLUDE: Any = ["message.output_text.logprobs", "reasoning.encrypted_content"]


class ResponsesCaller:
    name = RESPONSES
    request_body: ClassVar[dict[str, Any]] = {"model": "a name", "input": "Hello", "include": _INCLUDE, "store": False}

    def __init__(self) -> None:
        self._transport = FixedStreamTransport()
        client = httpx2.Client(transport=self._transport)
        self._sdk = openai.OpenAI(api_key="key", base_url="http://narthex/v1", http_client=client, max_retries=0)

    def parse(self, body: bytes, *, streamed: bool) -> Response:
        if not streamed:
            return Response.model_validate_json(body)
        self._transport.set_stream(body)
        _assert_stream_contract(body)
        with self._sdk.responses.stream(model="a name", input="Hello") as stream:
            last: Any = list(stream)[-1]
        assert last.type in ("response.completed", "response.incomplete")
        return Response.model_validate(last.response.model_dump(mode="json", exclude_unset=True, by_alias=True))

    def summarize(self, response: Response) -> SdkResponse:
        parts: list[SdkPart] = []
        urls: list[str] = []
        tokens: list[str] = []
        for item in response.output:
            match item.type:
                case "message":
                    for part in item.content:
                        if part.type == "refusal":
                            parts.append(("refusal", part.refusal))
                            continue
                        parts.append(("text", part.text))
                        urls += [each.url for each in part.annotations if each.type == "url_citation"]
                        tokens += [each.token for each in part.logprobs or ()]
                case "reasoning":
                    parts += [("reasoning", each.text) for each in item.content or item.summary]
                case "function_call":
                    parts.append(("call", item.call_id, item.name, item.arguments))
                case "custom_tool_call":
                    parts.append(("custom", item.call_id, item.name, item.input))
                case "web_search_call":
                    pass
                case _:
                    raise AssertionError(f"unexpected item: {item.type}")
        usage = response.usage
        details = response.incomplete_details
        return SdkResponse(
            parts=merge_adjacent(parts),
            finish=(response.status or "") + (f": {details.reason}" if details is not None else ""),
            usage=None
            if usage is None
            else ESTIMATED_USAGE
            if getattr(usage, "estimated", False)
            else (
                usage.input_tokens,
                usage.output_tokens,
                usage.input_tokens_details.cached_tokens,
                usage.output_tokens_details.reasoning_tokens,
                usage.input_tokens_details.cache_write_tokens,
            ),
            cited_urls=tuple(urls),
            logprob_tokens=tuple(tokens),
        )

    def next_request_body(self, response: Response) -> dict[str, Any]:
        """The body of the same caller's next request: the output items unchanged, each call with a result."""
        kinds = {"function_call": "function_call_output", "custom_tool_call": "custom_tool_call_output"}
        results = [
            {"type": kinds[item.type], "call_id": item.call_id, "output": "done"}
            for item in response.output
            if item.type == "function_call" or item.type == "custom_tool_call"
        ]
        output_items = [dump_for_next_request(item) for item in response.output]
        return {**self.request_body, "input": [*_HELLO, *output_items, *(results or [{"role": "user", "content": "Go on."}])]}


def _assert_stream_contract(body: bytes) -> None:
    """Asserts that the events keep the contract of the API.

    They are numbered from 0 without gaps: created, in_progress, items, an end. Deltas add up to the done events and to the final response.
    """
    events = event_payloads(body)
    assert [each["sequence_number"] for each in events] == list(range(len(events)))
    assert event_names(body) == [each["type"] for each in events]
    for event in events:
        _EVENTS[event["type"]].model_validate(event)
    assert [each["type"] for each in events[:2]] == ["response.created", "response.in_progress"]
    assert events[-1]["type"] in ("response.completed", "response.incomplete")
    items: dict[int, dict[str, Any]] = {}
    done: dict[int, dict[str, Any]] = {}
    texts: dict[tuple[Any, ...], str] = {}
    for event in events[2:-1]:
        kind, index = event["type"].removeprefix("response."), event["output_index"]
        if kind == "output_item.added":
            assert index == len(items)
            items[index] = event["item"]
            continue
        assert index in items and index not in done, event
        if kind == "output_item.done":
            assert event["item"]["id"] == items[index]["id"]
            done[index] = event["item"]
            continue
        assert event["item_id"] == items[index]["id"]
        text_key = (index, event.get("content_index"), event.get("summary_index"), kind.rpartition(".")[0])
        if kind.endswith(".delta"):
            texts[text_key] = texts.get(text_key, "") + event["delta"]
        elif kind.endswith(("text.done", "arguments.done", "input.done", "refusal.done")):
            final_text = next(event[key] for key in ("text", "arguments", "input", "refusal") if key in event)
            assert texts.get(text_key, "") == final_text, event
    assert [done[at] for at in sorted(items)] == events[-1]["response"]["output"]
