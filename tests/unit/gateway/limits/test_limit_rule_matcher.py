"""The matcher finds the rules of a request, and which requests share a count, as if every rule were examined by itself."""

import time
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.callers import Caller
from app.domain.limits import Limit, LimitOverride
from app.gateway.limits.rate_limit_headers import format_duration
from app.gateway.limits.rule_matcher import RuleMatcher
from app.gateway.limits.rules import RuleTable, request_dimensions

KEYS = ("nx-00000000000a", "nx-00000000000b")
names = st.sampled_from(["a", "b", "c"])
scopes = st.dictionaries(
    st.sampled_from(["key", "team", "model", "tag:x", "tag:y", "all"]), st.sampled_from(["each", "a", "b"]), min_size=1, max_size=3
).map(lambda scope: {name: KEYS["ab".index(of)] if name == "key" and of != "each" else of for name, of in scope.items()})
limits = st.lists(scopes, max_size=8).map(
    lambda scopes: [Limit(f"rule {number}", scope, "requests", 5, "minute") for number, scope in enumerate(scopes)]
)
requesters = st.tuples(
    st.sampled_from(KEYS), names, names, st.dictionaries(st.sampled_from(["x", "y", "z"]), st.sampled_from(["a", "b", "\0"]))
)


def caller(prefix: str, team: str = "team") -> Caller:
    return Caller("k", "t", team, "full", prefix=prefix)


def applies_to(limit: Limit, prefix: str, team: str, model: str, tags: Mapping[str, str]) -> bool:
    dimensions = {"key": prefix, "team": team, "model": model, **{f"tag:{name}": value for name, value in tags.items()}, "all": "each"}
    return all(name == "all" or (name in dimensions and of in ("each", dimensions[name])) for name, of in limit.scope.items())


@given(limits, st.lists(requesters, min_size=1, max_size=4))
def test_matcher_finds_exactly_the_rules_that_apply_to_a_request(rules: list[Limit], requests: list[Any]):
    matcher = RuleMatcher(RuleTable(rules), 1000, lambda: 0)
    for prefix, team, model, tags in requests * 2:
        match = matcher.match_for(caller(prefix, team), model, tags)
        expected = [limit.name for limit in rules if applies_to(limit, prefix, team, model, tags)]
        assert ([] if match is None else [bucket.rule.name for bucket in match.buckets]) == expected


@given(scopes, requesters, requesters)
def test_requests_share_a_bucket_exactly_if_their_subject_is_the_same(scope: dict[str, str], one: Any, other: Any):
    [rule] = RuleTable([Limit("r", scope, "requests", 5, "minute")]).rules
    first, second = (request_dimensions(caller(prefix, team), model, tags) for prefix, team, model, tags in (one, other))
    first_subject, second_subject = rule.subject(first), rule.subject(second)
    if first_subject is not None and second_subject is not None:
        same = all(first[name] == second[name] for name, of in scope.items() if of == "each" and name != "all")
        assert (rule.key(first_subject) == rule.key(second_subject)) == same


def test_rule_id_ignores_amount_and_enforcement_but_nothing_else():
    limit = Limit("r", {"key": "each"}, "requests", 5, "day")
    [rule] = RuleTable([limit]).rules
    others: dict[str, Any] = {
        "name": "s",
        "scope": {"team": "each"},
        "resource": "tokens",
        "per": "month",
        "time_zone": "Europe/Berlin",
    }
    [changed_rule] = RuleTable([Limit("r", {"key": "each"}, "requests", 500, "day", dry_run=True, on_outage="refuse")]).rules
    assert changed_rule.id == rule.id
    fields: dict[str, Any] = {name: getattr(limit, name) for name in ("name", "scope", "resource", "amount", "per", "time_zone")}
    ids = {RuleTable([Limit(**{**fields, name: value})]).rules[0].id for name, value in others.items()}
    assert len(ids | {rule.id}) == 6


def test_two_rules_of_one_name_have_different_ids():
    one, two = RuleTable([Limit("r", {"key": "each"}, "requests", 5, "day")] * 2).rules
    assert one.id != two.id


def described(table: RuleTable) -> object:
    return [msgspec.structs.asdict(rule) for rule in table.rules], table.tags


