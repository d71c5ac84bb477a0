"""The byte edit of completions: our fields are replaced, the rest stays the engine's own bytes.

Replaced are id, model, episode_id, usage, and a `text` of null, which official clients do not accept.
"""

import msgspec
from msgspec import Raw, Struct

from providers.canonical.errors import InvalidUpstreamResponse
from providers.canonical.finish_reasons import OPENAI_REASONS, check_failure, recorded_finish_reason
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
from providers.dialects.openai.usage import normalize_usage, write_usage

_EMPTY = Raw(b'""')
_STOP = Raw(b'"stop"')
_OBJECT = "text_completion"
# Told apart from a null by its identity: engines send null for an empty text.
_ABSENT = Raw(b"null")


class _TextField(Struct):
    text: Raw = NULL


class _CompleteChoice(ChoiceHead):
    text: Raw = _ABSENT


_read_complete_choices = msgspec.json.Decoder(list[_CompleteChoice]).decode


_decode_texts = msgspec.json.Decoder(list[_TextField]).decode
_decode_choices = msgspec.json.Decoder(list[dict[str, Raw]]).decode


def edit_response(raw: bytes, meta: ResponseMeta) -> OutboundResponse:
    """A complete response. Raises InvalidUpstreamResponse, or the error that an engine reported with status 200."""
    body = Body.read_response(raw)
    error = find_error(body)
    if error is not None:
        raise error
    choices = body.get("choices", NULL)
    try:
        heads = _read_complete_choices(choices)
        normalized = _normalize_choices(bytes(choices))
        original_reason = min(heads, key=_choice_index).finish_reason if heads else None
        if any([head.finish_reason not in OPENAI_REASONS for head in heads]):
            normalized = normalize_finish_reasons(normalized, empty_as=_STOP)
            heads = _read_complete_choices(normalized)
        body["choices"] = Raw(normalized)
    except DECODE_ERRORS as exc:
        raise InvalidUpstreamResponse(f"The engine's answer is not a completion: {exc}.") from None
    if not heads:
        raise InvalidUpstreamResponse("The engine's answer has no choices.")
    for head in heads:
        if head.error is not NULL:
            check_failure(head.finish_reason, head.error)
        if head.text is _ABSENT:
            raise InvalidUpstreamResponse("A choice of the engine's answer has no text.")
    usage = estimate = None
    service_tier = body.value("service_tier") if "service_tier" in body else None
    if body.has_value("usage"):
        usage, body["usage"] = normalize_usage(body["usage"], service_tier)
    if usage is None:
        estimate = written_tokens(bytes(choices))
        body["usage"] = write_usage(meta.estimate_usage(estimate))
    if not original_reason or usage is None or not (usage.input or usage.output):
        check_answered(bytes(choices), original_reason and heads[0].finish_reason, usage)
    if "service_tier" in body and write_service_tier(service_tier) is None:
        del body["service_tier"]
    model = read_model_name(body.get("model"))
    body["id"], body["episode_id"], body["model"] = f"cmpl-{meta.id}", meta.episode_id, meta.model
    body["object"] = _OBJECT
    created = body.get("created", NULL)
    if created == NULL or bytes(created)[:1] == b'"':
        body["created"] = whole_seconds(created, meta.created)
    finish_reason = recorded_finish_reason(min(heads, key=_choice_index).finish_reason, original_reason)
    return OutboundResponse(body.write(), usage, finish_reason, model, estimate)


def _choice_index(head: ChoiceHead) -> int:
    return head.index or 0


def stream_editor(meta: ResponseMeta) -> OpenAIStreamEditor:
    return OpenAIStreamEditor(meta, f"cmpl-{meta.id}", _OBJECT, _normalize_choices)


def _normalize_choices(choices: bytes) -> bytes:
    texts = _decode_texts(choices)
    if all(choice.text != NULL for choice in texts):
        return choices
    return msgspec.json.encode(
        [{**choice, "text": _EMPTY} if choice.get("text", NULL) == NULL else choice for choice in _decode_choices(choices)]
    )
