"""Real recordings of hosts that speak OpenAI chat, each played whole: its request, and its answer, stream or error.

They belong to others and are not part of this project: without the folder beside it, nothing here is tried, and that is said.
"""

import json
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import pytest
from msgspec import Struct

from app.domain import Target
from providers.adapters.provider import Provider
from providers.canonical.chat import Choice, Reasoning, Refusal, Text, ToolCall, Usage
from providers.canonical.errors import CredentialRefused, InvalidRequest, Overloaded, UpstreamNotFound, UpstreamRejected
from providers.canonical.events import assemble_response
from providers.canonical.upstream_errors import mask_credentials
from providers.dialect import OutboundResponse, ResponseMeta
from providers.dialects.openai_chat import OpenAIChat
from tests.laws.asking import sent

FOLDER = Path(__file__).parents[2].parent / "shared" / "exchanges"
if not FOLDER.is_dir():
    pytest.skip("the recordings of real hosts (../shared/exchanges) are not on this machine", allow_module_level=True)

DIALECT = OpenAIChat()
STAMP = ResponseMeta(
    "01990000-0000-7000-8000-00000000000a", "01990000-0000-7000-8000-00000000000b", "a name", 1_790_000_000, wants_usage=True
)
OURS = frozenset({"id", "model", "episode_id", "usage"})

# Requests that are wrong by themselves, as the recorded host found too: where we say the fault is.
WRONG_REQUESTS = {"openai/38-error-400-c": "messages", "openai/39-error-400-d": "max_tokens"}

SAID_WITHOUT_WORDS = {
    "openai/44-chat-audio-output": "an answer spoken aloud: `message.audio` has no part in the meaning of an answer yet",
}
# Hosts that count reasoning beside the output, and not within it as everybody else.
REASONING_BESIDE_OUTPUT = {"xai"}

ERRORS: Mapping[int, type[Exception]] = {400: UpstreamRejected, 401: CredentialRefused, 404: UpstreamNotFound, 429: Overloaded}


class Recording(Struct, frozen=True):
    """One recorded exchange. `body` is JSON, or the text of a stream."""

    name: str
    asked: dict[str, Any]
    status: int
    headers: dict[str, str]
    body: Any

    @property
    def raw(self) -> bytes:
        return self.body.encode() if isinstance(self.body, str) else json.dumps(self.body).encode()

    @property
    def chunks(self) -> list[dict[str, Any]]:
        """Read plainly, without any of the code that is tried here."""
        lines = [line.removeprefix("data:").strip() for line in self.body.splitlines() if line.startswith("data:")]
        return [json.loads(line) for line in lines if line != "[DONE]"]


def recordings() -> list[Recording]:
    found: list[Recording] = []
    for path in sorted(FOLDER.glob("*/*.json")):
        told = json.loads(path.read_text())
        if told["fidelity"].startswith("recorded") and told["path"].partition("?")[0].endswith("/chat/completions"):
            name = f"{path.parent.name}/{path.stem}"
            found.append(Recording(name, told["request_body"], told["status"], told["response_headers"] or {}, told["response_body"]))
    return found


ALL = recordings()
ERRONEOUS = [each for each in ALL if each.status != 200]
STREAMED = [each for each in ALL if each.status == 200 and isinstance(each.body, str)]
WHOLE = [each for each in ALL if each.status == 200 and isinstance(each.body, dict)]


def name(recording: object) -> str:
    return recording.name if isinstance(recording, Recording) else str(recording)


def test_every_recording_is_played() -> None:
    assert len(ERRONEOUS) + len(STREAMED) + len(WHOLE) == len(ALL) >= 101
    named = {each.name for each in ALL}
    assert {*WRONG_REQUESTS, *SAID_WITHOUT_WORDS} <= named


@pytest.mark.parametrize("recording", ALL, ids=name)
def test_the_request_is_an_ask_and_goes_on_as_it_came(recording: Recording) -> None:
    raw = json.dumps(recording.asked).encode()
    if recording.name in WRONG_REQUESTS:
        with pytest.raises(InvalidRequest) as refused:
            DIALECT.parse_request(raw)
        assert refused.value.param == WRONG_REQUESTS[recording.name]
        return
    ask = DIALECT.parse_request(raw)
    assert (ask.model, ask.stream) == (recording.asked["model"], recording.asked.get("stream", False))
    prepared = sent(ask, Provider("host", {}), Target("host", "theirs"))
    assert prepared.dropped == []
    stream: dict[str, Any] = (
        {"stream": True, "stream_options": {**(recording.asked.get("stream_options") or {}), "include_usage": True}} if ask.stream else {}
    )
    rest = {key: value for key, value in recording.asked.items() if key not in ("model", "stream", "stream_options")}
    assert json.loads(prepared.raw) == {**rest, "model": "theirs", **stream}


