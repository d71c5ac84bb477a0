"""The byte edit of chat: our fields are replaced, the rest stays the engine's own bytes.

Replaced are id, model, episode_id, usage, and the name of the reasoning field (`reasoning` of vLLM >= 0.16 and Ollama becomes the
documented `reasoning_content`). Content that is a list becomes the string that OpenAI's clients expect (flatten_content.py), search
results are also sent as annotations (search_results.py), a text completion in place of a chat completion becomes one, and tool calls
are repaired so that clients can put them together (repair_tool_calls.py).
"""

import re

import msgspec
from msgspec import Raw, Struct

from providers import wire
from providers.canonical.chat import Usage
from providers.canonical.errors import InvalidUpstreamResponse
from providers.canonical.finish_reasons import OPENAI_REASONS, check_failure, recorded_finish_reason
from providers.canonical.loose_types import with_expected_types
from providers.canonical.model_names import read_model_name
from providers.canonical.raw_json import DECODE_ERRORS, NULL, Body
from providers.canonical.timestamps import whole_seconds
from providers.canonical.token_estimate import written_tokens
from providers.canonical.upstream_errors import find_error
from providers.dialect import OutboundResponse, ResponseMeta
from providers.dialects.openai.answers import check_answered
from providers.dialects.openai.choice_heads import ChoiceHead
from providers.dialects.openai.finish_reasons import normalize_finish_reasons
from providers.dialects.openai.service_tiers import write_service_tier
from providers.dialects.openai.stream_editor import OpenAIStreamEditor
from providers.dialects.openai.usage import groq_usage, normalize_usage, write_usage
from providers.dialects.openai_chat.deduplicate_roles import ROLE_KEY, RoleDeduplicator
from providers.dialects.openai_chat.flatten_content import find_content_list, flatten_content
from providers.dialects.openai_chat.reasoning_details_buffer import ReasoningDetailsBuffer
from providers.dialects.openai_chat.repair_tool_calls import TOOL_CALLS_KEY, ToolCallRepair, choices_with_calls, repair_tool_calls
from providers.dialects.openai_chat.search_results import has_sources, with_annotations

_EMPTY = Raw(b'""')
_ROLE = Raw(b'"assistant"')
_NO_DELTA = Raw(b"{}")
_STOP, _TOOL_CALLS = Raw(b'"stop"'), Raw(b'"tool_calls"')

# Choices without any of these need no change. One search costs half of three.
_needs_normalizing = re.compile(rb'"(?:text"|reasoning"|tool_calls"|content"\s*:\s*\[)').search


class _Object(Struct, gc=False):
    """An object of which only its presence counts."""


class _CompleteChoice(ChoiceHead):
    message: _Object | None = None
    delta: _Object | None = None
    text: Raw = NULL


_read_complete_choices = msgspec.json.Decoder(list[_CompleteChoice]).decode
_choices_decoder = msgspec.json.Decoder(list[dict[str, Raw]])
_message_decoder = msgspec.json.Decoder(dict[str, Raw])


def edit_response(raw: bytes, meta: ResponseMeta) -> OutboundResponse:
    """A complete response. Raises InvalidUpstreamResponse, or the error that an engine reported with status 200."""
    edited = wire.edit_chat(raw, meta.id, meta.episode_id, meta.model)
    if edited is not None:
        raw, input, output, finish_reason, model = edited
        return OutboundResponse(raw, Usage(input, output), finish_reason, model)
    return _edit_decoded(raw, meta)


