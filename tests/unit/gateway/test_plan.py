"""Plans: targets are drawn by weight, an id always draws the same ones, and fallbacks come after the model's own targets."""

import time
from collections import Counter

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app import uuid7
from app.domain import Caller, ModelConfig, Snapshot, Target
from app.gateway.plan import check_episode, order_targets, plan
from providers.canonical.errors import InvalidRequest, NotAllowed, UnknownModel
from tests.support.chat_strategies import bounded

weights = st.none() | st.floats(0.01, 100) | st.just(0.0) | st.integers(0, 5).map(float)
targets = st.lists(weights, min_size=1, max_size=5).map(
    lambda given: tuple(Target("p", f"m{at}", weight) for at, weight in enumerate(given))
)

UNRESTRICTED_CALLER = Caller("key", "team", "t", "full")


def snapshot_of(**models: ModelConfig) -> Snapshot:
    return Snapshot(1, "h", {}, models)


@bounded
@given(targets, st.uuids().map(str))
def test_target_order_is_deterministic_per_seed_without_duplicates(configured: tuple[Target, ...], seed: str) -> None:
    drawn = order_targets(configured, seed)
    assert drawn == order_targets(configured, seed)
    weighted = any(target.weight is not None for target in configured)
    assert sorted(drawn, key=configured.index) == [target for target in configured if not weighted or target.weight != 0]
    if not weighted:
        assert drawn == configured


@pytest.mark.parametrize("configured", [(1.0, 1.0), (3.0, 1.0), (0.9, 0.1), (5.0, 3.0, 2.0), (None, 3.0), (1.0, 0.0, 1.0)], ids=str)
def test_first_target_is_drawn_by_weight(configured: tuple[float | None, ...]) -> None:
    listed = tuple(Target("p", str(at), weight) for at, weight in enumerate(configured))
    draws = 4000
    first = Counter(order_targets(listed, f"seed-{number}")[0].model for number in range(draws))
    weights = [1.0 if weight is None else weight for weight in configured]
    for at, weight in enumerate(weights):
        share = weight / sum(weights)
        # Five standard deviations: the seeds are fixed, so this passes always or never.
        assert abs(first[str(at)] - draws * share) <= 5 * (draws * share * (1 - share)) ** 0.5


def test_second_target_is_drawn_by_weight_among_the_rest() -> None:
    listed = tuple(Target("p", str(at), weight) for at, weight in enumerate((8.0, 3.0, 1.0)))
    orders = [order_targets(listed, f"seed-{number}") for number in range(4000)]
    after_0 = [order[1].model for order in orders if order[0].model == "0"]
    assert 0.72 < after_0.count("1") / len(after_0) < 0.78


def test_fallbacks_come_last_and_their_own_fallbacks_are_not_followed() -> None:
    models = snapshot_of(
        a=ModelConfig((Target("p", "a1"), Target("p", "a2")), fallbacks=("b", "c")),
        b=ModelConfig((Target("p", "b1"),), fallbacks=("d",)),
        c=ModelConfig((Target("p", "c1", 0.0), Target("p", "c2", 1.0))),
        d=ModelConfig((Target("p", "d1"),)),
    )
    planned = plan(models, UNRESTRICTED_CALLER, "a", "seed")
    assert [target.model for target in planned.targets] == ["a1", "a2", "b1", "c2"]
    assert (planned.name, planned.names) == ("a", ("a", "a", "b", "c"))
    assert (planned.model, planned.snapshot) == ("a", models)


@pytest.mark.parametrize("name", ["tensorzero::model_name::a", "narthex::model_name::a", "a"])
def test_model_is_found_by_its_name_with_or_without_a_prefix(name: str) -> None:
    planned = plan(snapshot_of(a=ModelConfig((Target("p", "a1"),))), UNRESTRICTED_CALLER, name, "seed")
    assert [target.model for target in planned.targets] == ["a1"]
    assert planned.model == name


@pytest.mark.parametrize(
    ("name", "message"),
    [("b", "There is no model 'b'. This key may use: a."), ("tensorzero::function_name::f", "There is no function 'f'")],
)
def test_unknown_model_is_refused_with_the_usable_ones(name: str, message: str) -> None:
    with pytest.raises(UnknownModel) as unknown:
        plan(snapshot_of(a=ModelConfig((Target("p", "a1"),))), UNRESTRICTED_CALLER, name, "seed")
    assert unknown.value.message.startswith(message)
    assert unknown.value.param == "model"


def test_long_list_of_usable_models_is_shortened() -> None:
    models = {f"m{number:03}": ModelConfig((Target("p", "x"),)) for number in range(60)}
    with pytest.raises(UnknownModel, match=r"m049 and 10 more \(GET /v1/models lists all\)\.$"):
        plan(snapshot_of(**models), UNRESTRICTED_CALLER, "x", "seed")
    with pytest.raises(UnknownModel, match="none is configured yet"):
        plan(snapshot_of(), UNRESTRICTED_CALLER, "x", "seed")


@bounded
@given(st.integers(0, 2**47), st.integers(-(10**12), 60_000), st.booleans())
def test_episode_id_not_in_the_future_is_accepted_and_lowercased(now_ms: int, skew_ms: int, upper: bool) -> None:
    episode = uuid7.mint(max(0, now_ms + skew_ms) * 1000)
    assert check_episode(episode.upper() if upper else episode, now_ms) == episode


@bounded
@given(st.integers(0, 2**47), st.integers(60_001, 10**12))
def test_episode_id_from_the_future_is_refused(now_ms: int, ahead_ms: int) -> None:
    with pytest.raises(InvalidRequest, match="future"):
        check_episode(uuid7.mint((now_ms + ahead_ms) * 1000), now_ms)


@bounded
@given(
    st.one_of(
        st.text(), st.uuids(version=4).map(str), st.uuids(version=1).map(str), st.just(uuid7.mint() + "\n"), st.just(uuid7.mint()[:-1])
    )
)
def test_episode_id_that_is_not_a_uuid7_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequest, match="UUIDv7") as refused:
        check_episode(text, time.time() * 1000)
    assert refused.value.param == "episode_id"


def test_restricted_key_sees_only_its_models_and_fallbacks_need_no_permission() -> None:
    models = snapshot_of(
        **{"small-1": ModelConfig((Target("p", "s"),), fallbacks=("large",)), "large": ModelConfig((Target("p", "l"),))},
        **{"secret": ModelConfig((Target("p", "x"),))},
    )
    small = msgspec.structs.replace(UNRESTRICTED_CALLER, models=("small-*", "other"))
    assert plan(models, small, "small-1", "seed").names == ("small-1", "large")
    with pytest.raises(NotAllowed, match=r"may not use the model 'large'\. This key may use: small-1\.") as refused:
        plan(models, small, "large", "seed")
    assert refused.value.param == "model"
    with pytest.raises(NotAllowed, match=r"This key may use: small-1\.") as unknown:
        plan(models, small, "nowhere", "seed")
    assert "secret" not in unknown.value.message
    with pytest.raises(UnknownModel, match=r"There is no model 'other'\. This key may use: small-1\."):
        plan(models, small, "other", "seed")
    with pytest.raises(NotAllowed, match="may use none"):
        plan(models, msgspec.structs.replace(UNRESTRICTED_CALLER, models=("none-*",)), "x", "seed")
