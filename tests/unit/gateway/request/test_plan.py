"""Plans: targets are drawn by weight, an episode keeps its targets, and fallbacks come after the model's own targets."""

from collections import Counter

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.callers import Caller
from app.domain.experiments import ExperimentConfig
from app.domain.functions import FunctionConfig, VariantConfig
from app.domain.routing import ModelConfig, Target
from app.domain.snapshot import Snapshot
from app.gateway.routing.plan import order_targets, plan, without_fallbacks
from app.gateway.state.episode_id import EpisodeIds
from providers.canonical.errors import InvalidRequest, NotAllowed, UnknownModel
from tests.support.strategies.chat_strategies import bounded

weights = st.none() | st.floats(0.01, 100) | st.just(0.0) | st.integers(0, 5).map(float)
targets = st.lists(weights, min_size=1, max_size=5).map(
    lambda given: tuple(Target("p", f"m{at}", weight) for at, weight in enumerate(given))
)

UNRESTRICTED_CALLER = Caller("key", "team", "t", "full")
EPISODE_IDS = EpisodeIds([])
EPISODE = EPISODE_IDS.read("a conversation", "team", 0.0)


def snapshot_of(**models: ModelConfig) -> Snapshot:
    return Snapshot(1, "h", {}, models)


@bounded
@given(targets, st.uuids().map(str))
def test_target_order_is_deterministic_per_episode_without_duplicates(configured: tuple[Target, ...], unit: str) -> None:
    drawn = order_targets(configured, "m", unit.encode())
    assert drawn == order_targets(configured, "m", unit.encode())
    weighted = any(target.weight is not None for target in configured)
    assert sorted(drawn, key=configured.index) == [target for target in configured if not weighted or target.weight != 0]
    if not weighted:
        assert drawn == configured


def test_target_listed_twice_is_drawn_twice() -> None:
    twice = (Target("p", "a", 1.0, ("http://one",)), Target("p", "a", 1.0, ("http://two",)), Target("p", "b", 0.0))
    first = Counter(order_targets(twice, "m", b"%d" % number)[0].endpoints[0] for number in range(1000))
    assert min(first["http://one"], first["http://two"]) > 400


def test_plan_draws_by_team_and_episode_alone() -> None:
    models = snapshot_of(a=ModelConfig(tuple(Target("p", f"a{number}", 1.0) for number in range(50))))
    ours, theirs = Caller("key", "team", "t", "full"), Caller("other-key", "other-team", "o", "full")
    of_episode = plan(models, ours, "a", EPISODE).targets
    assert plan(models, msgspec.structs.replace(ours, key_id="another"), "narthex::model_name::a", EPISODE).targets == of_episode
    assert plan(models, theirs, "a", EPISODE).targets != of_episode
    assert plan(models, ours, "a", EPISODE_IDS.mint("team")).targets != of_episode


def test_episode_draws_each_model_by_itself() -> None:
    pair = ModelConfig((Target("p", "x", 1.0), Target("p", "y", 1.0)))
    models = snapshot_of(a=pair, b=pair)
    episodes = [EPISODE_IDS.mint("team") for _ in range(400)]
    same = sum(
        plan(models, UNRESTRICTED_CALLER, "a", each).targets == plan(models, UNRESTRICTED_CALLER, "b", each).targets for each in episodes
    )
    assert 140 < same < 260  # six standard deviations


def test_fallbacks_come_last_and_their_own_fallbacks_are_not_followed() -> None:
    models = snapshot_of(
        a=ModelConfig((Target("p", "a1"), Target("p", "a2")), fallbacks=("b", "c")),
        b=ModelConfig((Target("p", "b1"),), fallbacks=("d",)),
        c=ModelConfig((Target("p", "c1", 0.0), Target("p", "c2", 1.0))),
        d=ModelConfig((Target("p", "d1"),)),
    )
    planned = plan(models, UNRESTRICTED_CALLER, "a", EPISODE)
    assert [target.model for target in planned.targets] == ["a1", "a2", "b1", "c2"]
    assert (planned.name, planned.names) == ("a", ("a", "a", "b", "c"))
    assert (planned.model, planned.snapshot) == ("a", models)


