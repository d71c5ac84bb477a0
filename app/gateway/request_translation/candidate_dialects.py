"""The dialects in which a target may be sent a request, best first."""

from collections.abc import Sequence
from typing import Any

from app.gateway.request_translation.learned_adaptation import learned_dialect_rule
from app.gateway.request_translation.recipient import Recipient
from app.gateway.request_translation.source_request import SourceRequest
from app.gateway.response_translation.dialect_pair import AnyDialect
from providers.adapters.provider import Provider
from providers.canonical.errors import InvalidRequest, OperationNotSupported
from providers.dialect_rule import DialectRule, ModelDialects
from providers.dialects.catalogue import CALLER_CHAT_DIALECTS, ENGINE_DIALECTS, RAW_PROMPT_DIALECTS


async def choose_dialects(
    source: SourceRequest, recipient: Recipient, spoken: ModelDialects
) -> tuple[Sequence[AnyDialect], DialectRule | None]:
    """The dialects to try, and the rule of the model that puts one of them first; None: there is no such rule.

    `spoken` is what the endpoint speaks for the model. Raises OperationNotSupported if it has no dialect for the request.
    """
    provider, target = recipient.provider, recipient.target
    names = spoken.names if target.dialect is None else (target.dialect,)
    rule = spoken.rule
    if rule is None and (provider.learned_rules.has_any or source.terms.own_rules):
        rule = learned_dialect_rule(spoken.names, provider, target, source.terms.own_rules)
    if rule is not None and (target.dialect is not None or not await _is_under(source, rule)):
        rule = None
    if rule is not None:
        names = (rule.dialect,) if rule.is_only else (rule.dialect, *(name for name in names if name != rule.dialect))
    if source.chat is not None and source.chat.continues:
        names = [name for name in names if _may_continue_in(name, source, recipient)]
    return candidate_dialects(source, provider, names, ignores_caller=rule is not None), rule


def candidate_dialects(
    source: SourceRequest, provider: Provider, dialect_names: Sequence[str], *, ignores_caller: bool = False
) -> Sequence[AnyDialect]:
    """Those of a target's dialects in which this request can be sent, best first. Raises OperationNotSupported if there is none.

    `ignores_caller` says that they are in the order of a rule of the model, whatever the caller speaks.
    """
    caller_dialect_name = source.terms.dialect.name
    has_output_constraint = source.constraint is not None and source.constraint.output is not None
    if source.request.raw_prompt:
        raw_prompt_dialects = [
            name for name in dialect_names if name in RAW_PROMPT_DIALECTS or (provider.accepts_raw_prompt and name == caller_dialect_name)
        ]
        # A target with chats alone gets the prompt as a user's message.
        dialect_names = raw_prompt_dialects or [name for name in dialect_names if name in ENGINE_DIALECTS]
    elif (
        not ignores_caller
        and caller_dialect_name in dialect_names
        and (
            not has_output_constraint
            or caller_dialect_name == "openai_completions"
            or _is_best_enforced_in(caller_dialect_name, source, provider, dialect_names)
        )
    ):
        shared_dialect: Any = source.terms.dialect
        return (shared_dialect,)
    elif caller_dialect_name not in CALLER_CHAT_DIALECTS:
        dialect_names = ()
    elif caller_dialect_name == "openai_completions":
        raw_prompt_dialects = [name for name in dialect_names if name in RAW_PROMPT_DIALECTS]
        dialect_names = raw_prompt_dialects or [name for name in dialect_names if name in ENGINE_DIALECTS]
    else:
        dialect_names = [name for name in dialect_names if name in ENGINE_DIALECTS and name not in RAW_PROMPT_DIALECTS]
        if has_output_constraint and not ignores_caller:
            dialect_names.sort(key=lambda name: name not in provider.constrained_dialects)
    if not dialect_names:
        request_kind = "raw prompts" if source.request.raw_prompt else f"such requests ({caller_dialect_name})"
        raise OperationNotSupported(
            f"{provider.configured_as} ({provider.name}), which serves {source.request.model!r:.100}, has no API for {request_kind}.",
            param="model",
        )
    return [ENGINE_DIALECTS[name] for name in dialect_names]


def _is_best_enforced_in(caller_dialect_name: str, source: SourceRequest, provider: Provider, dialect_names: Sequence[str]) -> bool:
    """Whether the constraint is enforced in the caller's dialect, or in no dialect at all."""
    return provider.constrained_dialects.isdisjoint(dialect_names) or (
        caller_dialect_name in provider.constrained_dialects and not source.has_engine_constraint_fields
    )


async def _is_under(source: SourceRequest, rule: DialectRule) -> bool:
    """Whether the model that has this rule takes the request in the rule's dialect, which is another one than the caller's."""
    caller_dialect_name = source.terms.dialect.name
    if caller_dialect_name not in CALLER_CHAT_DIALECTS or caller_dialect_name == rule.dialect:
        return False
    if rule.fields.isdisjoint(source.request.body):
        return False
    try:
        return rule.applies(await source.read_chat())
    except InvalidRequest:  # the host says so, or a translation
        return False


def _may_continue_in(dialect_name: str, source: SourceRequest, recipient: Recipient) -> bool:
    """Whether a target goes on in this dialect exactly where the response broke off, as every engine does with a raw prompt."""
    if source.chat is not None and source.chat.prompt is not None:
        return dialect_name in RAW_PROMPT_DIALECTS
    return recipient.provider.continues_text(dialect_name, recipient.target.model)
