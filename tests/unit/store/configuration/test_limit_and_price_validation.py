"""Validation of limits, prices, models and providers: what is refused when they are saved, and what causes a warning."""

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from app.domain.callers import DroppableFields
from app.domain.errors import BadConfiguration
from app.domain.experiments import ExperimentConfig
from app.domain.functions import FunctionConfig, VariantConfig
from app.domain.limits import Limit
from app.domain.prices import Price
from app.domain.routing import ModelConfig, ProviderConfig, ShadowConfig, Target
from app.domain.snapshot import Snapshot
from app.store.configuration import snapshots
from app.store.configuration.validation.known_names import KnownNames
from app.store.configuration.validation.validate import find_new_warnings, find_warnings, validate
from tests.support.processes.cpu_time import cpu_time_growth

VALID_LIMIT = Limit(name="r", scope={"key": "each"}, resource="requests", amount=600, per="minute")
PRICE = Price(provider="p", model="x", input=1.0, output=2.0)


def snapshot_with(*limits: Limit, prices: tuple[Price, ...] = (), **models: int | None) -> Snapshot:
    """Returns a snapshot with a provider p, and for each name a model that reserves so many output tokens."""
    model_configs = {name: ModelConfig(targets=(Target(provider="p", model="x"),), output_tokens=tokens) for name, tokens in models.items()}
    return snapshots.build_snapshot(1, {"p": ProviderConfig("openai")}, model_configs, limits, prices)


def changed_limit(**changes: Any) -> Limit:
    return msgspec.structs.replace(VALID_LIMIT, **changes)


@pytest.mark.parametrize(
    "limit",
    [
        VALID_LIMIT,
        changed_limit(scope={"all": "each"}),
        changed_limit(scope={"key": "nx-0123456789ab", "model": "m", "team": "future", "tag:tenant": "each"}),
        changed_limit(resource="concurrency", per=None, amount=1),
        changed_limit(resource="cost_usd", amount=0.01, per="month", time_zone="America/New_York"),
        changed_limit(resource="tokens", amount=2.0**53, per="day"),
    ],
)
def test_valid_limit_is_accepted(limit: Limit):
    validate(snapshot_with(limit, m=None))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"scope": {}}, "scope is empty"),
        ({"scope": {"tag": "each"}}, "'tag' names no tag"),
        ({"scope": {"tag:": "each"}}, "'tag:' names no tag"),
        ({"scope": {"tag: ": "each"}}, "names no tag"),
        ({"scope": {"user": "each"}}, "no dimension 'user'. There are: key, team, model, function, tag:NAME, all"),
        ({"scope": {"team": ""}}, '"each" or one name'),
        ({"scope": {"all": "each", "key": "each"}}, "must stand alone"),
        ({"scope": {"all": "blue"}}, "must stand alone"),
        ({"scope": {"key": "nx-0123"}}, "12 hex digits"),
        ({"scope": {"key": "nx-0123456789AB"}}, "12 hex digits"),
        ({"scope": {"model": "gone"}}, "no model 'gone'. There are: m."),
        ({"per": None}, "per is required"),
        ({"resource": "concurrency"}, "has no period"),
        ({"amount": 0.0}, "more than 0"),
        ({"amount": -1.0}, "more than 0"),
        ({"amount": float("nan")}, "more than 0"),
        ({"amount": float("inf")}, "at most"),
        ({"amount": 2.0**54}, "at most"),
        ({"amount": 0.5}, "a whole number of requests"),
        ({"resource": "tokens", "amount": 1.5}, "a whole number of tokens"),
        ({"resource": "concurrency", "per": None, "amount": 2.5}, "a whole number"),
        ({"resource": "concurrency", "per": None, "after_loss": "empty"}, 'limits["r"].after_loss: requests in progress take their places'),
        ({"resource": "cost_usd", "amount": 1e-7}, "a millionth of a dollar"),
        ({"per": "day", "time_zone": "Mars/Olympus"}, "no time zone 'Mars/Olympus'"),
        ({"per": "day", "time_zone": "Europe"}, "no time zone 'Europe'"),
        ({"per": "day", "time_zone": "../etc"}, "no time zone"),
        ({"per": "day", "time_zone": "localtime"}, "no time zone"),
        ({"per": "day", "time_zone": "posix/Europe/Berlin"}, "no time zone"),
        ({"time_zone": "Europe/Berlin"}, "a minute is the same everywhere"),
        ({"name": " r"}, "a name has 1 to 200 printable"),
        ({"name": ""}, "a name has 1 to 200 printable"),
        ({"name": "x" * 201}, "1 to 200 printable characters"),
    ],
)
def test_invalid_limit_is_refused_with_its_path(changes: dict[str, Any], message: str):
    with pytest.raises(BadConfiguration) as caught:
        validate(snapshot_with(changed_limit(**changes), m=None))
    assert message in str(caught.value) and str(caught.value).startswith(("limits.name", f'limits["{changes.get("name", "r")}"].'))


