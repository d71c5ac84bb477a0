"""Adapts a body to the rules that its host has taught, within the caller's drop policy."""

from collections.abc import Callable, Iterable, Mapping

from providers.canonical.raw_json import Body
from providers.drop_policy import DropPolicy
from providers.learned_rules.body_turns import order_body
from providers.learned_rules.bound_thinking import drop_unbound_blocks
from providers.learned_rules.conversation import do_not_force_tools, leave_betas_out, leave_prefill_out, say_instructions_as_user
from providers.learned_rules.fields import fit_value, leave_out_field, rename_field, use_one_sampling_field
from providers.learned_rules.rule import LearnedRule, RuleKind
from providers.learned_rules.thinking import use_other_thinking

ADAPTATIONS: Mapping[RuleKind, Callable[[Body, LearnedRule, DropPolicy], bool]] = {
    "refused_field": leave_out_field,
    "renamed_field": rename_field,
    "accepted_values": fit_value,
    "refused_thinking": use_other_thinking,
    "no_forced_tools": do_not_force_tools,
    "one_sampling_field": use_one_sampling_field,
    "no_prefill": leave_prefill_out,
    "no_system_role": say_instructions_as_user,
    "leading_instructions": order_body,
    "alternate_turns": order_body,
    "no_instructions": order_body,
    "unbound_thinking": drop_unbound_blocks,
}
"""Each changes a body in place, reports what is lost, raises Unsupported for what may not be lost, and returns whether it had to change.

A kind without one is no matter of the body: `no_tools` chooses another dialect, `refused_beta` is about a header, `no_schemas` changes
the chat, in which an instruction stands for the schema.
"""


def apply_rules(rules: Iterable[LearnedRule], body: Body, dialect: str, drop_policy: DropPolicy) -> None:
    """Raises Unsupported as `drop_policy` does. `body` is ready to be sent in this dialect."""
    for rule in rules:
        adapt = ADAPTATIONS.get(rule.kind) if rule.dialect == dialect else None
        if adapt is not None:
            adapt(body, rule, drop_policy)


def filter_betas(rules: Iterable[LearnedRule], body: Body, dialect: str, betas: bytes) -> tuple[bytes, bool]:
    """The header `anthropic-beta` without betas that the host refuses for this model, and whether any was there."""
    refused = [rule.field for rule in rules if rule.kind == "refused_beta" and rule.dialect == dialect]
    return leave_betas_out(refused, body, betas) if refused else (betas, False)
