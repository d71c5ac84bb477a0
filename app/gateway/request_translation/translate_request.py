"""A request, translated for a target: from the top, the story of a translation.

    edit_at_once()        the caller's bytes are edited, and nothing else is needed, as mostly
    translate_request()   with names of tools that the target takes, and as a request for a summary where a compaction is asked for
    _with_functions()     with functions in place of tools for free text, where the target takes only those
    _in_parts()           in parts, where the target takes only those
    _with_output()        with the output format in the prompt, where the target has no field for it
    _with_tools()         with the tools in the prompt, where the target takes none
    _translate()          by one of three ways: a route or an operation (translate_route.py), an edit of the caller's bytes
                          (edit_request.py), or a chat that is written anew (translate_chat.py)

Each step first does without its own means: what a target takes as it is, is sent as it is. What a step sends is written from a form of the
request of its own (source_request.py), and fields that no target gets go by dropped_fields.py.
"""

import functools
from collections.abc import Sequence

from msgspec.structs import replace

from app.domain.routing import Target
from app.gateway.emulation.emulation import add_compaction, add_custom_tools, add_field
from app.gateway.fleet.endpoint import Endpoint
from app.gateway.request_translation.candidate_dialects import choose_dialects
from app.gateway.request_translation.compacted_chat import with_compaction
from app.gateway.request_translation.edit_request import edit_request
from app.gateway.request_translation.output_in_prompt import add_instructed_output, instruct_output
from app.gateway.request_translation.recipient import USUAL_TERMS, Recipient, TargetTerms
from app.gateway.request_translation.source_request import DIALECTS_WITH_CUSTOM_TOOLS, SourceRequest
from app.gateway.request_translation.split_request import split_source
from app.gateway.request_translation.target_media import inline_media_for_engine, leave_out_images
from app.gateway.request_translation.tools_in_prompt import (
    add_emulated_tools,
    emulate_tools,
    may_emulate_tools,
    with_custom_tools,
    with_tool_names,
)
from app.gateway.request_translation.translate_chat import translate_chat
from app.gateway.request_translation.translate_route import translate_host_operation, translate_route
from app.gateway.request_translation.translated_request import RequestPart, TranslatedRequest
from app.gateway.response_translation.dialect_pair import AnyDialect
from providers.canonical.errors import NarthexError, Unsupported
from providers.dialect_rule import DialectRule
from providers.engine_routes.route import Route


def edit_at_once(source: SourceRequest, endpoint: Endpoint, target: Target, terms: TargetTerms) -> TranslatedRequest | None:
    """The edited bytes, where translate_request() would do nothing else; None where it has to find out, or to refuse the request."""
    provider, caller_terms, dialect = endpoint.provider, source.terms, source.terms.dialect
    if (
        source.large_requests is not None
        or source.constraint is not None
        or source.chat is not None
        or source.request.raw_prompt
        or source.request.compacts
        or caller_terms.own_rules
        or target.dialect is not None
        or provider.tool_names is not None
        or (provider.host_operations and dialect.name in provider.host_operations)
        or provider.learned_rules.has_any
        or (provider.is_self_hosted and source.may_name_media)
    ):
        return None
    spoken, used_ids = endpoint.dialects_for(target.model), source.used_ids.count
    if spoken.rule is not None or dialect.name not in spoken.names:
        return None
    try:
        edited = edit_request(source, Recipient(provider, target, terms))
    except NarthexError:
        edited = None
    if edited is None or edited.dropped:
        source.used_ids.count = used_ids
        return None
    return edited


async def translate_request(
    source: SourceRequest, endpoint: Endpoint, target: Target, terms: TargetTerms = USUAL_TERMS
) -> TranslatedRequest:
    """The request in the endpoint's best dialect that can express it.

    Where the endpoint takes it only so, it is in parts, or its tools or output format are in the prompt. Raises Unsupported for what its
    best dialect cannot express, if none can; OperationNotSupported if it has no such API at all.
    """
    recipient = Recipient(endpoint.provider, target, terms)
    if endpoint.provider.tool_names is not None and source.has_tools:
        source = await with_tool_names(source, endpoint.provider.tool_names, endpoint.dialects_for(target.model).names)
    if source.request.compacts and not endpoint.provider.is_openai_host:
        asking, compaction = await with_compaction(source)
        translated = await _with_functions(asking, endpoint, recipient)
        return replace(translated, emulation=add_compaction(translated.emulation, compaction))
    if "tools" in source.request.body or source.request.has_context_items:
        may_have_custom_tools = source.terms.dialect.name in DIALECTS_WITH_CUSTOM_TOOLS and source.may_have_custom_tools
    else:
        may_have_custom_tools = False
    if may_have_custom_tools:
        return await _with_functions(source, endpoint, recipient)
    return await _in_parts(source, endpoint, recipient)