def test_two_limits_of_one_name_are_refused():
    with pytest.raises(BadConfiguration, match="twice"):
        validate(snapshot_with(VALID_LIMIT, changed_limit(resource="tokens")))


def test_contradicting_limits_are_refused_naming_both():
    with pytest.raises(BadConfiguration, match=r'limits\["s"\] contradicts limits\["r"\].*500.*600'):
        validate(snapshot_with(VALID_LIMIT, changed_limit(name="s", amount=500)))
    two = {"team": "a", "model": "m"}
    with pytest.raises(BadConfiguration, match="contradicts"):
        validate(snapshot_with(changed_limit(scope=two), changed_limit(name="s", scope=dict(reversed(two.items())), amount=5), m=None))


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
def test_limits_differing_in_more_than_the_amount_do_not_contradict(changes: dict[str, Any]):
    validate(snapshot_with(VALID_LIMIT, changed_limit(**{"name": "s", "amount": 500, **changes})))


def test_daily_limits_in_two_time_zones_do_not_contradict():
    day = changed_limit(per="day")
    validate(snapshot_with(day, msgspec.structs.replace(day, name="s", amount=5, time_zone="Asia/Tokyo")))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"provider": "q"}, "no provider 'q'. There are: p."),
        ({"model": ""}, "the provider's own name"),
        ({"model": "x" * 201}, "the provider's own name"),
        ({"source": "a\0"}, "a NUL character cannot be stored"),
        ({"input": -1.0}, ".input must be from 0"),
        ({"output": float("nan")}, ".output must be from 0"),
        ({"cached_input": float("inf")}, ".cached_input must be from 0"),
        ({"since": "tomorrow"}, "not 'tomorrow'"),
        ({"since": "2026-02-30"}, "must be a day"),
        ({"since": "20260201"}, "must be a day"),
    ],
)
def test_invalid_price_is_refused_with_its_path(changes: dict[str, Any], message: str):
    with pytest.raises(BadConfiguration) as caught:
        validate(snapshot_with(prices=(msgspec.structs.replace(PRICE, **changes),)))
    assert message in str(caught.value) and str(caught.value).startswith("prices[")


def test_duplicate_price_is_refused_but_one_for_another_day_is_accepted():
    validate(snapshot_with(prices=(PRICE, msgspec.structs.replace(PRICE, input=3.0, since="2026-01-01"))))
    with pytest.raises(BadConfiguration, match="twice"):
        validate(snapshot_with(prices=(PRICE, msgspec.structs.replace(PRICE, input=3.0))))


def test_model_output_tokens_must_be_at_least_one():
    with pytest.raises(BadConfiguration, match=r"models\.m\.output_tokens must be 1 or more"):
        validate(snapshot_with(m=0))


def snapshot_dropping(at: str, drop: DroppableFields) -> Snapshot:
    provider = ProviderConfig("openai", drop=drop if at == "providers.p" else ())
    return snapshots.build_snapshot(1, {"p": provider}, {"m": ModelConfig((Target("p", "x"),), drop=drop if at == "models.m" else ())})


