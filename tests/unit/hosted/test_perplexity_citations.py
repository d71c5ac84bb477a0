"""Citations: what a host found on the web is cited to callers of every dialect, and fields that only look alike are left unchanged."""

import json
from typing import Any

import pytest

from providers.canonical.chat import Text
from providers.canonical.events import assemble_response
from providers.dialects.openai_chat import OpenAIChat
from tests.conformance.situations import ANTHROPIC, CHAT, RESPONSES
from tests.conformance.translation import CALLERS, translate_response
from tests.support.strategies.chat_strategies import META

SEARCH_RESULTS = [
    {"url": "https://a.test/1", "title": "One", "snippet": "first"},
    {"url": "https://a.test/2", "title": "Two", "date": None},
]
URLS = tuple(each["url"] for each in SEARCH_RESULTS)
USAGE = {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}
SOURCE_FIELDS: dict[str, Any] = {"search_results": SEARCH_RESULTS, "citations": list(URLS), "usage": USAGE}


def response_body(**extra_fields: Any) -> bytes:
    message = {"role": "assistant", "content": "It is so.[2]"}
    choice = {"index": 0, "message": message, "delta": {"role": "assistant", "content": ""}, "finish_reason": "stop"}
    return json.dumps({"object": "chat.completion", "choices": [choice], **extra_fields}).encode()


def response_stream(**extra_fields: Any) -> bytes:
    frames: list[bytes] = []
    for piece, finish_reason in (("It is ", None), ("so.[2]", None), ("", "stop")):
        delta = {"role": "assistant", "content": piece}
        choice = {"index": 0, "delta": delta, "message": {**delta, "content": "whatever"}, "finish_reason": finish_reason}
        kind = "chat.completion.done" if finish_reason else "chat.completion.chunk"
        frames.append(b"data: " + json.dumps({"object": kind, "choices": [choice], **extra_fields}).encode() + b"\n\n")
    return b"".join(frames)


@pytest.mark.parametrize(
    "extra_fields", [SOURCE_FIELDS, {"citations": list(URLS)}, {"search_results": SEARCH_RESULTS}], ids=["both", "addresses", "results"]
)
@pytest.mark.parametrize("caller", [CHAT, RESPONSES, ANTHROPIC])
@pytest.mark.parametrize("arrives", ["streamed", "whole"])
@pytest.mark.parametrize("streamed", [True, False])
def test_search_results_are_cited_to_every_caller(extra_fields: dict[str, Any], caller: str, arrives: str, streamed: bool):
    response = response_stream(**extra_fields) if arrives == "streamed" else response_body(**extra_fields)
    sdk = CALLERS[caller]
    received = sdk.summarize(
        sdk.parse(translate_response(response, CHAT, caller, arrives_streamed=arrives == "streamed", streamed=streamed), streamed=streamed)
    )
    assert received.cited_urls == URLS and received.parts == (("text", "It is so.[2]"),)


def test_streamed_response_is_cited_like_a_whole_one():
    reader = OpenAIChat().stream_reader()
    (text,) = assemble_response([*reader.feed(response_stream(**SOURCE_FIELDS)), *reader.finish()]).choices[0].parts
    assert (text,) == OpenAIChat().read_response(response_body(**SOURCE_FIELDS)).choices[0].parts
    assert isinstance(text, Text) and [each.quote for each in text.citations] == ["first", None]


@pytest.mark.parametrize(
    "extra_fields", [{"citations": ["one", "two"]}, {"citations": {}}, {"search_results": [1]}, {"citations": [{"url": "x"}]}]
)
def test_unrelated_citations_and_search_results_are_left_unchanged(extra_fields: dict[str, Any]):
    edited = json.loads(OpenAIChat().edit_response(response_body(**extra_fields), META).raw)
    assert edited["choices"] == json.loads(response_body())["choices"] and extra_fields.items() <= edited.items()
    assert OpenAIChat().read_response(response_body(**extra_fields)).choices[0].parts == (Text("It is so.[2]"),)


def test_response_with_annotations_is_not_cited_again():
    response = json.loads(response_body(**SOURCE_FIELDS))
    annotation = {"type": "url_citation", "url_citation": {"url": "https://b.test", "title": "b", "start_index": 0, "end_index": 2}}
    response["choices"][0]["message"]["annotations"] = [annotation]
    raw = json.dumps(response).encode()
    assert json.loads(OpenAIChat().edit_response(raw, META).raw)["choices"] == response["choices"]
    (text,) = OpenAIChat().read_response(raw).choices[0].parts
    assert isinstance(text, Text) and [each.url for each in text.citations] == ["https://b.test"]
