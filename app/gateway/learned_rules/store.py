"""The learned rules of this process: those of its own requests, and those that other workers share with it."""

import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import TypeAlias

from msgspec import Struct

from providers.learned_rules.rule import LearnedRule, LearnedRules

log = logging.getLogger(__name__)

_MAX_RULES = 512
_MAX_RULES_OF_A_MODEL = 32
_MAX_CONVERSATIONS = 4096

StoredKey: TypeAlias = tuple[str, str, str, str, str]
"""Provider, its model, and what the rule is about."""


class StoredRule(Struct, frozen=True):
    """A learned rule until `until_s`, in Unix time, when the host is asked again."""

    provider: str
    model: str
    rule: LearnedRule
    until_s: float

    @property
    def key(self) -> StoredKey:
        return self.provider, self.model, *self.rule.key


class LearnedRuleStore:
    """Keeps what refusals have taught; `in_force` is what providers read.

    Other workers do not know the rules in `unshared` yet. A `keep_s` of 0 means that nothing is learned. The number of rules is bounded,
    and so is that of each model: the rule that ends first makes room.
    """

    def __init__(
        self, keep_s: float, clock: Callable[[], float] = time.time, count: Callable[[str, str], None] = lambda provider, kind: None
    ) -> None:
        self.keep_s = keep_s
        self.in_force = LearnedRules()
        self.unshared: list[StoredRule] = []
        self.on_learned: Callable[[], None] = lambda: None
        self.count = count
        self._clock = clock
        self._rules: dict[StoredKey, StoredRule] = {}
        self._conversations: OrderedDict[bytes, tuple[str, float]] = OrderedDict()
        self._bound_paths: dict[bytes, str] = {}  # of the same: one copy, as each of thousands ends by itself
        self.in_force.bound_conversations = self._bound_paths

    @property
    def rules(self) -> list[StoredRule]:
        """The rules in force, by provider and model."""
        self.expire()
        return sorted(self._rules.values(), key=lambda each: each.key)

    def learn(self, provider: str, model: str, rules: Iterable[LearnedRule]) -> None:
        """A host has just refused a request for these reasons."""
        for rule in rules:
            stored = StoredRule(provider, model, rule, self._clock() + self.keep_s)
            is_new = stored.key not in self._rules
            self._rules[stored.key] = stored
            self.unshared.append(stored)
            if is_new:
                self.count(provider, rule.kind)
                about = {"field": rule.field, "values": rule.values, "dialect": rule.dialect, "keep_s": self.keep_s}
                log.warning(
                    "a host refuses what the rules of its model allow: requests are adapted for a while",
                    extra={"provider": provider, "model": model, "rule": rule.kind, **about},
                )
        del self.unshared[:-_MAX_RULES]  # while Redis is away
        self._put_in_force()
        self.on_learned()

    def merge(self, shared: Iterable[StoredRule]) -> None:
        """Rules of other workers. Of two about the same, the newer one counts."""
        if self.keep_s <= 0:  # what was learned before that was set is still shared, and is not to be adapted to either
            return
        has_changed = False
        for stored in shared:
            known = self._rules.get(stored.key)
            if known is None or known.until_s < stored.until_s:
                self._rules[stored.key] = stored
                has_changed = True
        if has_changed:
            self._put_in_force()

    def expire(self) -> None:
        """Ends what is over. Called now and then, so that no request has to look at a clock."""
        now = self._clock()
        if any(stored.until_s <= now for stored in self._rules.values()):
            self._put_in_force()
        over = [conversation for conversation, (_, until_s) in self._conversations.items() if until_s <= now]
        for conversation in over:
            self.unbind_conversation(conversation)

    def bind_conversation(self, conversation: bytes, path: str) -> None:
        """Notes that its host is to drop thinking blocks that are bound to another one.

        Each worker learns that for itself.
        """
        self._conversations[conversation] = path, self._clock() + self.keep_s
        self._conversations.move_to_end(conversation)
        self._bound_paths[conversation] = path
        if len(self._conversations) > _MAX_CONVERSATIONS:
            self.unbind_conversation(next(iter(self._conversations)))
        self._note_any()

    def unbind_conversation(self, conversation: bytes) -> None:
        """Undoes bind_conversation(): the host does not do that, or its time is over."""
        if self._conversations.pop(conversation, None) is not None:
            del self._bound_paths[conversation]
            self._note_any()

    def is_over(self, stored: StoredRule) -> bool:
        return stored.until_s <= self._clock()

    def _put_in_force(self) -> None:
        now = self._clock()
        newest_first = sorted((each for each in self._rules.values() if each.until_s > now), key=lambda each: -each.until_s)
        by_target: dict[tuple[str, str], list[LearnedRule]] = {}
        self._rules = {}
        for stored in newest_first[:_MAX_RULES]:
            rules = by_target.setdefault((stored.provider, stored.model), [])
            if len(rules) < _MAX_RULES_OF_A_MODEL:
                rules.append(stored.rule)
                self._rules[stored.key] = stored
        self.in_force.by_target = {target: tuple(sorted(rules)) for target, rules in by_target.items()}
        self._note_any()

    def _note_any(self) -> None:
        self.in_force.has_any = bool(self.in_force.by_target or self._conversations)