@pytest.mark.parametrize("name", ["tensorzero::model_name::a", "narthex::model_name::a", "a"])
def test_model_is_found_by_its_name_with_or_without_a_prefix(name: str) -> None:
    planned = plan(snapshot_of(a=ModelConfig((Target("p", "a1"),))), UNRESTRICTED_CALLER, name, EPISODE)
    assert [target.model for target in planned.targets] == ["a1"]
    assert planned.model == name


@pytest.mark.parametrize(
    ("name", "message"),
    [("b", "There is no model 'b'. This key may use: a."), ("tensorzero::function_name::f", "There is no function 'f'")],
)
def test_unknown_model_is_refused_with_the_usable_ones(name: str, message: str) -> None:
    with pytest.raises(UnknownModel) as unknown:
        plan(snapshot_of(a=ModelConfig((Target("p", "a1"),))), UNRESTRICTED_CALLER, name, EPISODE)
    assert unknown.value.message.startswith(message)
    assert unknown.value.param == "model"


def test_long_list_of_usable_models_is_shortened() -> None:
    models = {f"m{number:03}": ModelConfig((Target("p", "x"),)) for number in range(60)}
    with pytest.raises(UnknownModel, match=r"m049 and 10 more \(GET /v1/models lists all\)\.$"):
        plan(snapshot_of(**models), UNRESTRICTED_CALLER, "x", EPISODE)
    with pytest.raises(UnknownModel, match="none is configured yet"):
        plan(snapshot_of(), UNRESTRICTED_CALLER, "x", EPISODE)


def test_restricted_key_sees_only_its_models_and_fallbacks_need_no_permission() -> None:
    models = snapshot_of(
        **{"small-1": ModelConfig((Target("p", "s"),), fallbacks=("large",)), "large": ModelConfig((Target("p", "l"),))},
        **{"secret": ModelConfig((Target("p", "x"),))},
    )
    small = msgspec.structs.replace(UNRESTRICTED_CALLER, models=("small-*", "other"))
    assert plan(models, small, "small-1", EPISODE).names == ("small-1", "large")
    with pytest.raises(NotAllowed, match=r"may not use the model 'large'\. This key may use: small-1\.") as refused:
        plan(models, small, "large", EPISODE)
    assert refused.value.param == "model"
    with pytest.raises(NotAllowed, match=r"This key may use: small-1\.") as unknown:
        plan(models, small, "nowhere", EPISODE)
    assert "secret" not in unknown.value.message
    with pytest.raises(UnknownModel, match=r"There is no model 'other'\. This key may use: small-1\."):
        plan(models, small, "other", EPISODE)
    with pytest.raises(NotAllowed, match="may use none"):
        plan(models, msgspec.structs.replace(UNRESTRICTED_CALLER, models=("none-*",)), "x", EPISODE)


def function_of(fallbacks: tuple[str, ...] = (), default: str | None = None, **models: str) -> FunctionConfig:
    return FunctionConfig({variant: VariantConfig(model) for variant, model in models.items()}, default=default, fallbacks=fallbacks)


def with_functions(snapshot: Snapshot, **functions: FunctionConfig) -> Snapshot:
    return msgspec.structs.replace(snapshot, functions=functions)


MODELS_OF_FUNCTIONS = snapshot_of(
    small=ModelConfig((Target("p", "s1"), Target("p", "s2")), fallbacks=("spare",)),
    large=ModelConfig((Target("p", "l"),)),
    spare=ModelConfig((Target("p", "x"),)),
)


@pytest.mark.parametrize("name", ["f", "narthex::function_name::f", "tensorzero::function_name::f"])
def test_function_is_found_by_its_name_with_or_without_a_prefix(name: str) -> None:
    planned = plan(with_functions(MODELS_OF_FUNCTIONS, f=function_of(only="large")), UNRESTRICTED_CALLER, name, EPISODE)
    assert (planned.model, planned.name, planned.function, planned.variant) == (name, "large", "f", "only")
    assert (planned.targets, planned.names, planned.variants) == ((Target("p", "l"),), ("large",), ("only",))


