"""Real recordings of hosts that speak the three chat dialects, as targets for callers of all three: every answer means the same to each.

They belong to others and are not part of this project: without the folder beside it, nothing here is tried, and that is said.
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
from providers.canonical.raw_json import Body
from providers.dialect import DropPolicy
from providers.dialects.catalogue import CHAT_DIALECTS
from providers.structured_output import JsonSchema
from tests.conformance.crossing import CALLERS, crossed
from tests.conformance.expected import summary
from tests.conformance.situations import ALL, ANTHROPIC, CHAT, RESPONSES

FOLDER = Path(__file__).parents[2].parent / "shared" / "exchanges"
if not FOLDER.is_dir():
    pytest.skip("the recordings of real hosts (../shared/exchanges) are not on this machine", allow_module_level=True)

HOSTS = ("openai", "anthropic", "deepseek", "xai")
ROUTES = {"/chat/completions": CHAT, "/responses": RESPONSES, "/messages": ANTHROPIC}


class Recording(Struct, frozen=True):
    """One recorded exchange, of a host that speaks `dialect`. `raw`: its answer; empty if it was an error."""

    name: str
    dialect: str
    asked: dict[str, Any]
    raw: bytes
    streamed: bool


def recordings() -> list[Recording]:
    found: list[Recording] = []
    for host in HOSTS:
        for path in sorted((FOLDER / host).glob("*.json")):
            told = json.loads(path.read_text())
            route = told["path"].partition("?")[0]
            dialect = next((name for end, name in ROUTES.items() if route.endswith(end)), None)
            if told["fidelity"] != "recorded" or dialect is None:
                continue
            body = told["response_body"] if told["status"] == 200 else b""
            raw = body if isinstance(body, bytes) else body.encode() if isinstance(body, str) else json.dumps(body).encode()
            found.append(Recording(f"{host}/{path.stem}", dialect, told["request_body"], raw, isinstance(body, str)))
    return found


EVERY = recordings()
ANSWERED = [each for each in EVERY if each.raw]


def pairs(recordings: list[Recording]) -> list[Any]:
    return [pytest.param(each, caller, id=f"{caller}<-{each.name}") for each in recordings for caller in ALL if caller != each.dialect]


def test_every_recording_is_played():
    assert (len(EVERY), len(ANSWERED)) >= (75, 60)
    assert {each.dialect for each in ANSWERED if each.streamed} == set(ALL)


@pytest.mark.parametrize(("recording", "caller"), pairs(ANSWERED))
def test_an_answer_means_the_same_to_every_caller(recording: Recording, caller: str):
    """Heard through the caller's official SDK: its parts as they are when they are sent back with the next request."""
    target = CHAT_DIALECTS[recording.dialect]
    if recording.streamed:
        reader = target.stream_reader()
        told = assemble_response([*reader.feed(recording.raw), *reader.finish()])
    else:
        told = target.read_response(recording.raw)
    (choice,) = told.choices
    dialect, sdk = CHAT_DIALECTS[caller], CALLERS[caller]
    for streamed in (True, False):
        answer = crossed(recording.raw, recording.dialect, caller, arrives_streamed=recording.streamed, streamed=streamed)
        taken = sdk.take(answer, streamed=streamed)
        loss = LOSSES.get((recording.name, caller))
        expected = choice if loss is None else loss(choice, streamed)
        asked = dialect.parse_request(json.dumps(sdk.next_ask(taken)).encode())
        back = [each for each in dialect.read_request(asked.body).messages if each.role == "assistant"]
        assert [part for message in back for part in summary(message, caller)] == summary(Message("assistant", expected.parts), caller)
        heard = dialect.read_response(taken.model_dump_json(exclude_unset=True).encode())
        assert counted(heard.usage) == counted(told.usage, unheard=UNHEARD[caller])
        assert [rest(each, caller) for each in heard.choices] == [rest(expected, caller)]