def _edit_decoded(raw: bytes, meta: ResponseMeta) -> OutboundResponse:
    body = Body.read_response(raw)
    error = find_error(body)
    if error is not None:
        raise error
    choices = body.get("choices", NULL)
    try:
        heads = _read_complete_choices(choices)
        raw_usage = body["usage"] if body.has_value("usage") else groq_usage(body.get("x_groq", NULL))
        usage = estimate = None
        service_tier = body.value("service_tier") if "service_tier" in body else None
        if raw_usage is not None:
            usage, edited_usage = normalize_usage(raw_usage, service_tier)
            if edited_usage is not raw_usage:
                body["usage"] = edited_usage
        if usage is None:
            estimate = written_tokens(bytes(choices))
            body["usage"] = write_usage(meta.estimate_usage(estimate))
        original_choices = bytes(choices)
        has_other_reason = any([head.finish_reason not in OPENAI_REASONS for head in heads])
        original_heads = heads if has_other_reason else None
        normalized = _normalize_choices(
            normalize_finish_reasons(original_choices, empty_as=_STOP) if has_other_reason else original_choices,
            stops_after_calls=meta.stops_after_calls,
        )
        if original_heads is not None:
            normalized = _with_missing_reasons(normalized, original_heads)
        if normalized is not original_choices:
            heads = _read_complete_choices(normalized)
        body["choices"] = Raw(normalized)
        if has_sources(body):
            body["choices"] = with_annotations(body, "message") or body["choices"]
    except DECODE_ERRORS as exc:
        corrected = with_expected_types(raw)
        if corrected is raw:
            raise InvalidUpstreamResponse(f"The engine's answer is not a chat completion: {exc}.") from None
        return _edit_decoded(corrected, meta)
    if not heads:
        raise InvalidUpstreamResponse("The engine's answer has no choices.")
    for head in heads:
        if head.error is not NULL:
            check_failure(head.finish_reason, head.error)
        if head.message is None and head.delta is None and head.text == NULL:
            raise InvalidUpstreamResponse("A choice of the engine's answer has no message.")
    if original_heads is not None or usage is None or not (usage.input or usage.output):
        original_reason = heads[0].finish_reason if original_heads is None else original_heads[0].finish_reason
        check_answered(original_choices, original_reason and heads[0].finish_reason, usage)
    model = read_model_name(body.get("model"))
    body["id"], body["episode_id"], body["model"] = meta.id, meta.episode_id, meta.model
    body["object"] = "chat.completion"
    created = body.get("created", NULL)
    if created == NULL or bytes(created)[:1] == b'"':
        body["created"] = whole_seconds(created, meta.created)
    if not body.has_value("system_fingerprint"):
        body["system_fingerprint"] = _EMPTY
    # Official clients do not know Groq's `on_demand`.
    if service_tier is None or write_service_tier(service_tier) is None:
        body["service_tier"] = NULL  # official clients take a known tier or null
    finish_reason = min(heads, key=_choice_index).finish_reason
    if original_heads is not None and finish_reason == "stop":
        finish_reason = recorded_finish_reason("stop", min(original_heads, key=_choice_index).finish_reason)
    return OutboundResponse(body.write(), usage, finish_reason, model, estimate)


def _normalize_choices(choices: bytes, *, stops_after_calls: bool) -> bytes:
    if _needs_normalizing(choices) is None:
        return choices
    if b'"text"' in choices:
        choices = _from_text_completion(choices, "message")
    if find_content_list(choices) is not None:
        choices = flatten_content(choices, "message")
    if b'"reasoning"' in choices:
        choices = _rename_reasoning(choices, "message")
    if TOOL_CALLS_KEY not in choices:
        return choices
    return (
        _with_tool_calls_reason(repair_tool_calls(choices), choices_with_calls(choices, "message"))
        if stops_after_calls
        else repair_tool_calls(choices)
    )


def _with_missing_reasons(choices: bytes, original_heads: list[_CompleteChoice]) -> bytes:
    """The choices with `tool_calls` in place of `stop` where the engine gave no reason, and calls came."""
    missing = frozenset(head.index or 0 for head in original_heads if not head.finish_reason)
    return _with_tool_calls_reason(choices, missing & choices_with_calls(choices, "message")) if missing else choices


def _choice_index(head: ChoiceHead) -> int:
    return head.index or 0


def stream_editor(meta: ResponseMeta) -> OpenAIStreamEditor:
    return _ChatStreamEditor(meta)


class _ChatStreamEditor(OpenAIStreamEditor):
    _has_deltas = True

    def __init__(self, meta: ResponseMeta) -> None:
        self._normalizer = _ChoiceNormalizer(stops_after_calls=meta.stops_after_calls)
        super().__init__(meta, meta.id, "chat.completion.chunk", self._normalizer.normalize)

    def _keeps_texts(self) -> bool:
        return not self._normalizer.awaits_more

    def _with_meta(self, body: Body) -> Body:
        if has_sources(body) and "choices" in body:
            body["choices"] = with_annotations(body, "delta") or body["choices"]
        return super()._with_meta(body)


