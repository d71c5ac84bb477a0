"""What is refused of limits, prices and models when they are saved, and what is warned of."""

from typing import Any

import msgspec
import pytest

from app.domain import Limit, ModelConfig, Price, ProviderConfig, Snapshot, Target
from app.store import snapshots
from app.store.config_file import BadConfiguration
from app.store.config_validation import find_warnings, validate
from app.store.limit_validation import KnownNames

GOOD = Limit(name="r", scope={"key": "each"}, resource="requests", amount=600, per="minute")
PRICE = Price(provider="p", model="x", input=1.0, output=2.0)


def configured(*limits: Limit, prices: tuple[Price, ...] = (), **models: int | None) -> Snapshot:
    """With a provider p and a model for each name, which reserves so many tokens."""
    made = {name: ModelConfig(targets=(Target(provider="p", model="x"),), output_tokens=tokens) for name, tokens in models.items()}
    return snapshots.build_snapshot(1, {"p": ProviderConfig("openai")}, made, limits, prices)


def changed(**changes: Any) -> Limit:
    return msgspec.structs.replace(GOOD, **changes)


@pytest.mark.parametrize(
    "limit",
    [
        GOOD,
        changed(scope={"all": "each"}),
        changed(scope={"key": "nx-0123456789ab", "model": "m", "team": "unborn", "tag:tenant": "each"}),
        changed(resource="concurrency", per=None, amount=1),
        changed(resource="cost_usd", amount=0.01, per="month", time_zone="America/New_York"),
        changed(resource="tokens", amount=2.0**53, per="day"),
    ],
)
def test_a_good_rule_is_taken(limit: Limit):
    validate(configured(limit, m=None))


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"scope": {}}, "scope is empty"),
        ({"scope": {"tag": "each"}}, "'tag' names no tag"),
        ({"scope": {"tag:": "each"}}, "'tag:' names no tag"),
        ({"scope": {"tag: ": "each"}}, "names no tag"),
        ({"scope": {"user": "each"}}, "no dimension 'user'. There are: key, team, model, tag:NAME, all"),
        ({"scope": {"team": ""}}, '"each" or one name'),
        ({"scope": {"all": "each", "key": "each"}}, "stands alone"),
        ({"scope": {"all": "blue"}}, "stands alone"),
        ({"scope": {"key": "nx-0123"}}, "12 hex digits"),
        ({"scope": {"key": "nx-0123456789AB"}}, "12 hex digits"),
        ({"scope": {"model": "gone"}}, "no model 'gone'. There are: m."),
        ({"per": None}, "per is needed"),
        ({"resource": "concurrency"}, "has no period"),
        ({"amount": 0.0}, "more than 0"),
        ({"amount": -1.0}, "more than 0"),
        ({"amount": float("nan")}, "more than 0"),
        ({"amount": float("inf")}, "at most"),
        ({"amount": 2.0**54}, "at most"),
        ({"amount": 0.5}, "a whole number of requests"),
        ({"resource": "tokens", "amount": 1.5}, "a whole number of tokens"),
        ({"resource": "concurrency", "per": None, "amount": 2.5}, "a whole number"),
        ({"resource": "cost_usd", "amount": 1e-7}, "a millionth of a dollar"),
        ({"per": "day", "time_zone": "Mars/Olympus"}, "no time zone 'Mars/Olympus'"),
        ({"per": "day", "time_zone": "Europe"}, "no time zone 'Europe'"),
        ({"per": "day", "time_zone": "../etc"}, "no time zone"),
        ({"per": "day", "time_zone": "localtime"}, "no time zone"),
        ({"per": "day", "time_zone": "posix/Europe/Berlin"}, "no time zone"),
        ({"time_zone": "Europe/Berlin"}, "any minute is as long everywhere"),
        ({"name": " r"}, "a name is printable"),
        ({"name": ""}, "a name is printable"),
        ({"name": "x" * 201}, "at most 200 characters"),
    ],
)
def test_a_rule_that_cannot_be_kept_is_refused_with_its_place(changes: dict[str, Any], told: str):
    with pytest.raises(BadConfiguration) as caught:
        validate(configured(changed(**changes), m=None))
    assert told in str(caught.value) and str(caught.value).startswith(("limits.name", f'limits["{changes.get("name", "r")}"].'))


def test_two_rules_of_one_name_are_refused():
    with pytest.raises(BadConfiguration, match="twice"):
        validate(configured(GOOD, changed(resource="tokens")))


def test_rules_that_contradict_are_refused_by_both_their_names():
    with pytest.raises(BadConfiguration, match=r'limits\["s"\] contradicts limits\["r"\].*500.*600'):
        validate(configured(GOOD, changed(name="s", amount=500)))
    two = {"team": "a", "model": "m"}
    with pytest.raises(BadConfiguration, match="contradicts"):
        validate(configured(changed(scope=two), changed(name="s", scope=dict(reversed(two.items())), amount=5), m=None))