def test_rule_table_made_from_the_previous_one_equals_one_made_anew():
    limits = [Limit(f"r{n % 20}", SCOPES[scope](n % 3), "requests", 5, "minute") for n in range(30) for scope in SCOPES]
    first = RuleTable(limits)
    changes = {
        "one changed": [*limits[:4], msgspec.structs.replace(limits[4], amount=6), *limits[5:]],
        "another scope": [msgspec.structs.replace(limits[0], scope={"team": "each"}), *limits[1:]],
        "one added": [*limits, Limit("new", {"tag:new": "each"}, "tokens", 1, "hour")],
        "one of several equals removed": limits[1:],
        "another order": limits[::-1],
        "none left": [],
    }
    for name, changed in changes.items():
        assert described(RuleTable(changed, previous=first)) == described(RuleTable(changed)), name


def test_rules_that_did_not_change_are_not_made_again():
    limits = [Limit(f"r{n}", {"key": "each"}, "requests", 5, "minute") for n in range(5)]
    first = RuleTable(limits)
    second = RuleTable([*limits[:2], msgspec.structs.replace(limits[2], amount=6), *limits[3:]], previous=first)
    assert [new is old for new, old in zip(second.rules, first.rules, strict=True)] == [True, True, False, True, True]


def test_an_override_is_of_its_subject_alone_and_of_what_the_limit_counted_then():
    limit = Limit("r", {"key": "each"}, "requests", 5, "day")
    override = LimitOverride("o", "r", {"key": "nx-00000000000a"}, 9, 2000, ("requests", "day"))
    now_ms = 1000.0
    table = RuleTable([limit], overrides=[override])
    matcher = RuleMatcher(table, 1000, lambda: now_ms)
    match, other = (matcher.match_for(caller(prefix, "a"), "m", {}) for prefix in ("nx-00000000000a", "nx-00000000000b"))
    assert match is not None and other is not None
    assert [each.rule_at(0, now_ms).amount for each in (match, other)] == [9, 5]
    assert [each.header_rules[0].amount for each in (match, other)] == [9, 5]
    now_ms = 2000.0
    again = matcher.match_for(caller("nx-00000000000a", "a"), "m", {})
    assert again is match and (match.rule_at(0, now_ms).amount, match.header_rules[0].amount) == (5, 5)
    assert RuleTable([limit], previous=table).rules[0].overrides == {}
    for changed in (Limit("r", {"team": "each"}, "requests", 5, "day"), Limit("r", {"key": "each"}, "tokens", 5, "day")):
        assert RuleTable([changed], overrides=[override]).rules[0].overrides == {}


SCOPES: dict[str, Callable[[int], dict[str, str]]] = {
    "keys": lambda n: {"key": f"nx-{n:012x}", "model": "m", "team": "each"},
    "tags": lambda n: {f"tag:t{n}": "each"},
    "values of tags": lambda n: {"team": "each", f"tag:t{n}": "yes"},
}


@pytest.mark.parametrize("scope", SCOPES)
def test_matching_against_ten_thousand_rules_costs_no_more_than_against_ten(scope: str):
    """Every request is new to the matcher, so that its index is measured and not its cache."""
    few, many = (
        RuleMatcher(RuleTable([Limit(f"r{n}", SCOPES[scope](n), "requests", 5, "minute") for n in range(count)]), 1000, lambda: 0)
        for count in (10, 10_000)
    )

    def cost_s(matcher: RuleMatcher, turn: int) -> float:
        began = time.process_time()
        for n in range(200):
            match = matcher.match_for(caller(f"nx-{n % 10:012x}", f"team {turn} {n}"), "m", {f"t{n % 10}": "yes"})
            assert match is not None and len(match.buckets) == 1
        return time.process_time() - began

    # By turns, and the best of each, so that other processes disturb both alike.
    costs_s = [(cost_s(few, turn), cost_s(many, turn)) for turn in range(12)]
    assert min(cost for _, cost in costs_s) < 3 * min(cost for cost, _ in costs_s) + 0.005


def test_remembered_matches_are_bounded():
    matcher = RuleMatcher(RuleTable([Limit("r", {"tag:t": "each"}, "requests", 5, "minute")]), 1000, lambda: 0)
    for n in range(20_100):
        matcher.match_for(caller(KEYS[0]), "m", {"t": str(n), "other": "x"})
    assert len(matcher) == 20_000


@pytest.mark.parametrize(
    ("ms", "written"),
    [(0, b"0ms"), (120, b"120ms"), (1_000, b"1s"), (8_640, b"8.64s"), (72_000, b"1m12s"), (360_000, b"6m0s"), (86_400_001, b"24h0m0.001s")],
)
def test_durations_are_written_as_openai_writes_them(ms: int, written: bytes):
    assert format_duration(ms) == written
