"""Recorded exchanges with hosts of all three chat dialects, translated for callers of the other two, who get the same meaning.

The recordings are not part of this repository; without ../shared/exchanges these tests are skipped.
"""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct
from msgspec.structs import replace

from providers.canonical.chat import (
    Audio,
    ChatRequest,
    Choice,
    File,
    Image,
    Inline,
    Message,
    Refusal,
    Text,
    Tool,
    ToolCall,
    ToolResult,
    Usage,
)
from providers.canonical.errors import InvalidRequest, Unsupported
from providers.canonical.events import assemble_response
from providers.canonical.media import inline_media, media_urls
from providers.canonical.output_format import JsonSchema
from providers.canonical.raw_json import Body
from providers.dialects.catalogue import CHAT_DIALECTS
from providers.drop_policy import DropPolicy
from tests.conformance.expected_responses import summary
from tests.conformance.situations import ALL, ANTHROPIC, CHAT, RESPONSES
from tests.conformance.strict_shapes import response_errors
from tests.conformance.translation import CALLERS, translate_response
from tests.support.case_tables import one_test_per_group

FOLDER = Path(__file__).parents[2].parent / "shared" / "exchanges"
if not FOLDER.is_dir():
    pytest.skip("the recordings of real hosts (../shared/exchanges) are not on this machine", allow_module_level=True)

HOSTS = ("openai", "anthropic", "deepseek", "xai")
ROUTES = {"/chat/completions": CHAT, "/responses": RESPONSES, "/messages": ANTHROPIC}


class Recording(Struct, frozen=True):
    """One recorded exchange with a host that speaks `dialect`. `raw`: its response; empty if it was an error."""

    name: str
    dialect: str
    request_body: dict[str, Any]
    raw: bytes
    streamed: bool


def recordings() -> list[Recording]:
    found: list[Recording] = []
    for host in HOSTS:
        for path in sorted((FOLDER / host).glob("*.json")):
            recorded = json.loads(path.read_text())
            route = recorded["path"].partition("?")[0]
            dialect = next((name for end, name in ROUTES.items() if route.endswith(end)), None)
            if recorded["fidelity"] != "recorded" or dialect is None:
                continue
            body = recorded["response_body"] if recorded["status"] == 200 else b""
            raw = body if isinstance(body, bytes) else body.encode() if isinstance(body, str) else json.dumps(body).encode()
            found.append(Recording(f"{host}/{path.stem}", dialect, recorded["request_body"], raw, isinstance(body, str)))
    return found


RECORDINGS = recordings()
WITH_RESPONSE = [each for each in RECORDINGS if each.raw]


Pair = tuple[Recording, str]


def pairs(recordings: list[Recording]) -> list[Pair]:
    """Each recording with each of the other dialects."""
    return [(each, dialect) for each in recordings for dialect in ALL if dialect != each.dialect]


def both_dialects(pair: Pair) -> str:
    return f"{pair[0].dialect}, {pair[1]}"


def recording_name(pair: Pair) -> str:
    return pair[0].name


def test_recordings_cover_every_dialect_streamed():
    assert (len(RECORDINGS), len(WITH_RESPONSE)) >= (75, 60)
    assert {each.dialect for each in WITH_RESPONSE if each.streamed} == set(ALL)


@one_test_per_group(pairs(WITH_RESPONSE), group=both_dialects, name=recording_name)
def test_recorded_response_means_the_same_to_every_other_caller(pair: Pair) -> None:
    """The caller's official SDK reads the response, and sends it back with the next request."""
    recording, caller = pair
    target = CHAT_DIALECTS[recording.dialect]
    if recording.streamed:
        reader = target.stream_reader()
        original = assemble_response([*reader.feed(recording.raw), *reader.finish()])
    else:
        original = target.read_response(recording.raw)
    (choice,) = original.choices
    dialect, sdk = CHAT_DIALECTS[caller], CALLERS[caller]
    for streamed in (True, False):
        response = translate_response(recording.raw, recording.dialect, caller, arrives_streamed=recording.streamed, streamed=streamed)
        assert response_errors(caller, response, streamed=streamed) == []
        parsed = sdk.parse(response, streamed=streamed)
        loss = LOSSY_TRANSLATIONS.get((recording.name, caller))
        expected = choice if loss is None else loss(choice, streamed)
        next_request = dialect.parse_request(json.dumps(sdk.next_request_body(parsed)).encode())
        assistant_messages = [each for each in dialect.read_request(next_request.body).messages if each.role == "assistant"]
        assert [part for message in assistant_messages for part in summary(message, caller)] == summary(
            Message("assistant", expected.parts), caller
        )
        reread = dialect.read_response(parsed.model_dump_json(exclude_unset=True).encode())
        assert normalize_usage(reread.usage) == normalize_usage(original.usage, not_reported=USAGE_FIELDS_NOT_REPORTED[caller])
        assert [finish_logprobs_and_urls(each, caller) for each in reread.choices] == [finish_logprobs_and_urls(expected, caller)]