@pytest.mark.parametrize("recording", WHOLE, ids=name)
def test_a_whole_answer_passes_untouched(recording: Recording) -> None:
    edited = DIALECT.edit_response(recording.raw, STAMP)
    told = json.loads(edited.raw)
    assert told == {
        "system_fingerprint": "",
        "service_tier": "",
        "created": STAMP.created,
        **{key: value for key, value in recording.body.items() if value is not None or key not in ("system_fingerprint", "service_tier")},
        **({"service_tier": ""} if recording.body.get("service_tier") in FOREIGN_TIERS else {}),
        "choices": [
            {**choice, "message": {**with_calls_typed(with_reasoning_named(choice["message"])), **annotated(recording.body, choice)}}
            for choice in recording.body["choices"]
        ],
        "id": STAMP.id,
        "model": STAMP.model,
        "episode_id": STAMP.episode_id,
        "object": "chat.completion",
        "usage": within(recording, recording.body["usage"]),
    }
    assert edited.usage == counted(within(recording, recording.body["usage"]))
    assert edited.finish_reason == recording.body["choices"][0]["finish_reason"]
    in_bounds(edited)


@pytest.mark.parametrize("recording", WHOLE, ids=name)
def test_a_whole_answer_keeps_its_meaning(recording: Recording) -> None:
    answer = DIALECT.read_response(recording.raw)
    spoken = [summary(choice["message"], choice["finish_reason"]) for choice in recording.body["choices"]]
    assert [summed(choice) for choice in answer.choices] == spoken
    assert answer.usage == counted(within(recording, recording.body["usage"]))
    assert (recording.name in SAID_WITHOUT_WORDS) == ("audio" in recording.body["choices"][0]["message"] and not answer.choices[0].parts)
    rewritten = json.loads(DIALECT.write_response(answer, STAMP))
    assert [summary(choice["message"], choice["finish_reason"]) for choice in rewritten["choices"]] == spoken
    assert counted(rewritten["usage"]) == answer.usage


@pytest.mark.parametrize("recording", STREAMED, ids=name)
def test_a_stream_passes_untouched_however_it_is_cut(recording: Recording) -> None:
    editor = DIALECT.stream_editor(STAMP)
    out = b"".join([editor.feed(block) for block in split(recording)])
    frames = told_in(out + editor.finish())
    spoken = [each for each in finishing_once(recording.chunks) if each["choices"] or not each.get("usage")]
    counting = [each for each in recording.chunks if not each["choices"] and each.get("usage")]
    assert len(frames) == len(spoken)
    roles: set[int] = set()
    for frame, chunk in zip(frames, spoken, strict=True):
        as_told = {
            **{key: value for key, value in chunk.items() if key != "service_tier" or value not in FOREIGN_TIERS},
            "object": "chat.completion.chunk",
            "choices": [
                {**each, "delta": {**role_once(with_reasoning_named(each["delta"]), each["index"], roles), **annotated(chunk, each)}}
                for each in chunk["choices"]
            ],
        }
        assert {key: frame[key] for key in as_told.keys() - OURS} == {key: value for key, value in as_told.items() if key not in OURS}
        assert (frame["id"], frame["model"], frame["episode_id"]) == (STAMP.id, STAMP.model, STAMP.episode_id)
        # What a chunk that only counts says besides rides on the one that finishes.
        assert all(frame[key] == counting[-1][key] for key in frame.keys() - as_told.keys() - OURS)
    last = within(recording, [each["usage"] for each in recording.chunks if each.get("usage")][-1])
    assert [frame["usage"] for frame in frames if "usage" in frame] == [last]
    assert [bool(choice.get("finish_reason")) for frame in frames if "usage" in frame for choice in frame["choices"]] == [True]
    assert editor.usage == counted(last)
    assert editor.finish_reason == streamed(recording.chunks)[0][1]
    in_bounds(OutboundResponse(b"", editor.usage, editor.finish_reason))


