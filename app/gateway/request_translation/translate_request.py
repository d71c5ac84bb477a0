"""Choose the dialect in which a target gets a request, and translate the request into it."""

import functools

from msgspec.structs import replace

from app.domain.routing import Target
from app.gateway.emulation.emulation import add_field
from app.gateway.fleet.endpoint import Endpoint
from app.gateway.request_translation.learned_adaptation import learned_dialect_rule
from app.gateway.request_translation.translated_request import RequestPart, TranslatedRequest
from app.gateway.request_translation.translator import RequestTranslator
from providers.canonical.errors import Unsupported
from providers.engine_routes.route import Route


async def translate_request(translator: RequestTranslator, endpoint: Endpoint, target: Target) -> TranslatedRequest:
    """The request in the endpoint's best dialect that can express it.

    Where the endpoint takes it only so, it is in parts, or its tools or output format are in the prompt. Raises Unsupported for what its
    best dialect cannot express, if none can; OperationNotSupported if it has no such API at all.
    """
    if endpoint.provider.tool_names is not None and translator.has_tools:
        translator = await translator.rename_tools(endpoint.provider.tool_names, endpoint.dialects_for(target.model).names)
    try:
        return await _translate_or_emulate(translator, endpoint, target)
    except Unsupported as reason:
        parts = translator.split(reason)
        if not parts:
            raise
        first = await _translate_or_emulate(parts[0], endpoint, target)
        emulation = add_field(first.emulation, reason.param or "")
        requests = [
            RequestPart(functools.partial(_translate_or_emulate, part, endpoint, target), part.request.input_tokens) for part in parts
        ]
        return replace(first, emulation=emulation, parts=requests)


async def _translate_or_emulate(translator: RequestTranslator, endpoint: Endpoint, target: Target) -> TranslatedRequest:
    """Translates the request, with tools or the output format in the prompt where the endpoint takes none.

    Raises as translate_request() does.
    """
    try:
        return await _translate_or_emulate_tools(translator, endpoint, target)
    except Unsupported:
        instructing = await translator.instruct_output()
        if instructing is None:
            raise
    return translator.add_instructed_output(await _translate_or_emulate_tools(instructing, endpoint, target))


async def _translate_or_emulate_tools(translator: RequestTranslator, endpoint: Endpoint, target: Target) -> TranslatedRequest:
    """Translates the request, with tools or the demand for a call in the prompt if the endpoint takes none.

    Raises as translate_request() does.
    """
    translated: TranslatedRequest | None = None
    refusal: Unsupported | None = None
    try:
        translated = await _translate(translator, endpoint, target)
        refused = translated.dropped
    except Unsupported as reason:
        refusal, refused = reason, [reason.param or ""]
    if refused and translator.may_emulate_tools(endpoint.provider, refused):
        for emulating, tools in await translator.emulate_tools(endpoint.provider, may_replace_output=translated is None):
            try:
                return translator.add_emulated_tools(await _translate(emulating, endpoint, target), tools)
            except Unsupported as reason:
                refusal = reason
    if translated is not None:
        return translated
    assert refusal is not None
    raise refusal


async def _translate(translator: RequestTranslator, endpoint: Endpoint, target: Target) -> TranslatedRequest:
    """Raises as translate_request() does."""
    provider, caller_dialect = endpoint.provider, translator.caller_dialect
    if provider.is_self_hosted and translator.may_name_media:
        translator = await translator.leave_out_images(provider, target)
        await translator.inline_media_for_engine(provider)
    if isinstance(caller_dialect, Route):
        if translator.is_slow_to_translate:
            return await translator.run_in_thread(translator.translate_route, caller_dialect, provider, target)
        return translator.translate_route(caller_dialect, provider, target)
    spoken = endpoint.dialects_for(target.model)
    dialect_names = spoken.names
    host_operation = provider.host_operations.get(caller_dialect.name) if provider.host_operations else None
    if host_operation is not None and caller_dialect.name not in dialect_names:
        if translator.is_slow_to_translate:
            return await translator.run_in_thread(translator.translate_host_operation, host_operation, provider, target)
        return translator.translate_host_operation(host_operation, provider, target)
    unsupported: Unsupported | None = None
    emulated: TranslatedRequest | None = None
    candidates = dialect_names if target.dialect is None else (target.dialect,)
    rule = spoken.rule
    if rule is None and (provider.learned_rules.has_any or translator.own_rules):
        rule = learned_dialect_rule(dialect_names, provider, target, translator.own_rules)
    if rule is not None and (target.dialect is not None or not await translator.is_under(rule)):
        rule = None
    if rule is not None:
        candidates = (rule.dialect,) if rule.is_only else (rule.dialect, *(name for name in candidates if name != rule.dialect))
    if translator.continues:
        candidates = [name for name in candidates if translator.may_continue_in(name, provider, target.model)]
    for dialect in translator.candidate_dialects(provider, candidates, ignores_caller=rule is not None):
        try:
            if dialect is caller_dialect:
                if translator.is_slow_to_translate:
                    edited = await translator.run_in_thread(translator.edit_request, provider, target)
                else:
                    edited = translator.edit_request(provider, target)
                if edited is not None:
                    return edited
            translated = await translator.translate_chat(dialect, provider, target)
        except Unsupported as reason:
            unsupported = unsupported or reason
            continue
        if rule is not None and dialect.name == rule.dialect:
            return translator.report_rule(translated, rule)
        if translated.emulation is None:
            return translated
        emulated = emulated or translated  # another dialect may have the field
    if emulated is not None:
        return emulated
    assert unsupported is not None
    raise unsupported