def refusal_as_text(choice: Choice, _: bool) -> Choice:
    """Anthropic has no part for a refusal: it is text, and the stop reason `refusal`."""
    return replace(
        choice, parts=tuple(Text(part.text) for part in choice.parts if isinstance(part, Refusal)), finish_reason="content_filter"
    )


def truncated_call_as_the_sdk_has_it(choice: Choice, streamed: bool) -> Choice:
    """Returns the choice as Anthropic's SDK has it.

    Of the truncated arguments of a streamed call, the SDK keeps what is JSON; unstreamed, they are complete.
    """
    (call,) = choice.parts
    assert isinstance(call, ToolCall)
    return replace(choice, parts=(replace(call, arguments="{}"),)) if streamed else choice


# What a caller's dialect cannot express, by recording, and what the caller gets instead.
LOSSY_TRANSLATIONS: Mapping[tuple[str, str], Callable[[Choice, bool], Choice]] = {
    ("openai/14-chat-refusal", ANTHROPIC): refusal_as_text,
    ("openai/15-chat-refusal-stream", ANTHROPIC): refusal_as_text,
    ("openai/23-chat-length-tool-stream", ANTHROPIC): truncated_call_as_the_sdk_has_it,
}


def finish_logprobs_and_urls(choice: Choice, caller: str) -> Any:
    """The rest of a choice that this caller's dialect can express: Anthropic has no logprobs."""
    logprobs = [] if caller == ANTHROPIC else [json.loads(bytes(each)) for each in choice.logprobs or ()]
    return choice.finish_reason, logprobs, urls(choice.parts)


def urls(parts: Any) -> list[str]:
    return [each.url for part in parts for each in getattr(part, "citations", ()) if each.url]


# Fields of usage that a caller's API does not have.
USAGE_FIELDS_NOT_REPORTED: Mapping[str, frozenset[str]] = {
    CHAT: frozenset({"cache_written_hour", "host_cost_microusd", "tool_uses"}),
    RESPONSES: frozenset({"cache_written_hour", "audio_input", "audio_output", "image_input", "host_cost_microusd", "tool_uses"}),
    ANTHROPIC: frozenset({"audio_input", "audio_output", "image_input", "host_cost_microusd", "tool_uses"}),
}


def normalize_usage(usage: Usage | None, not_reported: frozenset[str] = frozenset()) -> Usage:
    """Returns usage with zero for whatever is not reported."""
    normalized = replace(usage or Usage(), **dict.fromkeys(not_reported))
    return replace(normalized, **{name: getattr(normalized, name) or 0 for name in Usage.__struct_fields__ if name != "tier"})


# Requests that the recorded host refused, and so do we whatever the target: the param that our error names.
INVALID_REQUESTS = {
    "openai/38-error-400-c": "messages",
    "openai/39-error-400-d": "max_tokens",
    "anthropic/32-error-400-a": "temperature",
    "anthropic/33-error-400-b": "tools.0.input_schema",
    "anthropic/34-error-400-c": "tools.0.input_schema.type",
}
CACHE_BREAKPOINTS = ("openai/01-chat-plain", "openai/26-chat-cache-hit")
# Anthropic accepts no request of instructions alone: there, they become the user's message.
INSTRUCTIONS_ONLY = {("openai/03-chat-developer-role", ANTHROPIC)}

# The recorded requests that another dialect cannot express, and the param that the error names; all others are translated.
REFUSED_PARAM: Mapping[tuple[str, str], str] = {
    ("openai/18-chat-audio-input", ANTHROPIC): "messages[0].content[1]",
    ("openai/44-chat-audio-output", RESPONSES): "audio",
    ("openai/44-chat-audio-output", ANTHROPIC): "audio",
    ("anthropic/25-stop-sequence", RESPONSES): "stop_sequences",
    ("xai/18-responses-web-search", CHAT): "tools[0]",
    ("xai/18-responses-web-search", ANTHROPIC): "tools[0]",
    ("deepseek/24-error-400-c", ANTHROPIC): "messages[0].content[1]",
    ("deepseek/16-length", ANTHROPIC): "logprobs",
    ("deepseek/17-logprobs-stream", ANTHROPIC): "logprobs",
}
# The hints that are reported as dropped.
REPORTED_DROPS: Mapping[tuple[str, str], tuple[str, ...]] = {
    **{(name, RESPONSES): ("messages[0].content[0].prompt_cache_breakpoint",) for name in CACHE_BREAKPOINTS},
    **{
        (name, ANTHROPIC): ("prompt_cache_key", "prompt_cache_options", "messages[0].content[0].prompt_cache_breakpoint")
        for name in CACHE_BREAKPOINTS
    },
    **{(each.name, ANTHROPIC): ("store",) for each in RECORDINGS if each.dialect == RESPONSES and "store" in each.request_body},
    # `thinking: {type: enabled}`, without a budget or an effort, which the Responses API cannot be told.
    ("deepseek/23-error-400-b", RESPONSES): ("reasoning_effort",),
    ("anthropic/18-thinking", CHAT): ("thinking.display",),
    ("anthropic/19-thinking-adaptive-effort", CHAT): ("thinking.display",),
    **{("anthropic/03-tool-single", target): ("tools[1].defer_loading",) for target in (CHAT, RESPONSES)},
    **{("anthropic/22-thinking-redacted", target): ("thinking.budget_tokens",) for target in (CHAT, RESPONSES)},
    **{("anthropic/23-cache-hit", target): ("messages[4].content[0].cache_control",) for target in (CHAT, RESPONSES)},
    **{
        ("anthropic/24-cache-hit-stream", target): ("messages[0].content[0].cache_control", "thinking.budget_tokens")
        for target in (CHAT, RESPONSES)
    },
    **{("deepseek/11-tool-result-thinking", target): ("reasoning_content",) for target in (RESPONSES, ANTHROPIC)},
}


