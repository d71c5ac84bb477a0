"""Applies what a host has taught about a model to a request that is otherwise ready for it."""

from collections.abc import Callable, Sequence

from app.domain.routing import Target
from app.gateway.request_translation.recipient import Recipient
from providers.adapters.provider import Provider
from providers.canonical.chat import ChatRequest, Tool
from providers.canonical.raw_json import Body
from providers.canonical.template_errors import TEMPLATE_RULES, TemplateRule
from providers.dialect_rule import DialectRule
from providers.learned_rules.adapt import apply_rules, filter_betas
from providers.learned_rules.bound_thinking import conversation_of
from providers.learned_rules.rule import LearnedRule, RulesByTarget
from providers.structured_output import Constraint

_NO_BODY = Body()
_RESPONSES = "openai_responses"


def learned_rules_for(provider: Provider, target: Target, own: RulesByTarget, body: Body, dialect: str) -> tuple[LearnedRule, ...]:
    """Those in force for a target, that of its options, and `own`, which are those of this request alone."""
    key, learned = (provider.configured_as, target.model), provider.learned_rules
    of_request: tuple[LearnedRule, ...] = own.get(key, ())
    if provider.template_rule is not None:
        of_request = (LearnedRule(provider.template_rule, dialect), *of_request)
    rules = (*of_request, *(rule for rule in learned.by_target.get(key, ()) if rule not in of_request))
    if learned.bound_conversations and provider.binding_controls_beta is not None:
        conversation = conversation_of(body, dialect, *key)
        path = None if conversation is None else learned.bound_conversations.get(conversation)
        if path is not None and not any(rule.kind == "unbound_thinking" for rule in rules):
            rules = (*rules, LearnedRule("unbound_thinking", dialect, path))
    return rules


def template_rule_for(provider: Provider, target: Target, own: RulesByTarget, dialect: str) -> TemplateRule | None:
    """The strictest rule that is known of the target's chat template."""
    rules = learned_rules_for(provider, target, own, _NO_BODY, dialect)
    kinds = {rule.kind for rule in rules if rule.dialect == dialect}
    return next((kind for kind in reversed(TEMPLATE_RULES) if kind in kinds), None)


def is_refused_schemas(constraint: Constraint, recipient: Recipient, own: RulesByTarget, dialect: str) -> bool:
    """Whether the constraint demands a schema of a target that is known to refuse schemas, of answers and of strict tools."""
    provider = recipient.provider
    if not constraint.demands_schema or not (provider.learned_rules.has_any or own):
        return False
    rules = learned_rules_for(provider, recipient.target, own, _NO_BODY, dialect)
    return any(rule.kind == "no_schemas" and rule.dialect == dialect for rule in rules)


def adapt_to_rules(
    rules: Sequence[LearnedRule], body: Body, dialect: str, provider: Provider, may_drop: Callable[[str], bool]
) -> list[str]:
    """The fields that are dropped, in the names of the body. Raises Unsupported for one that may not be."""
    drop_policy = provider.drop_policy(body, may_drop)
    apply_rules(rules, body, dialect, drop_policy)
    return drop_policy.dropped


def adapt_betas(rules: Sequence[LearnedRule], body: Body, dialect: str, provider: Provider, betas: bytes, dropped: list[str]) -> bytes:
    """The header `anthropic-beta`, without those that the host refuses and with the one that a rule needs. Adds to `dropped`."""
    betas, are_fewer = filter_betas(rules, body, dialect, betas)
    if are_fewer:
        dropped.append("anthropic-beta")
    needed = provider.binding_controls_beta
    if needed is not None and any(rule.kind == "unbound_thinking" and rule.dialect == dialect for rule in rules):
        names = [name for part in betas.split(b",") if (name := part.strip())]
        if needed.encode() not in names:
            betas = b",".join((*names, needed.encode()))
    return betas


def learned_dialect_rule(names: Sequence[str], provider: Provider, target: Target, own: RulesByTarget) -> DialectRule | None:
    """That tools go to Responses, where a host takes none in Chat and the target speaks both; None: nothing of the kind is learned."""
    key = provider.configured_as, target.model
    rules = (*own.get(key, ()), *provider.learned_rules.by_target.get(key, ()))
    if _RESPONSES not in names or provider.options.get("responses_for_tools") is False:
        return None
    return _TOOLS_AT_RESPONSES if any(rule.kind == "no_tools" for rule in rules) else None


def _has_function_tools(chat: ChatRequest) -> bool:
    """Chat serves custom tools, and any tools at the effort `none`."""
    is_reasoning = chat.thinking is None or chat.thinking.effort != "none"
    return is_reasoning and any(isinstance(tool, Tool) and not tool.custom for tool in chat.tools)


_TOOLS_AT_RESPONSES = DialectRule(_RESPONSES, frozenset({"tools", "functions"}), _has_function_tools)
