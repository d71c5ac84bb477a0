"""Recorded exchanges with hosts that speak OpenAI chat: requests, responses, streams and errors.

The recordings are not part of this repository; without ../shared/exchanges these tests are skipped.
"""

import json
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import pytest
from msgspec import Struct
from msgspec.structs import replace

from app.domain.routing import Target
from providers.adapters.openai_compatible import OpenAICompatible
from providers.canonical.chat import Choice, Reasoning, Refusal, Text, ToolCall, Usage
from providers.canonical.credential_masking import mask_credentials
from providers.canonical.errors import CredentialRefused, InvalidRequest, Overloaded, UpstreamNotFound, UpstreamRejected
from providers.canonical.events import assemble_response
from providers.dialect import OutboundResponse, ResponseMeta
from providers.dialects.openai_chat import OpenAIChat
from tests.support.case_tables import one_test_per_group
from tests.support.request_translation import translate_request
from tests.support.strategies.host_costs import expected_host_cost

FOLDER = Path(__file__).parents[2].parent / "shared" / "exchanges"
if not FOLDER.is_dir():
    pytest.skip("the recordings of real hosts (../shared/exchanges) are not on this machine", allow_module_level=True)

DIALECT = OpenAIChat()
META = ResponseMeta(
    "01990000-0000-7000-8000-00000000000a", "01990000-0000-7000-8000-00000000000b", "a name", 1_790_000_000, wants_usage=True
)
REPLACED_FIELDS = frozenset({"id", "model", "episode_id", "usage"})

# Requests that the recorded host refused with a 400, and so do we: the param that our error names.
WRONG_REQUESTS = {"openai/38-error-400-c": "messages", "openai/39-error-400-d": "max_tokens"}

RESPONSES_WITHOUT_PARTS = {
    "openai/44-chat-audio-output": "audio output: `message.audio` has no part in the canonical model yet",
}
# Hosts that do not include reasoning tokens in the output tokens, as all others do.
REASONING_NOT_IN_OUTPUT = {"xai"}

ERRORS: Mapping[int, type[Exception]] = {400: UpstreamRejected, 401: CredentialRefused, 404: UpstreamNotFound, 429: Overloaded}


class Recording(Struct, frozen=True):
    """One recorded exchange. `body` is JSON, or the text of a stream."""

    name: str
    request_body: dict[str, Any]
    status: int
    headers: dict[str, str]
    body: Any

    @property
    def raw(self) -> bytes:
        return self.body.encode() if isinstance(self.body, str) else json.dumps(self.body).encode()

    @property
    def chunks(self) -> list[dict[str, Any]]:
        """The chunks of a stream, read with no code of providers/."""
        lines = [line.removeprefix("data:").strip() for line in self.body.splitlines() if line.startswith("data:")]
        return [json.loads(line) for line in lines if line != "[DONE]"]


def recordings() -> list[Recording]:
    found: list[Recording] = []
    for path in sorted(FOLDER.glob("*/*.json")):
        recorded = json.loads(path.read_text())
        if recorded["fidelity"].startswith("recorded") and recorded["path"].partition("?")[0].endswith("/chat/completions"):
            name = f"{path.parent.name}/{path.stem}"
            found.append(
                Recording(name, recorded["request_body"], recorded["status"], recorded["response_headers"] or {}, recorded["response_body"])
            )
    return found


ALL = recordings()
ERROR_RESPONSES = [each for each in ALL if each.status != 200]
STREAMED = [each for each in ALL if each.status == 200 and isinstance(each.body, str)]
UNSTREAMED = [each for each in ALL if each.status == 200 and isinstance(each.body, dict)]


def recording_name(recording: Recording) -> str:
    return recording.name


def host_folder(recording: Recording) -> str:
    return recording.name.partition("/")[0]


def test_every_recording_is_sorted_into_a_test() -> None:
    assert len(ERROR_RESPONSES) + len(STREAMED) + len(UNSTREAMED) == len(ALL) >= 101
    named = {each.name for each in ALL}
    assert {*WRONG_REQUESTS, *RESPONSES_WITHOUT_PARTS} <= named


