"""The way of a chat whose target speaks another dialect, or takes it in another form: it is written from the canonical chat."""

from collections.abc import Mapping

from msgspec.structs import replace

from app.domain.routing import Target
from app.gateway.emulation.emulation import add_field, add_tool_names, rewrite_response
from app.gateway.request_translation.dropped_fields import drop_policy_for
from app.gateway.request_translation.finish_request import CallerName, finish_request
from app.gateway.request_translation.learned_adaptation import is_refused_schemas, template_rule_for
from app.gateway.request_translation.recipient import Recipient
from app.gateway.request_translation.source_request import SourceRequest
from app.gateway.request_translation.target_media import read_chat_with_media, why_no_images
from app.gateway.request_translation.translated_request import TranslatedRequest
from app.gateway.response_translation.dialect_pair import AnyDialect, chat_dialects
from providers.adapters.content_parts import drop_unsupported_parts
from providers.adapters.provider import Provider
from providers.canonical.chat import ChatRequest, Message, Text
from providers.canonical.errors import InvalidRequest, Unsupported
from providers.canonical.field_names import field_name_translator, rename_field_in_error
from providers.canonical.output_format import JsonObject, JsonSchema
from providers.canonical.raw_json import DECODE_ERRORS, Body
from providers.canonical.template_errors import TemplateRule
from providers.dialect import CallerChatDialect, EngineDialect
from providers.dialects.catalogue import CHAT_DIALECTS, RAW_PROMPT_DIALECTS
from providers.drop_policy import DropPolicy
from providers.learned_rules.chat_turns import order_chat
from providers.profiles.claude.adapt_chat import move_schemas_to_prompt
from providers.structured_output import Constraint

_NO_FIELD_NAMES: Mapping[str, str] = {}


async def translate_chat(source: SourceRequest, dialect: AnyDialect, recipient: Recipient) -> TranslatedRequest:
    """The request, read into the canonical chat and written in `dialect`.

    Raises as edit_request() does, and InvalidRequest for media that cannot be fetched.
    """
    provider = recipient.provider
    caller_dialect, target_dialect = chat_dialects(source.terms.dialect, dialect)
    no_images = why_no_images(recipient) if not source.request.holds_only_text else None
    kinds = provider.inline_media_kinds_in(target_dialect.name) | target_dialect.inline_media_kinds
    if no_images is not None:
        kinds -= {"image"}  # they are refused or dropped below, and need not be fetched for that
    chat = await read_chat_with_media(source, provider, target_dialect.name, kinds)
    is_sent_as_chat = _has_no_raw_prompts(source, caller_dialect, target_dialect, provider)
    if is_sent_as_chat and chat.prompt is not None:
        chat = replace(chat, prompt=None, messages=(Message("user", (Text(chat.prompt),)),))
    drop_policy = drop_policy_for(source, recipient, caller_dialect)
    chat = _fit_chat(source, chat, recipient, target_dialect, no_images, drop_policy)
    body = await _write_body(source, chat, target_dialect, recipient, drop_policy)
    _continue_or_limit(chat, body, provider, caller_dialect, target_dialect, drop_policy)
    caller_name = _caller_name(source, caller_dialect, target_dialect)
    arguments = source, recipient, dialect, body, drop_policy.dropped, _as_written(source.constraint), caller_name
    try:
        translated = await source.run_conversion(finish_request, *arguments)
    except Unsupported as fault:
        raise rename_field_in_error(fault, caller_name) from None
    return _note_response_work(source, translated, is_sent_as_chat=is_sent_as_chat)


def _has_no_raw_prompts(
    source: SourceRequest, caller_dialect: CallerChatDialect, target_dialect: EngineDialect, provider: Provider
) -> bool:
    """Whether a raw prompt has to go as a user's message, for the target has chats alone."""
    return (
        (caller_dialect.name == "openai_completions" or source.request.raw_prompt)
        and target_dialect.name not in RAW_PROMPT_DIALECTS
        and not (provider.accepts_raw_prompt and target_dialect.name == "openai_chat")
    )