class _ChoiceNormalizer:
    """Converts the choices of each chunk to what OpenAI's API promises. One per stream.

    normalize() returns the same object if nothing has to change.
    """

    def __init__(self, *, stops_after_calls: bool) -> None:
        self._tool_call_repair = ToolCallRepair()
        self._role_deduplicator = RoleDeduplicator()
        self._details_buffer = ReasoningDetailsBuffer()
        self._stops_after_calls = stops_after_calls
        self._choices_with_calls: frozenset[int] = frozenset()

    @property
    def awaits_more(self) -> bool:
        """Whether what came before changes later choices, such as their finish reason."""
        return bool(self._choices_with_calls) or self._details_buffer.holds_details or self._tool_call_repair.awaits_end

    def normalize(self, choices: bytes) -> bytes:
        if self._stops_after_calls:
            if TOOL_CALLS_KEY in choices:
                self._choices_with_calls |= choices_with_calls(choices, "delta")
            return _with_tool_calls_reason(self._normalize_deltas(choices), self._choices_with_calls)
        return self._normalize_deltas(choices)

    def _normalize_deltas(self, choices: bytes) -> bytes:
        if b'"delta"' not in choices:
            choices = _with_deltas(choices)
        if ROLE_KEY in choices:
            choices = self._role_deduplicator.drop_repeated_roles(choices)
        choices = self._details_buffer.buffer_details(choices)
        if _needs_normalizing(choices) is None:
            return self._tool_call_repair.repair_chunk(choices) if self._tool_call_repair.awaits_end else choices
        if b'"text"' in choices:
            choices = _from_text_completion(choices, "delta")
        if find_content_list(choices) is not None:
            choices = flatten_content(choices, "delta")
        if b'"reasoning"' in choices:
            choices = _rename_reasoning(choices, "delta")
        if TOOL_CALLS_KEY in choices or self._tool_call_repair.awaits_end:
            return self._tool_call_repair.repair_chunk(choices)
        return choices


def _with_tool_calls_reason(choices: bytes, with_calls: frozenset[int]) -> bytes:
    """The choices with `tool_calls` in place of `stop` for those, by index, that have made tool calls."""
    if not with_calls or b'"stop"' not in choices:
        return choices
    decoded = _choices_decoder.decode(choices)
    for choice in decoded:
        if choice.get("finish_reason") == _STOP and (msgspec.json.decode(choice.get("index", NULL)) or 0) in with_calls:
            choice["finish_reason"] = _TOOL_CALLS
    return msgspec.json.encode(decoded)


def _from_text_completion(choices: bytes, message_key: str) -> bytes:
    """The choices with a message or delta in place of `text`, which a text completion has."""
    decoded = _choices_decoder.decode(choices)
    changed = False
    for choice in decoded:
        if "text" in choice and message_key not in choice:
            changed = True
            choice[message_key] = Raw(msgspec.json.encode({"role": _ROLE, "content": choice.pop("text")}))
    return msgspec.json.encode(decoded) if changed else choices


def _with_deltas(choices: bytes) -> bytes:
    """The choices with a delta each, which clients read: later chunks of Azure hold only the results of its content filter.

    Source: https://learn.microsoft.com/azure/ai-foundry/openai/concepts/content-streaming, read 2026-11.
    """
    decoded = _choices_decoder.decode(choices)
    without_delta = [choice for choice in decoded if "text" not in choice and "message" not in choice]
    for choice in without_delta:
        choice["delta"] = _NO_DELTA
    return msgspec.json.encode(decoded) if without_delta else choices


def _rename_reasoning(choices: bytes, message_key: str) -> bytes:
    """The choices with `reasoning` renamed to `reasoning_content`. If an engine sends both (vLLM 0.12 to 0.15), nothing changes."""
    renamed = _choices_decoder.decode(choices)
    for choice in renamed:
        message = _message_decoder.decode(choice[message_key]) if message_key in choice and choice[message_key] != NULL else {}
        if "reasoning" in message and message.pop("reasoning_content", NULL) == NULL:
            choice[message_key] = Raw(
                msgspec.json.encode({("reasoning_content" if key == "reasoning" else key): value for key, value in message.items()})
            )
    return msgspec.json.encode(renamed)