def refusal_in_words(told: Choice, _: bool) -> Choice:
    """Anthropic has no part for a refusal: it is told as text, and as the stop reason `refusal`."""
    return replace(told, parts=tuple(Text(part.text) for part in told.parts if isinstance(part, Refusal)), finish_reason="content_filter")


def cut_off_in_the_sdk(told: Choice, streamed: bool) -> Choice:
    """Of a call that was cut off, Anthropic's SDK keeps what is JSON of a stream; a whole answer holds all of it."""
    (call,) = told.parts
    assert isinstance(call, ToolCall)
    return replace(told, parts=(replace(call, arguments="{}"),)) if streamed else told


# What a caller's dialect has no word for, by recording, and what it is told instead.
LOSSES: Mapping[tuple[str, str], Callable[[Choice, bool], Choice]] = {
    ("openai/14-chat-refusal", ANTHROPIC): refusal_in_words,
    ("openai/15-chat-refusal-stream", ANTHROPIC): refusal_in_words,
    ("openai/23-chat-length-tool-stream", ANTHROPIC): cut_off_in_the_sdk,
}


def rest(choice: Choice, caller: str) -> Any:
    """What of an answer beside its parts this caller's dialect can say: logprobs are not for Anthropic's callers."""
    logprobs = [] if caller == ANTHROPIC else [json.loads(bytes(each)) for each in choice.logprobs or ()]
    return choice.finish_reason, logprobs, urls(choice.parts)


def urls(parts: Any) -> list[str]:
    return [each.url for part in parts for each in getattr(part, "citations", ()) if each.url]


# Parts of usage that a caller's API has no word for.
UNHEARD: Mapping[str, frozenset[str]] = {
    CHAT: frozenset({"cache_written_hour"}),
    RESPONSES: frozenset({"cache_written_hour", "audio_input", "audio_output", "image_input"}),
    ANTHROPIC: frozenset({"audio_input", "audio_output", "image_input"}),
}


def counted(usage: Usage | None, unheard: frozenset[str] = frozenset()) -> Usage:
    """What is not told compares as none."""
    told = replace(usage or Usage(), **dict.fromkeys(unheard))
    return replace(told, **{name: getattr(told, name) or 0 for name in Usage.__struct_fields__ if name != "tier"})


# Requests that their own host refused too, and so do we, whatever the target: by the field that we name.
WRONG = {
    "openai/38-error-400-c": "messages",
    "openai/39-error-400-d": "max_tokens",
    "anthropic/32-error-400-a": "temperature",
    "anthropic/33-error-400-b": "tools.0.input_schema",
    "anthropic/34-error-400-c": "tools.0.input_schema.type",
}
BREAKPOINTS = ("openai/01-chat-plain", "openai/26-chat-cache-hit")
# DeepSeek's `thinking` is a field of its chat alone.
DEEPSEEK_THINKING = {each.name for each in EVERY if each.dialect == CHAT and "thinking" in each.asked}
# Instructions alone are no conversation for Anthropic: there, they are the user's message.
ALONE = {("openai/03-chat-developer-role", ANTHROPIC)}