@pytest.mark.parametrize(
    "changes",
    [
        {"dry_run": True},
        {"per": "hour"},
        {"resource": "tokens"},
        {"scope": {"team": "each"}},
        {"scope": {"key": "nx-0123456789ab"}},
    ],
)
def test_rules_that_differ_in_more_than_the_amount_do_not_contradict(changes: dict[str, Any]):
    validate(configured(GOOD, changed(**{"name": "s", "amount": 500, **changes})))


def test_days_of_two_zones_are_two_things():
    day = changed(per="day")
    validate(configured(day, msgspec.structs.replace(day, name="s", amount=5, time_zone="Asia/Tokyo")))


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"provider": "q"}, "no provider 'q'. There are: p."),
        ({"model": ""}, "the provider's own name"),
        ({"model": "x" * 201}, "the provider's own name"),
        ({"source": "a\0"}, "a NUL cannot be kept"),
        ({"input": -1.0}, ".input must be from 0"),
        ({"output": float("nan")}, ".output must be from 0"),
        ({"cached_input": float("inf")}, ".cached_input must be from 0"),
        ({"since": "tomorrow"}, "'tomorrow' is none"),
        ({"since": "2026-02-30"}, "must be a day"),
        ({"since": "20260201"}, "must be a day"),
    ],
)
def test_a_price_that_is_none_is_refused_with_its_place(changes: dict[str, Any], told: str):
    with pytest.raises(BadConfiguration) as caught:
        validate(configured(prices=(msgspec.structs.replace(PRICE, **changes),)))
    assert told in str(caught.value) and str(caught.value).startswith("prices[")


def test_a_price_that_is_there_twice_is_refused_and_one_of_another_day_is_not():
    validate(configured(prices=(PRICE, msgspec.structs.replace(PRICE, input=3.0, since="2026-01-01"))))
    with pytest.raises(BadConfiguration, match="twice"):
        validate(configured(prices=(PRICE, msgspec.structs.replace(PRICE, input=3.0))))


def test_an_answer_has_room_for_a_token():
    with pytest.raises(BadConfiguration, match=r"models\.m\.output_tokens must be 1 or more"):
        validate(configured(m=0))


def told(*limits: Limit, known: KnownNames | None = None, prices: tuple[Price, ...] = (), **models: int | None) -> list[str]:
    wanted = configured(*limits, prices=prices, **models)
    validate(wanted)
    return find_warnings(wanted, known or KnownNames())


def test_a_rule_below_one_requests_own_need_is_warned_of():
    rule = changed(resource="tokens", amount=1000)
    assert told(rule, m=1000) == []
    (warning,) = told(rule, m=1001, n=5)
    assert warning.startswith('limits["r"].amount 1000 is less than one request for m reserves')
    assert told(changed(resource="tokens", amount=1000, scope={"model": "n"}), m=1001, n=5) == [], "it is not about that model"
    assert len(told(rule, known=KnownNames(output_tokens=4096), m=None)) == 1, "the setting holds for models that do not say it"
    assert told(rule, m=None) == []


def test_a_cost_rule_below_one_requests_own_need_is_warned_of():
    rule = changed(resource="cost_usd", amount=0.002)
    assert told(rule, prices=(PRICE,), m=1000) == []
    assert len(told(rule, prices=(PRICE,), m=1001)) == 1


def test_a_cost_rule_without_a_price_is_warned_of():
    (warning,) = told(changed(resource="cost_usd", amount=5), a=None, b=None, c=None, d=None)
    assert "a, b, c and 1 more will be refused, for want of a price" in warning
    assert told(changed(resource="cost_usd", amount=5), prices=(PRICE,), a=None) == []
    begins_later = msgspec.structs.replace(PRICE, since="2999-01-01")
    (warning,) = told(changed(resource="cost_usd", amount=5), prices=(begins_later,), a=None)
    assert "want of a price" in warning


def test_a_rule_for_nobody_is_warned_of():
    rule = changed(scope={"team": "blue"})
    assert told(rule) == ["limits[\"r\"].scope.team: there is no team 'blue' yet, so it limits nobody."]
    assert told(rule, known=KnownNames(teams={"blue"})) == []
    rule = changed(scope={"key": "nx-0123456789ab"})
    assert len(told(rule)) == 1 and told(rule, known=KnownNames(keys={"nx-0123456789ab"})) == []


def test_two_rules_that_say_the_same_are_warned_of():
    assert told(GOOD, changed(name="s")) == ['limits["s"] says the same as limits["r"]: one of them is enough.']