@pytest.mark.parametrize("recording", STREAMED, ids=name)
def test_a_stream_is_read_as_the_editor_tells_it(recording: Recording) -> None:
    editor = DIALECT.stream_editor(STAMP)
    out = editor.feed(recording.raw) + editor.finish()
    for blocks in (split(recording), [out]):
        reader = DIALECT.stream_reader()
        answer = assemble_response([event for block in blocks for event in reader.feed(block)] + [*reader.finish()])
        assert [(summed(choice)) for choice in answer.choices] == [
            streamed(recording.chunks)[at] for at in sorted(streamed(recording.chunks))
        ]
        assert answer.usage == editor.usage


@pytest.mark.parametrize("recording", ERRONEOUS, ids=name)
def test_an_error_becomes_ours_and_keeps_its_message(recording: Recording) -> None:
    error = Provider("host", {}).read_error(recording.status, recording.headers, recording.raw)
    assert type(error) is ERRORS[recording.status]
    assert error.upstream_status == recording.status
    assert error.status == (502 if recording.status == 401 else recording.status)
    inner: Any = recording.body.get("error", recording.body)
    message: str = inner if isinstance(inner, str) else inner.get("message") or inner["detail"]
    # OpenRouter tells what the host said that it asked.
    beside: dict[str, Any] = {} if isinstance(inner, str) else inner.get("metadata") or {}
    assert error.message.endswith(mask_credentials(f"{message}: {beside['raw']}" if "raw" in beside else message))
    told = json.loads(DIALECT.write_error(error))["error"]
    assert (told["message"], told["code"]) == (error.message, error.status)