@pytest.mark.parametrize("at", ["providers.p", "models.m"])
@pytest.mark.parametrize(
    ("drop", "message"),
    [
        (("all",), "'all' is no name of a field"),
        (("seed", "none"), "'none' is no name of a field"),
        (("",), "the name of a field has 1 to 200 printable characters"),
        ((" seed",), "no space at its ends"),
        (("logit_bias,seed",), "no comma"),
        (("a\x00b",), "printable"),
        (("x" * 201,), "1 to 200"),
        (tuple(f"f{at}" for at in range(101)), "names 101 fields. It may name 100"),
    ],
)
def test_invalid_drop_is_refused_with_its_path(at: str, drop: DroppableFields, message: str):
    with pytest.raises(BadConfiguration) as caught:
        validate(snapshot_dropping(at, drop))
    assert str(caught.value).startswith(f"{at}.drop") and message in str(caught.value)


@pytest.mark.parametrize("drop", ["all", (), ("x" * 200, "messages[0].name"), tuple(f"f{at}" for at in range(100))])
def test_valid_drop_is_accepted(drop: DroppableFields):
    validate(snapshot_dropping("providers.p", drop))
    validate(snapshot_dropping("models.m", drop))


def warnings_for(*limits: Limit, known: KnownNames | None = None, prices: tuple[Price, ...] = (), **models: int | None) -> list[str]:
    snapshot = snapshot_with(*limits, prices=prices, **models)
    validate(snapshot)
    return find_warnings(snapshot, known or KnownNames())


def test_warning_is_new_only_where_it_is_about_more_than_before():
    provider, rule = {"p": ProviderConfig("openai")}, changed_limit(resource="cost_usd", amount=1.0, per="day")

    def configured(*models: str) -> Snapshot:
        unpriced = {name: ModelConfig((Target("p", "y"),)) for name in models}
        return snapshots.build_snapshot(1, provider, unpriced, (rule,), (PRICE,))

    def new_warnings(before: Snapshot, wanted: Snapshot) -> list[str]:
        return find_new_warnings(before, wanted, KnownNames())

    many, more, others = configured("a", "b", "c", "d", "e"), configured("a", "b", "c", "d", "e", "f"), configured("a", "b", "c", "d", "z")
    assert find_warnings(many, KnownNames()) != find_warnings(configured("b", "c", "d", "e"), KnownNames())
    assert new_warnings(many, configured("b", "c", "d", "e")) == new_warnings(many, many) == []
    assert len(new_warnings(many, more)) == len(new_warnings(many, others)) == len(new_warnings(configured(), many)) == 1


def test_token_limit_below_one_requests_reservation_is_warned_of():
    rule = changed_limit(resource="tokens", amount=1000)
    assert warnings_for(rule, m=1000) == []
    (warning,) = warnings_for(rule, m=1001, n=5)
    assert warning.startswith('limits["r"].amount 1000 is less than a request for m reserves')
    assert warnings_for(changed_limit(resource="tokens", amount=1000, scope={"model": "n"}), m=1001, n=5) == [], (
        "the limit is for another model"
    )
    assert len(warnings_for(rule, known=KnownNames(output_tokens=4096), m=None)) == 1, "the setting applies to models without a value"
    assert warnings_for(rule, m=None) == []


def test_cost_limit_below_one_requests_reservation_is_warned_of():
    rule = changed_limit(resource="cost_usd", amount=0.002)
    assert warnings_for(rule, prices=(PRICE,), m=1000) == []
    assert len(warnings_for(rule, prices=(PRICE,), m=1001)) == 1


def test_cost_limit_without_a_price_is_warned_of():
    (warning,) = warnings_for(changed_limit(resource="cost_usd", amount=5), a=None, b=None, c=None, d=None)
    assert "a, b, c and 1 more will be refused, as not every target has a price" in warning
    assert warnings_for(changed_limit(resource="cost_usd", amount=5), prices=(PRICE,), a=None) == []
    (warning,) = warnings_for(changed_limit(resource="cost_usd", amount=5, dry_run=True), a=None)
    assert "requests for a would be refused without its dry_run, as not every target has a price" in warning
    begins_later = msgspec.structs.replace(PRICE, since="2999-01-01")
    (warning,) = warnings_for(changed_limit(resource="cost_usd", amount=5), prices=(begins_later,), a=None)
    assert "not every target has a price" in warning


