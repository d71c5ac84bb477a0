"""The store of learned rules: what is in force, for how long, how many, and what workers tell each other."""

import time
from typing import Any, cast

from app.gateway.learned_rules.sharing import KEY, RuleSharing
from app.gateway.learned_rules.store import LearnedRuleStore
from app.gateway.limits.counters.counters import RedisCounters
from providers.learned_rules.rule import LearnedRule

RULE = LearnedRule("refused_field", "anthropic_messages", "temperature")
OTHER = LearnedRule("no_prefill", "anthropic_messages")


class Clock:
    now = 1_000.0

    def __call__(self) -> float:
        return self.now


def rule(number: int) -> LearnedRule:
    return LearnedRule("refused_beta", "anthropic_messages", f"beta-{number}")


def test_rule_is_in_force_for_an_hour_after_which_the_host_decides_again():
    clock, counted = Clock(), list[tuple[str, str]]()
    store = LearnedRuleStore(3600, clock, lambda provider, kind: counted.append((provider, kind)))
    assert not store.in_force.has_any
    store.learn("claude", "m", [RULE])
    clock.now += 1800
    store.learn("claude", "m", [OTHER])
    assert store.in_force.by_target == {("claude", "m"): (OTHER, RULE)} and store.in_force.has_any
    clock.now += 1801
    store.expire()
    assert store.in_force.by_target == {("claude", "m"): (OTHER,)}
    clock.now += 1800
    store.expire()
    assert not store.in_force.has_any and store.rules == [] and counted == [("claude", "refused_field"), ("claude", "no_prefill")]


def test_number_of_rules_of_a_model_and_of_all_is_bounded_and_the_newest_stay():
    clock = Clock()
    store = LearnedRuleStore(3600, clock)
    for number in range(1000):
        clock.now += 1
        store.learn("claude", "m", [rule(number)])
    assert len(store.in_force.by_target["claude", "m"]) == 32 and rule(999) in store.in_force.by_target["claude", "m"]
    for number in range(600):
        clock.now += 1
        store.learn("claude", f"m{number}", [RULE])
    assert len(store.rules) == 512 and ("claude", "m599") in store.in_force.by_target and len(store.unshared) <= 512


def test_conversations_are_bounded_and_end_when_no_request_has_come_for_long():
    clock = Clock()
    store = LearnedRuleStore(3600, clock)
    for number in range(5000):
        store.bind_conversation(b"%d" % number, "messages[1].content[0]")
    assert len(store.in_force.bound_conversations) == 4096 and b"4999" in store.in_force.bound_conversations
    store.unbind_conversation(b"4999")
    assert b"4999" not in store.in_force.bound_conversations and store.in_force.has_any
    clock.now += 3601
    store.expire()
    assert not store.in_force.has_any


def test_thousands_of_conversations_that_end_together_do_not_hold_up_the_process():
    def seconds_for(count: int) -> float:
        clock = Clock()
        store = LearnedRuleStore(3600, clock)
        for number in range(count):
            store.bind_conversation(b"%d" % number, "messages[1].content[0]")
        clock.now += 3601
        began = time.process_time()
        store.expire()
        assert not store.in_force.bound_conversations
        return time.process_time() - began

    # Sixteen times as many, which took 256 times as long.
    assert min(seconds_for(4096) for _ in range(3)) < 100 * min(seconds_for(256) for _ in range(5))


class FakeRedis:
    """A hash, as HSET, HGETALL, HDEL and PEXPIRE leave it."""

    is_ready = True

    def __init__(self) -> None:
        self.hash: dict[bytes, bytes] = {}

    def key(self, name: bytes) -> bytes:
        return name

    async def call(self, payload: bytes) -> Any:
        parts = payload.split(b"\r\n")[2::2]
        assert parts[1] == KEY
        match parts[0]:
            case b"HSET":
                self.hash.update(zip(parts[2::2], parts[3::2], strict=True))
            case b"HDEL":
                for field in parts[2:]:
                    del self.hash[field]
            case b"HGETALL":
                return [part for pair in self.hash.items() for part in pair]
            case other:
                assert other == b"PEXPIRE"


async def test_rules_of_others_are_not_taken_over_where_nothing_is_to_be_learned():
    clock, redis = Clock(), FakeRedis()
    learning, refusing = LearnedRuleStore(3600, clock), LearnedRuleStore(0, clock)
    learning.learn("claude", "m", [RULE])
    for store in (learning, refusing):
        await RuleSharing(store, cast(RedisCounters, redis)).share()
    assert learning.in_force.has_any and not refusing.in_force.has_any and not refusing.rules


async def test_workers_share_what_they_learn_until_it_is_over():
    clock, redis = Clock(), FakeRedis()
    stores = [LearnedRuleStore(3600, clock) for _ in range(2)]
    first, second = (RuleSharing(store, cast(RedisCounters, redis)) for store in stores)
    stores[0].learn("claude", "m", [RULE])
    await first.share()
    await second.share()
    assert stores[1].in_force.by_target == {("claude", "m"): (RULE,)} and stores[0].unshared == []
    redis.hash[b"of another version"] = b"{}"
    clock.now += 10
    stores[1].learn("claude", "m", [RULE])  # it learns it once more: the later end counts
    await second.share()
    await first.share()
    assert [each.until_s for each in stores[0].rules] == [clock.now + 3600]
    clock.now += 3601
    await first.share()
    assert list(redis.hash) == [b"of another version"]
    stores[1].expire()
    assert not stores[1].in_force.has_any