def _fit_chat(
    source: SourceRequest,
    chat: ChatRequest,
    recipient: Recipient,
    target_dialect: EngineDialect,
    no_images: str | None,
    drop_policy: DropPolicy,
) -> ChatRequest:
    """The chat without images that the model does not read, and with a schema in the prompt for a target that refuses schemas."""
    for path in source.left_out_images:
        drop_policy.report_dropped(path)
    if no_images is not None:
        chat = drop_unsupported_parts(chat, {"image_url": no_images}, drop_policy)
    constraint = source.constraint
    if constraint is not None and is_refused_schemas(constraint, recipient, source.terms.own_rules, target_dialect.name):
        chat = move_schemas_to_prompt(chat, drop_policy)
    return chat


async def _write_body(
    source: SourceRequest, chat: ChatRequest, target_dialect: EngineDialect, recipient: Recipient, drop_policy: DropPolicy
) -> Body:
    """The chat in the target's dialect. Raises Unsupported and InvalidRequest."""
    provider, target, own_rules = recipient.provider, recipient.target, source.terms.own_rules
    template_rule: TemplateRule | None = None
    if provider.learned_rules.has_any or own_rules or provider.template_rule is not None:
        template_rule = template_rule_for(provider, target, own_rules, target_dialect.name)
    try:
        return await source.run(_write_body_now, chat, target_dialect, provider, target, drop_policy, template_rule)
    except DECODE_ERRORS as fault:
        # A carrier, or a field that is not validated, does not hold what it should.
        raise InvalidRequest(f"Something in the request cannot be written for {provider.target_name}: {fault}.") from None


def _write_body_now(
    chat: ChatRequest,
    target_dialect: EngineDialect,
    provider: Provider,
    target: Target,
    drop_policy: DropPolicy,
    template_rule: TemplateRule | None,
) -> Body:
    if template_rule is not None and chat.prompt is None:
        chat = order_chat(chat, template_rule, drop_policy)
    # Some hosts' rules differ by model, which they know by its own name.
    chat = replace(chat, model=target.model, cache_marks=provider.cache_marks)
    return target_dialect.write_request(provider.adapt_chat(chat, target_dialect.name, drop_policy), drop_policy)


def _continue_or_limit(
    chat: ChatRequest,
    body: Body,
    provider: Provider,
    caller_dialect: CallerChatDialect,
    target_dialect: EngineDialect,
    drop_policy: DropPolicy,
) -> None:
    """Writes what dialects do not: that the response has begun already, or that a completion has no limit of its own."""
    if chat.continues and chat.prompt is None:
        provider.continue_text(body, target_dialect.name)
    if chat.prompt is not None and chat.max_tokens is None and caller_dialect.name != target_dialect.name == "openai_completions":
        if provider.no_limit_fields is None:
            drop_policy.drop_or_refuse("max_tokens", "its completions need one: without it they stop after 16 tokens.")
        else:
            body.update(provider.no_limit_fields)


def _as_written(constraint: Constraint | None) -> Constraint | None:
    """The constraint as the body has it: write_request() writes JSON formats as OpenAI does."""
    if constraint is not None and isinstance(constraint.output, JsonSchema | JsonObject):
        return replace(constraint, is_openai_format=True)
    return constraint


def _caller_name(source: SourceRequest, caller_dialect: CallerChatDialect, target_dialect: EngineDialect) -> CallerName:
    """Gives the caller's name for a field of the written body."""
    target_chat_dialect = CHAT_DIALECTS.get(target_dialect.name)
    target_names = _NO_FIELD_NAMES if target_chat_dialect is None else target_chat_dialect.field_names
    return field_name_translator(caller_dialect.name, source.field_names, target_dialect.name, target_names)


def _note_response_work(source: SourceRequest, translated: TranslatedRequest, *, is_sent_as_chat: bool) -> TranslatedRequest:
    """Notes what the gateway has to do with the response, as the request was written in another form than the caller's."""
    emulation = translated.emulation
    if translated.dialect is source.terms.dialect and (source.has_older_tools or source.has_openai_tools):
        emulation = rewrite_response(emulation)
    if source.tool_names is not None:
        emulation = add_tool_names(emulation, source.tool_names)
    if is_sent_as_chat:
        emulation = add_field(emulation, "prompt")
    return translated if emulation is translated.emulation else replace(translated, emulation=emulation)
