"""Numbers in messages are written out: nobody should have to read 2e-05 as money."""

from hypothesis import given
from hypothesis import strategies as st

from app.domain.callers import Caller
from app.domain.limits import Limit
from app.gateway.limits import refusal
from app.gateway.limits.counters.scripts import REFUSED
from app.gateway.limits.rule_matcher import RuleMatcher
from app.gateway.limits.rules import RuleTable
from app.process.plain_numbers import plain_microusd, plain_number, plain_usd


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_plain_number_has_all_digits_and_no_exponent(number: float):
    text = plain_number(number)
    assert float(text) == number and "e" not in text.lower() and not text.endswith(".0")


def test_money_is_money():
    assert (plain_microusd(20), plain_microusd(1_500_000), plain_microusd(2_000_000_000_000)) == ("$0.00002", "$1.5", "$2000000")
    assert (plain_usd(0.00002), plain_usd(1e6), plain_number(3)) == ("$0.00002", "$1000000", "3")


def test_a_refusal_says_small_amounts_as_money():
    limit = Limit("budget", {"key": "each"}, "cost_usd", 0.00005, "day")
    matcher = RuleMatcher(RuleTable([limit]), 1000, lambda: 0)
    match = matcher.match_for(Caller("k", "t", "team", "full", prefix="nx-1"), "m", {})
    assert match is not None
    refused = refusal.limit_exceeded(match, [REFUSED, 0, 0, 0, 20, 1000, 1000, 0], (1, 1, 1, 2, 30, 1))
    assert "allows $0.00005 per day. $0.00002 are left; this request needs $0.00003." in refused.message, refused.message