@one_test_per_group(pairs(RECORDINGS), group=both_dialects, name=recording_name)
def test_recorded_request_reaches_every_other_dialect_or_is_refused_by_field(pair: Pair) -> None:
    recording, target = pair
    caller_dialect, target_dialect = CHAT_DIALECTS[recording.dialect], CHAT_DIALECTS[target]
    raw = json.dumps(recording.request_body).encode()
    if recording.name in INVALID_REQUESTS:
        with pytest.raises(InvalidRequest) as wrong:
            caller_dialect.parse_request(raw)
        assert wrong.value.param == INVALID_REQUESTS[recording.name]
        return
    chat = caller_dialect.read_request(caller_dialect.parse_request(raw).body)
    chat = inline_media(
        chat,
        target_dialect.inline_media_kinds,
        {each: Inline("application/pdf", "JVBE") for each in media_urls(chat, target_dialect.inline_media_kinds)},
    )
    drop_policy = DropPolicy(lambda _: False, caller_dialect.field_names, "the target")
    refused = REFUSED_PARAM.get((recording.name, target))
    if refused is not None:
        with pytest.raises(Unsupported) as refusal:
            target_dialect.write_request(chat, drop_policy)
        assert refusal.value.param == refused
        return
    body = target_dialect.write_request(chat, drop_policy)
    assert sorted(drop_policy.dropped) == sorted(REPORTED_DROPS.get((recording.name, target), ()))
    reread = target_dialect.read_request(target_dialect.parse_request(Body({"max_tokens": 1000, **body}).write()).body)
    expected, carried = comparable_request(chat, target), comparable_request(reread, target)
    if (recording.name, target) in INSTRUCTIONS_ONLY:
        assert [each[0] for each in carried.pop("messages")] == ["user"] and [each[0] for each in expected.pop("messages")] == ["system"]
    if "thinking.budget_tokens" in drop_policy.dropped:
        assert carried.pop("effort") is not None and expected.pop("effort") is None
    assert carried == expected


def comparable_request(chat: ChatRequest, target: str) -> dict[str, Any]:
    """Returns what a request asks for, in a form that compares across dialects."""
    output = chat.output
    return {
        "messages": [part for message in chat.messages for part in _comparable_parts(message, target)],
        "tools": [(each.name, each.description or "", each.strict or False) for each in chat.tools if isinstance(each, Tool)],
        "schemas": [json.loads(bytes(each.parameters or b"{}")) for each in chat.tools if isinstance(each, Tool)],
        "tool_choice": chat.tool_choice,
        "parallel_calls": chat.parallel_calls,
        "output": _schema(output) if isinstance(output, JsonSchema) else output,
        "effort": chat.thinking.effort if chat.thinking else None,
        **{name: getattr(chat, name) for name in ("temperature", "top_p", "top_k", "stop", "seed", "user", "logprobs")},
    }


def _schema(output: JsonSchema) -> dict[str, Any]:
    """The schema with its description, wherever the request has it."""
    return {**({"description": output.description} if output.description else {}), **json.loads(bytes(output.schema))}


def _comparable_parts(message: Message, target: str) -> list[Any]:
    """Each part with its role. Anthropic has one role for instructions; reasoning is left out, because it is dropped with its signature."""
    role = "system" if message.role == "developer" and target == ANTHROPIC else message.role
    parts: list[Any] = []
    for part in message.parts:
        match part:
            case Text(text=""):
                pass
            case Text():
                parts.append((role, part.text))
            case Image() | File() | Audio():
                parts.append((role, type(part).__name__, part.source))
            case ToolCall():
                parts.append((role, part.id, part.name, json.loads(part.arguments)))
            case ToolResult():
                parts.append((role, part.id, [each.text for each in part.parts if isinstance(each, Text)]))
            case _:
                pass
    if target == CHAT and role == "assistant":
        # A chat message keeps no order of texts and calls: here texts come first.
        parts.sort(key=len)
    return parts