def test_chosen_variant_comes_first_then_its_models_fallbacks_then_other_variants() -> None:
    snapshot = with_functions(
        MODELS_OF_FUNCTIONS, f=function_of(("terse", "wordy", "odd"), "wordy", terse="small", wordy="large", odd="small", unused="spare")
    )
    planned = plan(snapshot, UNRESTRICTED_CALLER, "f", EPISODE)
    assert list(zip([target.model for target in planned.targets], planned.names, planned.variants, strict=True)) == [
        ("l", "large", "wordy"),
        *[("s1", "small", "terse"), ("s2", "small", "terse"), ("x", "spare", "terse")],
        *[("s1", "small", "odd"), ("s2", "small", "odd"), ("x", "spare", "odd")],
    ]
    assert (planned.name, planned.variant) == ("large", "wordy")
    pinned = plan(snapshot, UNRESTRICTED_CALLER, "f", EPISODE, pinned_variant="odd")
    assert (pinned.variant, pinned.name, pinned.variants) == ("odd", "small", ("odd",) * 3 + ("terse",) * 3 + ("wordy",))
    with pytest.raises(InvalidRequest, match=r"has no variant 'none'\. It has: odd, terse, unused, wordy\."):
        plan(snapshot, UNRESTRICTED_CALLER, "f", EPISODE, pinned_variant="none")


def test_nothing_but_the_chosen_one_is_tried_without_fallbacks() -> None:
    models = {
        **{name: ModelConfig((Target("p", f"{name}1"), Target("p", f"{name}2")), fallbacks=("c",)) for name in "ab"},
        "c": ModelConfig((Target("p", "c1"),)),
        "alias": ModelConfig((Target("p", "a1", 0.0),), fallbacks=("c",)),
        "tested": ModelConfig((Target("p", "t1"),), experiment=ExperimentConfig({"a": 0.5, "b": 0.0, "tested": 0.5})),
    }
    variants = {"one": VariantConfig("a"), "two": VariantConfig("a")}
    snapshot = Snapshot(1, "h", {}, models, functions={"f": FunctionConfig(variants, default="one", fallbacks=("two",))})

    def tried(name: str, variant: str | None = None) -> list[str]:
        planned = plan(snapshot, UNRESTRICTED_CALLER, name, EPISODE, pinned_variant=variant)
        return [each.model for each in without_fallbacks(planned).targets]

    assert tried("a") == ["a1", "a2"] and tried("c") == ["c1"] and tried("alias") == ["c1"]
    assert tried("f") == ["a1", "a2"] and tried("f", "two") == ["a1", "a2"]
    assert tried("tested", "b") == ["b1", "b2"] and tried("tested", "tested") == ["t1"]


def test_restricted_key_may_use_a_function_without_its_models() -> None:
    snapshot = with_functions(MODELS_OF_FUNCTIONS, f=function_of(only="large"), secret=function_of(only="large"))
    caller = msgspec.structs.replace(UNRESTRICTED_CALLER, models=("f",))
    assert plan(snapshot, caller, "tensorzero::function_name::f", EPISODE).function == "f"
    for name in ("large", "secret", "narthex::function_name::secret", "nowhere"):
        with pytest.raises(NotAllowed, match=r"This key may use: f\.") as refused:
            plan(snapshot, caller, name, EPISODE)
        assert "secret" not in refused.value.message.replace(name, "")
    with pytest.raises(UnknownModel, match=r"There is no function 'nowhere'\. This key may use: f, large, secret, small, spare\."):
        plan(snapshot, UNRESTRICTED_CALLER, "narthex::function_name::nowhere", EPISODE)


def test_prefix_of_models_names_no_function_and_the_other_way_round() -> None:
    snapshot = with_functions(MODELS_OF_FUNCTIONS, f=function_of(only="large"))
    for name in ("narthex::model_name::f", "narthex::function_name::large"):
        with pytest.raises(UnknownModel):
            plan(snapshot, UNRESTRICTED_CALLER, name, EPISODE)