@one_test_per_group(ALL, group=host_folder, name=recording_name)
def test_recorded_request_is_forwarded_unchanged_but_for_model_and_stream_usage(recording: Recording) -> None:
    raw = json.dumps(recording.request_body).encode()
    if recording.name in WRONG_REQUESTS:
        with pytest.raises(InvalidRequest) as refused:
            DIALECT.parse_request(raw)
        assert refused.value.param == WRONG_REQUESTS[recording.name]
        return
    request = DIALECT.parse_request(raw)
    assert (request.model, request.stream) == (recording.request_body["model"], recording.request_body.get("stream", False))
    translated = translate_request(request, OpenAICompatible("host", {}), Target("host", "upstream-model"))
    assert translated.dropped == []
    stream: dict[str, Any] = (
        {"stream": True, "stream_options": {**(recording.request_body.get("stream_options") or {}), "include_usage": True}}
        if request.stream
        else {}
    )
    other_fields = {key: value for key, value in recording.request_body.items() if key not in ("model", "stream", "stream_options")}
    assert json.loads(translated.raw) == {**other_fields, "model": "upstream-model", **stream}


@one_test_per_group(UNSTREAMED, group=host_folder, name=recording_name)
def test_unstreamed_response_passes_unchanged_but_for_known_fields(recording: Recording) -> None:
    edited = DIALECT.edit_response(recording.raw, META)
    response_body = json.loads(edited.raw)
    assert response_body == {
        "system_fingerprint": "",
        "service_tier": None,
        "created": META.created,
        **{key: value for key, value in recording.body.items() if value is not None or key not in ("system_fingerprint", "service_tier")},
        **({"service_tier": None} if recording.body.get("service_tier") in UNKNOWN_SERVICE_TIERS else {}),
        "choices": [
            {**choice, "message": {**add_call_type(rename_reasoning(choice["message"])), **expected_annotations(recording.body, choice)}}
            for choice in recording.body["choices"]
        ],
        "id": META.id,
        "model": META.model,
        "episode_id": META.episode_id,
        "object": "chat.completion",
        "usage": normalize_usage(recording, recording.body["usage"]),
    }
    assert edited.usage == expected_usage(normalize_usage(recording, recording.body["usage"]))
    assert edited.finish_reason == recording.body["choices"][0]["finish_reason"]
    assert_usage_consistent(edited)


@one_test_per_group(UNSTREAMED, group=host_folder, name=recording_name)
def test_unstreamed_response_survives_the_canonical_round_trip(recording: Recording) -> None:
    response = DIALECT.read_response(recording.raw)
    expected = [summarize_message(choice["message"], choice["finish_reason"]) for choice in recording.body["choices"]]
    assert [summarize_choice(choice) for choice in response.choices] == expected
    assert response.usage == expected_usage(normalize_usage(recording, recording.body["usage"]))
    assert (recording.name in RESPONSES_WITHOUT_PARTS) == (
        "audio" in recording.body["choices"][0]["message"] and not response.choices[0].parts
    )
    rewritten = json.loads(DIALECT.write_response(response, META))
    assert [summarize_message(choice["message"], choice["finish_reason"]) for choice in rewritten["choices"]] == expected
    # OpenAI's usage has no cost, and does not count uses of tools.
    assert response.usage is not None
    assert expected_usage(rewritten["usage"]) == replace(response.usage, host_cost_microusd=None, tool_uses=None)


@one_test_per_group(STREAMED, group=host_folder, name=recording_name)
def test_stream_passes_unchanged_but_for_known_fields_however_it_is_chunked(recording: Recording) -> None:
    editor = DIALECT.stream_editor(META)
    out = b"".join([editor.feed(block) for block in random_blocks(recording)])
    frames = decode_frames(out + editor.finish())
    expected = [each for each in drop_repeated_finish(recording.chunks) if each["choices"] or not each.get("usage")]
    usage_chunks = [each for each in recording.chunks if not each["choices"] and each.get("usage")]
    assert len(frames) == len(expected)
    roles: set[int] = set()
    for frame, chunk in zip(frames, expected, strict=True):
        expected_frame = {
            **{key: value for key, value in chunk.items() if key != "service_tier" or value not in UNKNOWN_SERVICE_TIERS},
            "object": "chat.completion.chunk",
            "choices": [
                {
                    **each,
                    "delta": {
                        **drop_repeated_role(rename_reasoning(each["delta"]), each["index"], roles),
                        **expected_annotations(chunk, each),
                    },
                }
                for each in chunk["choices"]
            ],
        }
        assert {key: frame[key] for key in expected_frame.keys() - REPLACED_FIELDS} == {
            key: value for key, value in expected_frame.items() if key not in REPLACED_FIELDS
        }
        assert (frame["id"], frame["model"], frame["episode_id"]) == (META.id, META.model, META.episode_id)
        # Other fields of a chunk that has only usage are moved to the chunk with the finish reason.
        assert all(frame[key] == usage_chunks[-1][key] for key in frame.keys() - expected_frame.keys() - REPLACED_FIELDS)
    last = normalize_usage(recording, [each["usage"] for each in recording.chunks if each.get("usage")][-1])
    assert [frame["usage"] for frame in frames if "usage" in frame] == [last]
    assert [bool(choice.get("finish_reason")) for frame in frames if "usage" in frame for choice in frame["choices"]] == [True]
    assert editor.usage == expected_usage(last)
    assert editor.finish_reason == assemble_chunks(recording.chunks)[0][1]
    assert_usage_consistent(OutboundResponse(b"", editor.usage, editor.finish_reason))