def split(recording: Recording) -> list[bytes]:
    """Cut anywhere; the same places in every run."""
    raw = recording.raw
    chance = random.Random(recording.name)
    places = sorted(chance.randrange(len(raw)) for _ in range(min(200, len(raw) // 10)))
    return [raw[start:end] for start, end in zip([0, *places], [*places, len(raw)], strict=True)]


# Those that official clients do not know: Groq's.
FOREIGN_TIERS = ("on_demand",)


def annotated(body: dict[str, Any], choice: dict[str, Any]) -> dict[str, Any]:
    """What Perplexity found, as citations of the choice that finishes."""
    found = body.get("search_results") if choice.get("finish_reason") else None
    cited = [{"url": each["url"], "title": each["title"], "start_index": 0, "end_index": 0} for each in found or ()]
    return {"annotations": [{"type": "url_citation", "url_citation": each} for each in cited]} if cited else {}


def role_once(delta: dict[str, Any], index: int, told: set[int]) -> dict[str, Any]:
    """OpenAI's own client appends a role that is told again."""
    again = index in told
    if "role" in delta:
        told.add(index)
    return {key: value for key, value in delta.items() if key != "role" or not again}


def told_in(out: bytes) -> list[dict[str, Any]]:
    *frames, done, rest = out.split(b"\n\n")
    assert (done, rest) == (b"data: [DONE]", b"")
    return [json.loads(frame.removeprefix(b"data: ")) for frame in frames]


def with_reasoning_named(said: dict[str, Any]) -> dict[str, Any]:
    if "reasoning_content" in said:
        return said
    if isinstance(said.get("content"), list):  # Mistral's, of thinking alone
        rest = {key: value for key, value in said.items() if key != "content"}
        thought = "".join(each["text"] for chunk in said["content"] for each in chunk["thinking"])
        return {**rest, "reasoning_content": thought} if thought else rest
    return {("reasoning_content" if key == "reasoning" else key): value for key, value in said.items()}


def with_calls_typed(message: dict[str, Any]) -> dict[str, Any]:
    """Mistral does not say that a call is one of a function."""
    if not message.get("tool_calls"):
        return message
    return {**message, "tool_calls": [{"type": "function", **call} for call in message["tool_calls"]]}


def finishing_once(chunks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Without chunks that finish again what has finished (OpenRouter, Together)."""
    finished: set[int] = set()
    kept: list[dict[str, Any]] = []
    for chunk in chunks:
        ending = [choice["index"] for choice in chunk["choices"] if choice.get("finish_reason")]
        if not ending or not finished.issuperset(ending):
            kept.append(chunk)
        finished.update(ending)
    return kept


def within(recording: Recording, usage: dict[str, Any]) -> dict[str, Any]:
    """Usage with reasoning within the output, and with what Mistral told of its cache in 2026's first months under OpenAI's name."""
    if "num_cached_tokens" in usage:
        return {**usage, "prompt_tokens_details": {"cached_tokens": usage["num_cached_tokens"]}}
    if recording.name.partition("/")[0] not in REASONING_BESIDE_OUTPUT:
        return usage
    return {**usage, "completion_tokens": usage["completion_tokens"] + usage["completion_tokens_details"]["reasoning_tokens"]}


def counted(usage: dict[str, Any]) -> Usage:
    prompt: dict[str, Any] = usage.get("prompt_tokens_details") or {}
    completion: dict[str, Any] = usage.get("completion_tokens_details") or {}
    return Usage(
        input=usage["prompt_tokens"],
        output=usage["completion_tokens"],
        cached=prompt.get("cached_tokens", usage.get("cached_tokens")),
        reasoning=completion.get("reasoning_tokens"),
        cache_written=prompt.get("cache_write_tokens"),
        audio_input=prompt.get("audio_tokens"),
        audio_output=completion.get("audio_tokens"),
        image_input=prompt.get("image_tokens"),
    )


def in_bounds(edited: OutboundResponse) -> None:
    usage = edited.usage
    assert usage is not None
    assert usage.input is not None
    assert usage.output is not None
    assert (usage.cached or 0) <= usage.input
    assert (usage.reasoning or 0) <= usage.output


# Text, reasoning, refusal and calls of a choice, and why it finished.
Summary = tuple[tuple[str, str, str, tuple[tuple[str, str, str], ...]], str | None]


def summary(said: dict[str, Any], finish_reason: str | None) -> Summary:
    calls = [(each["id"], each["function"]["name"], each["function"]["arguments"]) for each in said.get("tool_calls") or ()]
    reasoning = said.get("reasoning_content") or said.get("reasoning") or ""
    return (said.get("content") or "", reasoning, said.get("refusal") or "", tuple(calls)), finish_reason


def summed(choice: Choice) -> Summary:
    texts = {"Text": "", "Reasoning": "", "Refusal": ""}
    calls: list[tuple[str, str, str]] = []
    for part in choice.parts:
        if isinstance(part, ToolCall):
            calls.append((part.id, part.name, part.arguments))
        else:
            assert isinstance(part, Text | Reasoning | Refusal)
            texts[type(part).__name__] += part.text
    return (texts["Text"], texts["Reasoning"], texts["Refusal"], tuple(calls)), choice.finish_reason


def streamed(chunks: list[dict[str, Any]]) -> dict[int, Summary]:
    """What the official SDKs would put together of these chunks, by choice."""
    grown: dict[int, dict[str, Any]] = {}
    for choice in [choice for chunk in chunks for choice in chunk["choices"]]:
        said = grown.setdefault(choice["index"], {"content": "", "reasoning": "", "refusal": "", "calls": {}, "finish_reason": None})
        delta = choice["delta"]
        said["finish_reason"] = said["finish_reason"] or choice.get("finish_reason")
        said["refusal"] += delta.get("refusal") or ""
        content: Any = delta.get("content") or ""
        for piece in cast("list[dict[str, Any]]", content if isinstance(content, list) else [{"text": content}]):  # a list: Mistral's
            said["content"] += piece.get("text", "")
            said["reasoning"] += "".join(each["text"] for each in piece.get("thinking", []))
        said["reasoning"] += delta.get("reasoning_content") or delta.get("reasoning") or ""
        for call in delta.get("tool_calls") or ():
            known = said["calls"].setdefault(call.get("index", 0), {"id": "", "name": "", "arguments": ""})
            known["id"] = known["id"] or call.get("id") or ""
            known["name"] = known["name"] or call["function"].get("name") or ""
            known["arguments"] += call["function"].get("arguments") or ""
    return {
        index: (
            (
                said["content"],
                said["reasoning"],
                said["refusal"],
                tuple((call["id"], call["name"], call["arguments"]) for call in said["calls"].values()),
            ),
            said["finish_reason"],
        )
        for index, said in grown.items()
    }