def test_model_with_an_experiment_reserves_what_its_arms_do():
    experiment = ModelConfig((), experiment=ExperimentConfig({"large": 1.0, "small": 1.0}))

    def warnings(*prices: Price, **changes: Any) -> list[str]:
        rule = changed_limit(scope={"model": "fast"}, **changes)
        configured = snapshot_with(rule, prices=prices, large=1001, small=10)
        snapshot = snapshots.build_snapshot(
            1, configured.providers, {**configured.models, "fast": experiment}, configured.limits, configured.prices
        )
        validate(snapshot)
        return find_warnings(snapshot, KnownNames(output_tokens=5000))

    assert warnings(resource="tokens", amount=1001) == []
    (warning,) = warnings(resource="tokens", amount=1000)
    assert "is less than a request for fast reserves" in warning
    assert warnings(PRICE, resource="cost_usd", amount=0.003) == []
    (warning,) = warnings(PRICE, resource="cost_usd", amount=0.002)
    assert "is less than a request for fast reserves" in warning
    (warning,) = warnings(resource="cost_usd", amount=5)
    assert "requests for fast will be refused, as not every target has a price" in warning


def snapshot_of_functions(rule: Limit, *prices: Price, params: Mapping[str, Any] | None = None) -> Snapshot:
    """Models a (priced, 10 tokens) and b (provider model y, 1000 tokens); functions one of a alone, and two of a and b."""
    models = {
        "a": ModelConfig((Target("p", "x"),), output_tokens=10),
        "b": ModelConfig((Target("p", "y"),), output_tokens=1000),
    }
    functions = {
        "one": FunctionConfig({"only": VariantConfig("a")}),
        "two": FunctionConfig({"first": VariantConfig("a"), "second": VariantConfig("b", params=params or {})}, default="first"),
    }
    snapshot = snapshots.build_snapshot(1, {"p": ProviderConfig("openai")}, models, (rule,), prices, functions=functions)
    validate(snapshot)
    return snapshot


@pytest.mark.parametrize(
    ("scope", "refused"),
    [
        ({"function": "two"}, "two"),
        ({"function": "each"}, "two"),
        ({"function": "each", "model": "b"}, "two"),
        ({"function": "two", "model": "b"}, "two"),
        ({"function": "two", "model": "a"}, None),
        ({"function": "each", "model": "a"}, None),
        ({"function": "one"}, None),
        ({"function": "one", "model": "b"}, None),
    ],
)
def test_cost_limit_of_functions_is_warned_of_where_a_variants_model_has_no_price(scope: dict[str, str], refused: str | None):
    rule = changed_limit(scope=scope, resource="cost_usd", amount=5)
    warnings = find_warnings(snapshot_of_functions(rule, PRICE), KnownNames())
    text = f'limits["r"]: requests for {refused} will be refused where a variant\'s model has a target without a price.'
    assert warnings == ([] if refused is None else [text])
    assert find_warnings(snapshot_of_functions(rule, PRICE, msgspec.structs.replace(PRICE, model="y")), KnownNames()) == []


def test_limit_of_a_function_below_its_largest_reservation_is_warned_of():
    rule = changed_limit(scope={"function": "each"}, resource="tokens", amount=999)
    (warning,) = find_warnings(snapshot_of_functions(rule), KnownNames())
    assert "999 is less than a request for two reserves" in warning and "see its variants' models' `output_tokens`" in warning
    assert (
        find_warnings(snapshot_of_functions(changed_limit(scope={"function": "each"}, resource="tokens", amount=1000)), KnownNames()) == []
    )
    for bound in ("max_tokens", "max_completion_tokens"):
        assert find_warnings(snapshot_of_functions(rule, params={bound: 999}), KnownNames()) == [], "the variant bounds the response"
        assert len(find_warnings(snapshot_of_functions(rule, params={bound: 1000}), KnownNames())) == 1