@one_test_per_group(STREAMED, group=host_folder, name=recording_name)
def test_stream_reads_the_same_before_and_after_the_editor(recording: Recording) -> None:
    editor = DIALECT.stream_editor(META)
    out = editor.feed(recording.raw) + editor.finish()
    for blocks in (random_blocks(recording), [out]):
        reader = DIALECT.stream_reader()
        response = assemble_response([event for block in blocks for event in reader.feed(block)] + [*reader.finish()])
        assert [summarize_choice(choice) for choice in response.choices] == [
            assemble_chunks(recording.chunks)[at] for at in sorted(assemble_chunks(recording.chunks))
        ]
        assert response.usage == editor.usage


@one_test_per_group(ERROR_RESPONSES, group=host_folder, name=recording_name)
def test_recorded_error_is_mapped_and_keeps_its_message(recording: Recording) -> None:
    error = OpenAICompatible("host", {}).read_error(recording.status, recording.headers, recording.raw)
    assert type(error) is ERRORS[recording.status]
    assert error.upstream_status == recording.status
    assert error.status == (502 if recording.status == 401 else recording.status)
    error_body: Any = recording.body.get("error", recording.body)
    message: str = error_body if isinstance(error_body, str) else error_body.get("message") or error_body["detail"]
    # OpenRouter reports the error of the host behind it.
    metadata: dict[str, Any] = {} if isinstance(error_body, str) else error_body.get("metadata") or {}
    assert error.message.endswith(mask_credentials(f"{message}: {metadata['raw']}" if "raw" in metadata else message))
    written_error = json.loads(DIALECT.write_error(error))["error"]
    assert (written_error["message"], written_error["code"]) == (error.message, error.code or error.status)


