"""The last step of every way to a target: a body in its dialect becomes the request that is sent."""

import functools
from collections.abc import Callable

from app.gateway.emulation.emulation import STOP_FIELDS
from app.gateway.request_translation.caller_fields import limit_paths, wants_non_text_output
from app.gateway.request_translation.dropped_fields import (
    find_emulable,
    may_drop,
    may_leave_out,
    may_leave_out_written,
    take_emulated,
)
from app.gateway.request_translation.learned_adaptation import adapt_betas, adapt_to_rules, learned_rules_for
from app.gateway.request_translation.recipient import Recipient
from app.gateway.request_translation.source_request import SourceRequest
from app.gateway.request_translation.translated_request import TranslatedRequest
from app.gateway.response_translation.dialect_pair import AnyDialect
from providers.canonical.raw_json import Body
from providers.canonical.thinking_fields import write_effort
from providers.dialects.anthropic_messages import AnthropicMessages
from providers.dialects.catalogue import ENGINE_DIALECTS
from providers.learned_rules.rule import LearnedRule
from providers.structured_output import Constraint, ConstraintPlan

CallerName = Callable[[str], str]

# The headers by which Codex tells OpenAI that its tools are in items of the input, and what it has switched on.
_LITE_HEADER, _FEATURES_HEADER = b"x-openai-internal-codex-responses-lite", b"x-codex-beta-features"
_MAX_HEADER_BYTES = 1_000


def finish_request(
    source: SourceRequest,
    recipient: Recipient,
    dialect: AnyDialect,
    body: Body,
    dropped: list[str],
    constraint: Constraint | None,
    caller_name: CallerName | None = None,
) -> TranslatedRequest:
    """The request as it is sent. Changes `body`, which nobody else may hold. Raises Unsupported.

    `dropped` is what the body was written without, in the caller's names; fields that it loses here are added. `caller_name` gives the
    caller's name for a field of the body; None means that the body is in the caller's dialect.
    """
    provider, target, overrides = recipient.provider, recipient.target, source.request.overrides
    body["model"] = target.model  # hosts' rules about their models go by this name
    if overrides is not None:
        overrides.apply(body, recipient.terms.scope)
    constraint_plan, rules = _fit_fields(source, recipient, dialect, body, dropped, constraint, caller_name)
    repair = source.request.repair
    if repair is not None:
        if caller_name is None:
            dropped[:] = [repair.original_path(path) for path in dropped]
        dropped += repair.paths
    reported, emulation = take_emulated(source, dropped) if dropped else (dropped, None)
    request_id, stream = _address(source, recipient, dialect, body)
    betas, header_lines = source.terms.betas, b""
    if betas or rules or overrides is not None:
        betas, header_lines = _write_headers(source, recipient, dialect, body, rules, reported)
    headers = source.terms.headers
    if (_LITE_HEADER in headers or _FEATURES_HEADER in headers) and provider.is_openai_host and dialect is source.terms.dialect:
        header_lines += _codex_header_lines(source)
    return TranslatedRequest(
        body.write() if source.large_requests is None else body.write_in_steps(),
        dialect,
        stream,
        limit_paths(reported) if reported else reported,
        betas,
        constraint_plan,
        request_id,
        target.model if provider.model_in_url else "",
        emulation,
        header_lines=header_lines,
    )


def _codex_header_lines(source: SourceRequest) -> bytes:
    """The lines of Codex's own headers. Whether OpenAI needs them is not known: Codex sends them there with each such request."""
    values = ((name, source.terms.headers.get(name, b"")) for name in (_LITE_HEADER, _FEATURES_HEADER))
    return b"".join([b"%b: %b\r\n" % each for each in values if each[1] and each[1].isascii() and len(each[1]) <= _MAX_HEADER_BYTES])


