"""Laws of sources: what a host found on the web is cited to callers of every dialect, and what only looks like it is left alone."""

import json
from typing import Any

import pytest

from providers.canonical.chat import Text
from providers.canonical.events import assemble_response
from providers.dialects.openai_chat import OpenAIChat
from tests.conformance.crossing import CALLERS, crossed
from tests.conformance.situations import ANTHROPIC, CHAT, RESPONSES
from tests.laws.chats import STAMP

FOUND = [{"url": "https://a.test/1", "title": "One", "snippet": "first"}, {"url": "https://a.test/2", "title": "Two", "date": None}]
URLS = tuple(each["url"] for each in FOUND)
USAGE = {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}
BESIDE: dict[str, Any] = {"search_results": FOUND, "citations": list(URLS), "usage": USAGE}


def whole(**beside: Any) -> bytes:
    said = {"role": "assistant", "content": "It is so.[2]"}
    choice = {"index": 0, "message": said, "delta": {"role": "assistant", "content": ""}, "finish_reason": "stop"}
    return json.dumps({"object": "chat.completion", "choices": [choice], **beside}).encode()


def stream(**beside: Any) -> bytes:
    told: list[bytes] = []
    for piece, ended in (("It is ", None), ("so.[2]", None), ("", "stop")):
        said = {"role": "assistant", "content": piece}
        choice = {"index": 0, "delta": said, "message": {**said, "content": "whatever"}, "finish_reason": ended}
        kind = "chat.completion.done" if ended else "chat.completion.chunk"
        told.append(b"data: " + json.dumps({"object": kind, "choices": [choice], **beside}).encode() + b"\n\n")
    return b"".join(told)


@pytest.mark.parametrize("beside", [BESIDE, {"citations": list(URLS)}, {"search_results": FOUND}], ids=["both", "addresses", "results"])
@pytest.mark.parametrize("caller", [CHAT, RESPONSES, ANTHROPIC])
@pytest.mark.parametrize("arrives", ["streamed", "whole"])
@pytest.mark.parametrize("streamed", [True, False])
def test_sources_are_cited_to_every_caller(beside: dict[str, Any], caller: str, arrives: str, streamed: bool):
    answer = stream(**beside) if arrives == "streamed" else whole(**beside)
    sdk = CALLERS[caller]
    heard = sdk.hear(sdk.take(crossed(answer, CHAT, caller, arrives_streamed=arrives == "streamed", streamed=streamed), streamed=streamed))
    assert heard.urls == URLS and heard.parts == (("text", "It is so.[2]"),)


def test_a_stream_is_cited_as_a_whole_answer_is():
    reader = OpenAIChat().stream_reader()
    (text,) = assemble_response([*reader.feed(stream(**BESIDE)), *reader.finish()]).choices[0].parts
    assert (text,) == OpenAIChat().read_response(whole(**BESIDE)).choices[0].parts
    assert isinstance(text, Text) and [each.quote for each in text.citations] == ["first", None]


@pytest.mark.parametrize(
    "beside", [{"citations": ["one", "two"]}, {"citations": {}}, {"search_results": [1]}, {"citations": [{"url": "x"}]}]
)
def test_what_other_hosts_mean_by_these_names_is_left_alone(beside: dict[str, Any]):
    edited = json.loads(OpenAIChat().edit_response(whole(**beside), STAMP).raw)
    assert edited["choices"] == json.loads(whole())["choices"] and beside.items() <= edited.items()
    assert OpenAIChat().read_response(whole(**beside)).choices[0].parts == (Text("It is so.[2]"),)


def test_what_cites_already_is_not_cited_again():
    told = json.loads(whole(**BESIDE))
    annotation = {"type": "url_citation", "url_citation": {"url": "https://b.test", "title": "b", "start_index": 0, "end_index": 2}}
    told["choices"][0]["message"]["annotations"] = [annotation]
    raw = json.dumps(told).encode()
    assert json.loads(OpenAIChat().edit_response(raw, STAMP).raw)["choices"] == told["choices"]
    (text,) = OpenAIChat().read_response(raw).choices[0].parts
    assert isinstance(text, Text) and [each.url for each in text.citations] == ["https://b.test"]
