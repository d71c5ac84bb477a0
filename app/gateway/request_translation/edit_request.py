"""The way of a request whose target speaks the caller's dialect: its bytes are edited."""

from typing import Any

import msgspec

from app.gateway.request_translation.caller_fields import OLDER_TOOL_FIELDS
from app.gateway.request_translation.finish_request import finish_request
from app.gateway.request_translation.learned_adaptation import is_refused_schemas
from app.gateway.request_translation.recipient import Recipient
from app.gateway.request_translation.source_request import SourceRequest
from app.gateway.request_translation.translated_request import TranslatedRequest
from providers.canonical import media
from providers.canonical.errors import InvalidRequest, Unsupported
from providers.canonical.field_names import rename_field_in_error
from providers.canonical.raw_json import Body
from providers.dialects.catalogue import CALLER_CHAT_DIALECTS, RAW_PROMPT_DIALECTS


def edit_request(source: SourceRequest, recipient: Recipient) -> TranslatedRequest | None:
    """The caller's bytes, edited; None where an edit is not enough, so that translate_chat() has to write the request.

    Raises Unsupported for what the target cannot honour, InvalidRequest for what turns out to be wrong.
    """
    request = source.request
    shared_dialect: Any = source.terms.dialect  # the target's, too
    if source.is_rewritten or source.has_engine_constraint_fields or _must_be_written(source, recipient):
        return None
    try:
        edited = finish_request(source, recipient, shared_dialect, Body(request.body), [], source.constraint)
    except Unsupported as reason:
        if source.has_older_tools:
            return None  # translate_chat() writes them, and calls in the history, as tools
        if source.has_openai_tools and (reason.param or "").startswith("tools["):
            return None  # translate_chat() writes the functions of namespaces
        raise reason if request.repair is None else rename_field_in_error(reason, request.repair.original_path) from None
    if edited.dropped and source.has_older_tools and not OLDER_TOOL_FIELDS.keys().isdisjoint(edited.dropped):
        return None
    return edited


def _must_be_written(source: SourceRequest, recipient: Recipient) -> bool:
    """Whether this target needs the request in another form than the caller gave it, in the same dialect."""
    request, provider, model = source.request, recipient.provider, recipient.target.model
    dialect_name = source.terms.dialect.name
    is_chat = dialect_name in CALLER_CHAT_DIALECTS
    if request.raw_prompt and not provider.accepts_raw_prompt and dialect_name not in RAW_PROMPT_DIALECTS:
        return True
    # Tools in items of the input, and searches for tools, are OpenAI's alone.
    if source.has_openai_items and not provider.is_openai_host:
        return True
    # Opaque state must go back to the kind of engine that signed it, or be left out: no engine reads our carriers.
    if is_chat and source.has_carrier():
        return True
    if provider.adapts_own_dialects and provider.must_adapt_as_chat(request.body, dialect_name, model):
        return True
    if source.constraint is not None and is_refused_schemas(source.constraint, recipient, source.terms.own_rules, dialect_name):
        return True
    may_hold_media = is_chat and dialect_name != "openai_completions"
    if may_hold_media and (kinds := provider.inline_media_kinds_in(dialect_name)) and _has_media_urls(source, kinds):
        return True
    # translate_chat() refuses images of Responses at their place, or leaves them out.
    return not request.holds_only_text and b'"input_image"' in source.raw and provider.why_no_images(model) is not None


def _has_media_urls(source: SourceRequest, kinds: frozenset[media.MediaKind]) -> bool:
    """Whether the body names media by URL that must be sent as bytes. False for a body that cannot be read: the host refuses it."""
    body = source.request.body
    if not any(b"url" in bytes(value) for value in body.values() if isinstance(value, msgspec.Raw)):
        return False
    try:
        return bool(media.media_urls(CALLER_CHAT_DIALECTS[source.terms.dialect.name].read_request(body), kinds))
    except InvalidRequest:
        return False