def test_warning_about_functions_is_new_where_it_is_about_one_more():
    rule = changed_limit(scope={"function": "each"}, resource="cost_usd", amount=5)
    one, two = snapshot_of_functions(rule, PRICE), snapshot_of_functions(rule)
    assert len(find_new_warnings(one, two, KnownNames())) == 1
    assert find_new_warnings(two, one, KnownNames()) == find_new_warnings(two, two, KnownNames()) == []


@pytest.mark.parametrize("of", ["model", "function"])
def test_bound_of_a_shadows_cost_is_warned_of_where_nothing_would_run(of: str):
    def warnings(usd: float | None, *prices: Price) -> list[str]:
        shadow = ShadowConfig(to="second" if of == "function" else "b", team="lab", share=1.0, usd_per_day=usd)
        base = snapshot_of_functions(VALID_LIMIT)
        models, functions = dict(base.models), dict(base.functions)
        if of == "function":
            functions["two"] = msgspec.structs.replace(functions["two"], shadow=shadow)
        else:
            models["a"] = msgspec.structs.replace(models["a"], shadow=shadow)
        snapshot = snapshots.build_snapshot(1, base.providers, models, (), prices, functions=functions)
        validate(snapshot)
        return find_warnings(snapshot, KnownNames())

    path = "functions.two" if of == "function" else "models.a"
    unpriced = f"{path}.shadow.usd_per_day: nothing will be answered again (`no_price`), as not every target of 'b' has a price."
    assert warnings(1.0) == warnings(1.0, PRICE) == [unpriced]
    assert warnings(None) == []
    priced = msgspec.structs.replace(PRICE, model="y")  # 0.002 USD for 1000 tokens
    assert warnings(0.002, priced) == []
    (warning,) = warnings(0.0019, priced)
    assert warning.startswith(f"{path}.shadow.usd_per_day 0.0019 is less than one request for 'b' reserves")


def test_limit_for_an_unknown_team_or_key_is_warned_of():
    rule = changed_limit(scope={"team": "blue"})
    assert warnings_for(rule) == ["limits[\"r\"].scope.team: there is no team 'blue' yet, so it limits nobody."]
    assert warnings_for(rule, known=KnownNames(teams={"blue"})) == []
    rule = changed_limit(scope={"key": "nx-0123456789ab"})
    assert len(warnings_for(rule)) == 1 and warnings_for(rule, known=KnownNames(keys={"nx-0123456789ab"})) == []


def test_two_equal_limits_are_warned_of():
    assert warnings_for(VALID_LIMIT, changed_limit(name="s")) == ['limits["s"] does the same as limits["r"]: one of them is enough.']


def test_rules_for_all_models_are_checked_as_fast_with_many_models_as_with_few():
    def warn_of(model_count: int) -> None:
        rules = [changed_limit(name=f"r{n}", resource="cost_usd", amount=1 + n, scope={"team": f"t{n}"}) for n in range(1_000)]
        models = {f"m{n}": ModelConfig((Target("p", "x"),), output_tokens=4_000_000_000) for n in range(model_count)}
        warnings = find_warnings(snapshots.build_snapshot(1, {"p": ProviderConfig("openai")}, models, rules, [PRICE]), KnownNames())
        assert sum("reserves" in each for each in warnings) == 1_000

    assert cpu_time_growth(warn_of, 20, 400) < 5


def test_rules_for_all_functions_are_checked_as_fast_with_many_functions_as_with_few():
    def warn_of(function_count: int) -> None:
        scopes = ({"team": f"t{n}", "function": "each", **({"model": "m"} if n % 2 else {})} for n in range(1_000))
        rules = [changed_limit(name=f"r{n}", resource="cost_usd", amount=1 + n, scope=scope) for n, scope in enumerate(scopes)]
        models = {"m": ModelConfig((Target("p", "x"),), output_tokens=4_000_000_000)}
        functions = {f"f{n}": FunctionConfig({"only": VariantConfig("m")}) for n in range(function_count)}
        snapshot = snapshots.build_snapshot(1, {"p": ProviderConfig("openai")}, models, rules, [PRICE], functions=functions)
        assert sum("reserves" in each for each in find_warnings(snapshot, KnownNames())) == 1_000

    assert cpu_time_growth(warn_of, 20, 400) < 5