async def _with_functions(source: SourceRequest, endpoint: Endpoint, recipient: Recipient) -> TranslatedRequest:
    """The translation, with functions in place of tools for free text if the endpoint takes none. Raises as translate_request() does."""
    refusal: Unsupported | None = None
    if not DIALECTS_WITH_CUSTOM_TOOLS.isdisjoint(endpoint.dialects_for(recipient.target.model).names):
        try:
            return await _in_parts(source, endpoint, recipient)
        except Unsupported as reason:
            refusal = reason
    converted = await with_custom_tools(source)
    if converted is None:
        if refusal is not None:
            raise refusal
        return await _in_parts(source, endpoint, recipient)
    translated = await _in_parts(converted[0], endpoint, recipient)
    return replace(translated, emulation=add_custom_tools(translated.emulation, converted[1]))


async def _in_parts(source: SourceRequest, endpoint: Endpoint, recipient: Recipient) -> TranslatedRequest:
    """The translation, in parts if the endpoint takes it only so. Raises as translate_request() does."""
    try:
        return await _with_output(source, endpoint, recipient)
    except Unsupported as reason:
        parts = split_source(source, reason)
        if not parts:
            raise
        first = await _with_output(parts[0], endpoint, recipient)
        emulation = add_field(first.emulation, reason.param or "")
        requests = [RequestPart(functools.partial(_with_output, part, endpoint, recipient), part.request.input_tokens) for part in parts]
        return replace(first, emulation=emulation, parts=requests)


async def _with_output(source: SourceRequest, endpoint: Endpoint, recipient: Recipient) -> TranslatedRequest:
    """The translation, with the output format in the prompt if the endpoint takes none. Raises as translate_request() does."""
    try:
        return await _with_tools(source, endpoint, recipient)
    except Unsupported:
        instructed = await instruct_output(source)
        if instructed is None:
            raise
    return add_instructed_output(source, await _with_tools(instructed, endpoint, recipient))


async def _with_tools(source: SourceRequest, endpoint: Endpoint, recipient: Recipient) -> TranslatedRequest:
    """The translation, with tools or the demand for a call in the prompt if the endpoint takes none. Raises as translate_request() does."""
    translated: TranslatedRequest | None = None
    refusal: Unsupported | None = None
    try:
        translated = await _translate(source, endpoint, recipient)
        refused = translated.dropped
    except Unsupported as reason:
        refusal, refused = reason, [reason.param or ""]
    if refused and may_emulate_tools(source, recipient.provider, refused):
        for emulating, tools in await emulate_tools(source, recipient.provider, may_replace_output=translated is None):
            try:
                return add_emulated_tools(source, await _translate(emulating, endpoint, recipient), tools)
            except Unsupported as reason:
                refusal = reason
    if translated is not None:
        return translated
    assert refusal is not None
    raise refusal


async def _translate(source: SourceRequest, endpoint: Endpoint, recipient: Recipient) -> TranslatedRequest:
    """The translation of the request as it is. Raises as translate_request() does."""
    provider, caller_dialect = recipient.provider, source.terms.dialect
    if provider.is_self_hosted and source.may_name_media:
        source = await leave_out_images(source, recipient)
        await inline_media_for_engine(source, provider)
    if isinstance(caller_dialect, Route):
        return await source.run_conversion(translate_route, source, caller_dialect, recipient)
    spoken = endpoint.dialects_for(recipient.target.model)
    host_operation = provider.host_operations.get(caller_dialect.name) if provider.host_operations else None
    if host_operation is not None and caller_dialect.name not in spoken.names:
        return await source.run_conversion(translate_host_operation, source, host_operation, recipient)
    dialects, rule = await choose_dialects(source, recipient, spoken)
    return await _translate_into_best(source, recipient, dialects, rule)


async def _translate_into_best(
    source: SourceRequest, recipient: Recipient, dialects: Sequence[AnyDialect], rule: DialectRule | None
) -> TranslatedRequest:
    """The translation into the first dialect that has all fields, else into the first that the gateway can help out. Raises Unsupported."""
    unsupported: Unsupported | None = None
    emulated: TranslatedRequest | None = None
    for dialect in dialects:
        try:
            if dialect is source.terms.dialect:
                edited = await source.run_conversion(edit_request, source, recipient)
                if edited is not None:
                    return edited
            translated = await translate_chat(source, dialect, recipient)
        except Unsupported as reason:
            unsupported = unsupported or reason
            continue
        if rule is not None and dialect.name == rule.dialect:
            return _report_rule(source, translated, rule)
        if translated.emulation is None:
            return translated
        emulated = emulated or translated  # another dialect may have the field
    if emulated is not None:
        return emulated
    assert unsupported is not None
    raise unsupported


def _report_rule(source: SourceRequest, translated: TranslatedRequest, rule: DialectRule) -> TranslatedRequest:
    """The translation, reported with the caller's field for which it went to another API of the host."""
    field = next((name for name in source.request.body if name in rule.fields), "")
    return replace(translated, emulation=add_field(translated.emulation, f"{field} ({rule.dialect})"))