def _fit_fields(
    source: SourceRequest,
    recipient: Recipient,
    dialect: AnyDialect,
    body: Body,
    dropped: list[str],
    constraint: Constraint | None,
    caller_name: CallerName | None,
) -> tuple[ConstraintPlan | None, tuple[LearnedRule, ...]]:
    """Makes the body one that the target takes, and adds to `dropped`. Returns also the rules that were learned of the target.

    Adapters see what restrictions and thinking fields have left, and learned rules see what adapters have written.
    """
    provider, own_rules = recipient.provider, source.terms.own_rules
    if not provider.restricted.top_level_names.isdisjoint(body):
        dropped += provider.restricted.drop_or_refuse(body, provider.target_name, functools.partial(may_drop, source, recipient))
    reported_thinking: list[str] = []
    if ("thinking" in body or "reasoning" in body) and dialect.name == "openai_chat" and provider.thinking_fields is not None:
        reported_thinking += write_effort(body, provider.thinking_fields)
    if caller_name is None:
        leaves_out = functools.partial(may_leave_out, source, recipient)
    else:
        leaves_out = functools.partial(may_leave_out_written, source, recipient, caller_name)
    adapted = provider.adapt_request(body, dialect.name, leaves_out, constraint)
    dropped += adapted.dropped if caller_name is None else map(caller_name, adapted.dropped)
    dropped += reported_thinking
    rules: tuple[LearnedRule, ...] = ()
    if provider.learned_rules.has_any or own_rules or provider.template_rule is not None:
        rules = learned_rules_for(provider, recipient.target, own_rules, body, dialect.name)
    if rules:
        fields = adapt_to_rules(rules, body, dialect.name, provider, leaves_out)
        # The caller's messages have other places than those written; order_chat() has reported them by their own.
        dropped += fields if caller_name is None else [caller_name(field) for field in fields if not field.endswith("].role")]
    if provider.leaves_stop_in_text:
        dropped += find_emulable(source).intersection(STOP_FIELDS.values())
    return adapted.constraint_plan, rules


def _address(source: SourceRequest, recipient: Recipient, dialect: AnyDialect, body: Body) -> tuple[str | None, bool]:
    """Writes what makes the body this target's own: its name of the model, the salt, an id. Returns the id, and whether to stream."""
    provider, target, terms = recipient.provider, recipient.target, source.terms
    model = target.model if target.lora is None else provider.select_lora_adapter(target.model, target.lora, body)
    if dialect.name in provider.salted_dialects and terms.team_salts is not None:
        body["cache_salt"] = terms.team_salts.salt(terms.team_id, body.value("cache_salt"))
    request_id: str | None = None
    if provider.request_id_field is not None:
        request_id = body[provider.request_id_field] = source.next_upstream_id()
    stream = source.request.stream
    if provider.streams != "both" and dialect.name in ENGINE_DIALECTS:
        stream = provider.streams == "only"
    if stream != source.request.stream and wants_non_text_output(body):
        raise provider.unsupported_error(
            "modalities", "a response that is more than text cannot be converted between streaming and non-streaming."
        )
    dialect.prepare_upstream_body(body, stream, include_usage=provider.stream_usage)
    if terms.resumable is not None:
        provider.request_usage_throughout(body, dialect.name)
    provider.set_model(body, dialect.name, model, stream)  # which takes a body that is otherwise ready
    return request_id, stream


def _write_headers(
    source: SourceRequest,
    recipient: Recipient,
    dialect: AnyDialect,
    body: Body,
    rules: tuple[LearnedRule, ...],
    dropped: list[str],
) -> tuple[bytes, bytes]:
    """The value of `anthropic-beta`, and the lines of headers that the caller adds. Adds to `dropped`.

    It comes after the body is ready, as some hosts have betas in the body.
    """
    provider, betas, header_lines = recipient.provider, source.terms.betas, b""
    if betas and dialect is not source.terms.dialect:
        dropped.append("anthropic-beta")
        betas = b""
    if betas and provider.claude_host is not None:
        betas, are_fewer = provider.claude_host.select_betas(betas)
        if are_fewer:
            dropped.append("anthropic-beta")
    if betas:
        betas = provider.forward_betas(body, dialect.name, betas)
    if rules:
        betas = adapt_betas(rules, body, dialect.name, provider, betas, dropped)
    if source.request.overrides is not None:
        added = dict(source.request.overrides.headers_for(recipient.terms.scope))
        own_betas = added.pop("anthropic-beta", None)
        if own_betas is not None and dialect.name != AnthropicMessages.name:
            dropped.append("anthropic-beta")
        elif own_betas is not None:
            betas = b", ".join(filter(None, (betas, provider.forward_betas(body, dialect.name, own_betas.encode()))))
        header_lines = b"".join([f"{name}: {value}\r\n".encode() for name, value in added.items()])
    return betas, header_lines