# Which recorded requests the other dialects cannot say, and the field that is named; every other is carried.
REFUSED: Mapping[tuple[str, str], str] = {
    ("openai/18-chat-audio-input", ANTHROPIC): "messages[0].content[1]",
    ("openai/44-chat-audio-output", RESPONSES): "audio",
    ("openai/44-chat-audio-output", ANTHROPIC): "audio",
    ("anthropic/25-stop-sequence", RESPONSES): "stop_sequences",
    ("xai/18-responses-web-search", CHAT): "tools[0]",
    ("xai/18-responses-web-search", ANTHROPIC): "tools[0]",
    **{(each.name, target): "thinking" for each in EVERY if each.name in DEEPSEEK_THINKING for target in (RESPONSES, ANTHROPIC)},
    ("deepseek/24-error-400-c", ANTHROPIC): "messages[0].content[1]",
}
# What is reported although the request is carried: hints.
DROPPED: Mapping[tuple[str, str], tuple[str, ...]] = {
    **{(name, RESPONSES): ("messages[0].content[0].prompt_cache_breakpoint",) for name in BREAKPOINTS},
    **{
        (name, ANTHROPIC): ("prompt_cache_key", "prompt_cache_options", "messages[0].content[0].prompt_cache_breakpoint")
        for name in BREAKPOINTS
    },
    **{(each.name, ANTHROPIC): ("store",) for each in EVERY if each.dialect == RESPONSES and "store" in each.asked},
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


@pytest.mark.parametrize(("recording", "target"), pairs(EVERY))
def test_a_request_is_carried_to_every_target_or_refused_by_name(recording: Recording, target: str):
    ours, theirs = CHAT_DIALECTS[recording.dialect], CHAT_DIALECTS[target]
    raw = json.dumps(recording.asked).encode()
    if recording.name in WRONG:
        with pytest.raises(InvalidRequest) as wrong:
            ours.parse_request(raw)
        assert wrong.value.param == WRONG[recording.name]
        return
    chat = ours.read_request(ours.parse_request(raw).body)
    chat = inline_media(
        chat, theirs.inline_media_kinds, {each: Inline("application/pdf", "JVBE") for each in media_urls(chat, theirs.inline_media_kinds)}
    )
    concessions = DropPolicy(lambda _: False, ours.field_names, "the target")
    refused = REFUSED.get((recording.name, target))
    if refused is not None:
        with pytest.raises(Unsupported) as told:
            theirs.write_request(chat, concessions)
        assert told.value.param == refused
        return
    body = theirs.write_request(chat, concessions)
    assert sorted(concessions.dropped) == sorted(DROPPED.get((recording.name, target), ()))
    again = theirs.read_request(theirs.parse_request(Body({"max_tokens": 1000, **body}).write()).body)
    asked, carried = said(chat, target), said(again, target)
    if (recording.name, target) in ALONE:
        assert [told[0] for told in carried.pop("messages")] == ["user"] and [told[0] for told in asked.pop("messages")] == ["system"]
    if "thinking.budget_tokens" in concessions.dropped:
        assert carried.pop("effort") is not None and asked.pop("effort") is None
    assert carried == asked


def said(chat: ChatRequest, target: str) -> dict[str, Any]:
    """What a request asks for, so that it compares across dialects."""
    output = chat.output
    return {
        "messages": [told for message in chat.messages for told in _message(message, target)],
        "tools": [(each.name, each.description or "", each.strict or False) for each in chat.tools if isinstance(each, Tool)],
        "schemas": [json.loads(bytes(each.parameters or b"{}")) for each in chat.tools if isinstance(each, Tool)],
        "tool_choice": chat.tool_choice,
        "parallel_calls": chat.parallel_calls,
        "output": _schema(output) if isinstance(output, JsonSchema) else output,
        "effort": chat.thinking.effort if chat.thinking else None,
        **{name: getattr(chat, name) for name in ("temperature", "top_p", "top_k", "stop", "seed", "user", "logprobs")},
    }


def _schema(output: JsonSchema) -> dict[str, Any]:
    """With its description, wherever that was said."""
    return {**({"description": output.description} if output.description else {}), **json.loads(bytes(output.schema))}


def _message(message: Message, target: str) -> list[Any]:
    """Each part with who says it. Anthropic has one role for instructions; what thinking said goes with its seal."""
    role = "system" if message.role == "developer" and target == ANTHROPIC else message.role
    told: list[Any] = []
    for part in message.parts:
        match part:
            case Text(text=""):
                pass
            case Text():
                told.append((role, part.text))
            case Image() | File() | Audio():
                told.append((role, type(part).__name__, part.source))
            case ToolCall():
                told.append((role, part.id, part.name, json.loads(part.arguments)))
            case ToolResult():
                told.append((role, part.id, [each.text for each in part.parts if isinstance(each, Text)]))
            case _:
                pass
    if target == CHAT and role == "assistant":
        # Chat has no order among them: texts, then calls.
        told.sort(key=len)
    return told