def random_blocks(recording: Recording) -> list[bytes]:
    """The bytes cut at random places, the same in every run."""
    raw = recording.raw
    rng = random.Random(recording.name)
    cuts = sorted(rng.randrange(len(raw)) for _ in range(min(200, len(raw) // 10)))
    return [raw[start:end] for start, end in zip([0, *cuts], [*cuts, len(raw)], strict=True)]


# Values that official clients do not know: Groq's.
UNKNOWN_SERVICE_TIERS = ("on_demand",)


def expected_annotations(body: dict[str, Any], choice: dict[str, Any]) -> dict[str, Any]:
    """Perplexity's search results, as citations of the choice that finishes."""
    found = body.get("search_results") if choice.get("finish_reason") else None
    citations = [{"url": each["url"], "title": each["title"], "start_index": 0, "end_index": 0} for each in found or ()]
    return {"annotations": [{"type": "url_citation", "url_citation": each} for each in citations]} if citations else {}


def drop_repeated_role(delta: dict[str, Any], index: int, with_role: set[int]) -> dict[str, Any]:
    """A repeated role is dropped, because OpenAI's own client would append it."""
    repeated = index in with_role
    if "role" in delta:
        with_role.add(index)
    return {key: value for key, value in delta.items() if key != "role" or not repeated}


def decode_frames(out: bytes) -> list[dict[str, Any]]:
    *frames, done, remainder = out.split(b"\n\n")
    assert (done, remainder) == (b"data: [DONE]", b"")
    return [json.loads(frame.removeprefix(b"data: ")) for frame in frames]


def rename_reasoning(message: dict[str, Any]) -> dict[str, Any]:
    if "reasoning_content" in message:
        return message
    if isinstance(message.get("content"), list):  # Mistral's, of thinking alone
        other_fields = {key: value for key, value in message.items() if key != "content"}
        thought = "".join(each["text"] for chunk in message["content"] for each in chunk["thinking"])
        return {**other_fields, "reasoning_content": thought} if thought else other_fields
    return {("reasoning_content" if key == "reasoning" else key): value for key, value in message.items()}


def add_call_type(message: dict[str, Any]) -> dict[str, Any]:
    """Mistral's calls lack `type`."""
    if not message.get("tool_calls"):
        return message
    return {**message, "tool_calls": [{"type": "function", **call} for call in message["tool_calls"]]}


def drop_repeated_finish(chunks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Returns the chunks without those that repeat the finish of a choice (OpenRouter, Together)."""
    finished: set[int] = set()
    kept: list[dict[str, Any]] = []
    for chunk in chunks:
        ending = [choice["index"] for choice in chunk["choices"] if choice.get("finish_reason")]
        if not ending or not finished.issuperset(ending):
            kept.append(chunk)
        finished.update(ending)
    return kept


def normalize_usage(recording: Recording, usage: dict[str, Any]) -> dict[str, Any]:
    """Returns usage with reasoning included in the output, and Mistral's `num_cached_tokens` of early 2026 under OpenAI's name."""
    if "num_cached_tokens" in usage:
        return {**usage, "prompt_tokens_details": {"cached_tokens": usage["num_cached_tokens"]}}
    if recording.name.partition("/")[0] not in REASONING_NOT_IN_OUTPUT:
        return usage
    return {**usage, "completion_tokens": usage["completion_tokens"] + usage["completion_tokens_details"]["reasoning_tokens"]}


def expected_usage(usage: dict[str, Any]) -> Usage:
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
        host_cost_microusd=expected_host_cost(usage),
        # Perplexity's fee for each request goes by this size.
        tool_uses={f"search_{usage['search_context_size']}": 1} if "search_context_size" in usage else None,
    )


def assert_usage_consistent(edited: OutboundResponse) -> None:
    usage = edited.usage
    assert usage is not None
    assert usage.input is not None
    assert usage.output is not None
    assert (usage.cached or 0) <= usage.input
    assert (usage.reasoning or 0) <= usage.output


# Text, reasoning, refusal and calls of a choice, and its finish reason.
ChoiceSummary = tuple[tuple[str, str, str, tuple[tuple[str, str, str], ...]], str | None]


def summarize_message(message: dict[str, Any], finish_reason: str | None) -> ChoiceSummary:
    calls = [(each["id"], each["function"]["name"], each["function"]["arguments"]) for each in message.get("tool_calls") or ()]
    reasoning = message.get("reasoning_content") or message.get("reasoning") or ""
    return (message.get("content") or "", reasoning, message.get("refusal") or "", tuple(calls)), finish_reason


def summarize_choice(choice: Choice) -> ChoiceSummary:
    texts = {"Text": "", "Reasoning": "", "Refusal": ""}
    calls: list[tuple[str, str, str]] = []
    for part in choice.parts:
        if isinstance(part, ToolCall):
            calls.append((part.id, part.name, part.arguments))
        else:
            assert isinstance(part, Text | Reasoning | Refusal)
            texts[type(part).__name__] += part.text
    return (texts["Text"], texts["Reasoning"], texts["Refusal"], tuple(calls)), choice.finish_reason


def assemble_chunks(chunks: list[dict[str, Any]]) -> dict[int, ChoiceSummary]:
    """The choices that the official SDKs assemble from these chunks, by index."""
    choices: dict[int, dict[str, Any]] = {}
    for choice in [choice for chunk in chunks for choice in chunk["choices"]]:
        choice_so_far = choices.setdefault(
            choice["index"], {"content": "", "reasoning": "", "refusal": "", "calls": {}, "finish_reason": None}
        )
        delta = choice["delta"]
        choice_so_far["finish_reason"] = choice_so_far["finish_reason"] or choice.get("finish_reason")
        choice_so_far["refusal"] += delta.get("refusal") or ""
        content: Any = delta.get("content") or ""
        for piece in cast("list[dict[str, Any]]", content if isinstance(content, list) else [{"text": content}]):  # a list: Mistral's
            choice_so_far["content"] += piece.get("text", "")
            choice_so_far["reasoning"] += "".join(each["text"] for each in piece.get("thinking", []))
        choice_so_far["reasoning"] += delta.get("reasoning_content") or delta.get("reasoning") or ""
        for call in delta.get("tool_calls") or ():
            known = choice_so_far["calls"].setdefault(call.get("index", 0), {"id": "", "name": "", "arguments": ""})
            known["id"] = known["id"] or call.get("id") or ""
            known["name"] = known["name"] or call["function"].get("name") or ""
            known["arguments"] += call["function"].get("arguments") or ""
    return {
        index: (
            (
                assembled["content"],
                assembled["reasoning"],
                assembled["refusal"],
                tuple((call["id"], call["name"], call["arguments"]) for call in assembled["calls"].values()),
            ),
            assembled["finish_reason"],
        )
        for index, assembled in choices.items()
    }
