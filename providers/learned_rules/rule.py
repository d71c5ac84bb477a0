"""LearnedRule: what the 400 of a host taught about one of its models, and the table of all that a process knows of them.

The tables of profiles and hosts say what models accept as of a date; a host changes its mind on any other day. A rule that is learned
holds for a while, for one model of one provider, in one dialect; docs/decisions/031-learned-rules.md says who may teach what.
"""

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct

RuleKind = Literal[
    "refused_field",
    "renamed_field",
    "accepted_values",
    "refused_thinking",
    "no_forced_tools",
    "one_sampling_field",
    "no_prefill",
    "no_system_role",
    "leading_instructions",
    "alternate_turns",
    "no_instructions",
    "no_tools",
    "no_schemas",
    "refused_beta",
    "unbound_thinking",
]


class LearnedRule(Struct, frozen=True, order=True):
    """One rule."""

    kind: RuleKind
    dialect: str  # in which it was learned and applies: the same field may be accepted in another one
    # a path in the body, `[]` for each item of a list (`tools[].strict`); of betas, the name of one; "": the kind says it all
    field: str = ""
    # those that the host accepts; of a kind of thinking, those that may stand in its place; of a field that is renamed, its name
    values: tuple[str, ...] = ()

    @property
    def key(self) -> tuple[str, str, str]:
        """The subject of the rule: a newer rule with the same key replaces it."""
        return self.kind, self.dialect, self.field


class Lesson(Struct, frozen=True):
    """The rules that one error taught."""

    rules: tuple[LearnedRule, ...]
    # Whether they hold for every request, and not only for the one that was refused.
    is_shared: bool = True


RulesByTarget = Mapping[tuple[str, str], tuple[LearnedRule, ...]]
"""Rules by provider and its model."""


class LearnedRules:
    """The rules that are in force, shared by all providers of a process.

    `has_any` is False while nothing is learned, as nearly always. `bound_conversations` are those whose host is to drop thinking
    blocks that are bound to another one, with the path of the first block; see bound_thinking.py.
    """

    __slots__ = ("bound_conversations", "by_target", "has_any")

    def __init__(self) -> None:
        self.has_any = False
        self.by_target: RulesByTarget = {}
        self.bound_conversations: Mapping[bytes, str] = {}


NOTHING_LEARNED = LearnedRules()
