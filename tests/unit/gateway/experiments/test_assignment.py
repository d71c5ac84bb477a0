"""Assignment: sticky, by the weights in force at birth, uniform and independent. Seeds and bounds are fixed: these pass always or never."""

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from app.domain.callers import Caller
from app.domain.experiments import EXPERIMENT_CLOCK_TOLERANCE_MS, EXPERIMENT_LEAD_MS
from app.gateway.experiments.assignment import choose_arm
from app.gateway.state.episode_id import Episode
from tests.support.assigned_units import CALLER, assigned, chi_square, episode_born, experiment, version
from tests.support.strategies.chat_strategies import bounded

UNITS = 20_000
HOUR_MS = 3_600_000
weights = st.dictionaries(st.sampled_from(["a", "b", "c", "d"]), st.floats(0.01, 10), min_size=2)


def test_changes_of_a_weight_move_no_running_episode():
    arms = {"a": 45.0, "b": 45.0, "c": 10.0}
    first = version(1, arms)
    second = version(2, {**arms, "c": 20.0}, after_ms=HOUR_MS)
    third = version(3, {**arms, "c": 50.0}, after_ms=2 * HOUR_MS)
    for count, born_ms in enumerate((0, HOUR_MS - 1, HOUR_MS, 2 * HOUR_MS - 1, 2 * HOUR_MS), 1):
        known = experiment(first), experiment(first, second), experiment(first, second, third)
        in_force = known[born_ms // HOUR_MS :]
        for number in range(2_000):
            episode = episode_born(born_ms, number)
            results = {assigned(each, episode=episode, at_ms=3 * HOUR_MS) for each in in_force}
            assert len(results) == 1, count
            assert results.pop().version == born_ms // HOUR_MS + 1


@pytest.mark.parametrize("unit", ["user", "team", "tag:tenant", "text"])
def test_raised_enrolment_moves_no_unit_between_arms(unit: str):
    """Versions with other weights move none either: only episodes with a birth time follow them."""
    steps = [version(1, {"a": 1.0, "b": 1.0}, enrolment=0.1), version(2, {"a": 1.0, "b": 9.0}, after_ms=HOUR_MS, enrolment=0.5)]
    steps.append(version(3, {"a": 1.0, "b": 1.0}, after_ms=2 * HOUR_MS))
    of = experiment(*steps, unit="episode" if unit == "text" else unit)
    enrolled: list[int] = []
    arms: dict[int, str] = {}
    for at_ms in (0, HOUR_MS, 2 * HOUR_MS):
        count = 0
        for number in range(2_000):
            caller = replace(CALLER, team_id=f"team {number}") if unit == "team" else CALLER
            episode = Episode(f"{number:032x}", "text")
            tags = {"tenant": f"t{number}"}
            result = assigned(of, caller=caller, episode=episode, user=f"user {number}", tags=tags, at_ms=at_ms)
            if result.not_enrolled is None:
                count += 1
                assert arms.setdefault(number, result.arm) == result.arm
            else:
                assert (result.not_enrolled, result.arm) == ("share", "a") and number not in arms
        enrolled.append(count)
    # Of 2,000: four standard deviations of a binomial count.
    assert abs(enrolled[0] - 200) < 54 and abs(enrolled[1] - 1_000) < 90 and enrolled[2] == 2_000
    # By the first version's even weights, also of those who came under the second.
    assert abs(list(arms.values()).count("a") - 1_000) < 90


@pytest.mark.parametrize("unit", ["episode", "user", "team", "tag:tenant"])
@pytest.mark.parametrize("enrolment", [0.2, 0.9], ids=["falls", "rises"])
def test_a_running_conversation_keeps_its_arm_when_enrolment_changes(unit: str, enrolment: float):
    """That holds for every unit: whoever begins another conversation may be left out, or take part, from then on."""
    first = version(1, {"a": 1.0, "b": 1.0}, enrolment=0.5)
    of = experiment(first, version(2, {"a": 1.0, "b": 1.0}, after_ms=HOUR_MS, enrolment=enrolment), unit=unit)
    moved = 0
    for number in range(500):
        facts: Any = {"user": f"user {number}", "tags": {"tenant": f"t{number}"}, "caller": replace(CALLER, team_id=f"team {number}")}
        running, later = episode_born(0, number), episode_born(HOUR_MS, number)
        before = assigned(of, episode=running, at_ms=1, **facts)
        assert assigned(of, episode=running, at_ms=HOUR_MS + 1, **facts) == before
        moved += assigned(of, episode=later, at_ms=HOUR_MS + 1, **facts).not_enrolled != before.not_enrolled
    assert moved > 100


@pytest.mark.parametrize("unit", ["episode", "user"])
def test_a_conversation_from_before_an_experiment_takes_no_part_in_it(unit: str):
    of = experiment(version(1, {"a": 0.0, "b": 1.0}, after_ms=HOUR_MS), unit=unit)
    result = assigned(of, episode=episode_born(0, 1), user="ann", at_ms=2 * HOUR_MS)
    assert (result.not_enrolled, result.arm) == ("before", "a")
    assert assigned(of, episode=episode_born(HOUR_MS, 1), user="ann", at_ms=2 * HOUR_MS).arm == "b"


@bounded
@given(weights, st.integers(0, 2**60), st.sampled_from(["a", "b", "c", "d"]), st.floats(1, 100))
def test_raised_weight_moves_units_only_into_that_arm(arms: dict[str, float], number: int, raised: str, factor: float):
    unit = number.to_bytes(8)
    before = choose_arm(arms, "salt", unit)
    after = choose_arm({**arms, raised: arms.get(raised, 1.0) * factor if raised in arms else factor}, "salt", unit)
    assert after in (before, raised)


@bounded
@given(weights, st.integers(0, 2**60))
def test_order_of_arms_and_scale_of_weights_change_nothing(arms: dict[str, float], number: int):
    unit = number.to_bytes(8)
    turned = {name: weight * 4 for name, weight in reversed(arms.items())}
    assert choose_arm(arms, "salt", unit) == choose_arm(turned, "salt", unit)


def test_arm_of_weight_0_gets_no_unit():
    assert {choose_arm({"a": 1.0, "b": 0.0}, "salt", number.to_bytes(8)) for number in range(2_000)} == {"a"}


def test_units_are_assigned_by_weight():
    arms = {"a": 5.0, "b": 3.0, "c": 2.0}
    of = experiment(version(1, arms))
    counts = Counter(assigned(of, episode=episode_born(number, number)).arm for number in range(UNITS))
    # Chi-square with 2 degrees of freedom: 13.8 is exceeded once in a thousand.
    assert chi_square([counts[arm] for arm in arms], [UNITS * weight / 10 for weight in arms.values()]) < 13.8


def test_experiments_are_independent_of_each_other():
    first = experiment(version(1, {"a": 1.0, "b": 1.0}), salt="one")
    second = experiment(version(1, {"a": 1.0, "b": 3.0}), salt="two")
    pairs = Counter(
        (assigned(first, episode=episode).arm, assigned(second, episode=episode).arm)
        for episode in (episode_born(number, number) for number in range(UNITS))
    )
    expected = {("a", "a"): 0.125, ("a", "b"): 0.375, ("b", "a"): 0.125, ("b", "b"): 0.375}
    # With 3 degrees of freedom: 16.3 is exceeded once in a thousand.
    assert chi_square([pairs[pair] for pair in expected], [UNITS * share for share in expected.values()]) < 16.3


def test_enrolment_is_independent_of_the_arm():
    of = experiment(version(1, {"a": 1.0, "b": 1.0}, enrolment=0.5))
    everybody = replace(of, versions=(replace(of.versions[0], enrolment=1.0),))
    episodes = [episode_born(number, number) for number in range(UNITS)]
    pairs = Counter((assigned(everybody, episode=each).arm, assigned(of, episode=each).not_enrolled) for each in episodes)
    assert chi_square([*pairs.values()], [UNITS / 4] * 4) < 16.3


def test_experiments_of_one_layer_share_no_unit():
    first = experiment(version(1, {"a": 1.0, "b": 1.0}), salt="one", layer="l", slots=(0, 4_000))
    second = experiment(version(1, {"a": 1.0, "b": 1.0}), salt="two", layer="l", slots=(4_000, 10_000))
    for number in range(2_000):
        episode = episode_born(0, number)
        reasons = {assigned(first, episode=episode).not_enrolled, assigned(second, episode=episode).not_enrolled}
        assert reasons == {None, "layer"}


def test_holdout_keeps_the_same_units_out_of_every_experiment():
    smaller = experiment(version(1, {"a": 1.0, "b": 1.0}), salt="one", holdout=0.1)
    larger = experiment(version(1, {"a": 1.0, "b": 1.0}), salt="two", holdout=0.2)
    held = [
        {number for number in range(5_000) if assigned(of, episode=episode_born(0, number)).not_enrolled == "holdout"}
        for of in (smaller, larger)
    ]
    assert held[0] < held[1]
    # Four standard deviations.
    assert abs(len(held[0]) - 500) < 85 and abs(len(held[1]) - 1_000) < 114


@pytest.mark.parametrize(
    ("eligible", "takes_part"),
    [
        ({"team": ("legal", "sales")}, True),
        ({"team": ("sales",)}, False),
        ({"key": ("nx-0123456789ab",)}, True),
        ({"key": ("nx-000000000000",)}, False),
        ({"tag:tier": ("pro",)}, True),
        ({"tag:tier": ("free",)}, False),
        ({"tag:other": ("pro",)}, False),
        ({"team": ("legal",), "tag:tier": ("free",)}, False),
    ],
)
def test_only_eligible_requests_take_part(eligible: dict[str, tuple[str, ...]], takes_part: bool):
    result = assigned(experiment(version(1, {"a": 0.0, "b": 1.0}), eligible=eligible), tags={"tier": "pro"})
    assert (result.arm, result.not_enrolled) == (("b", None) if takes_part else ("a", "ineligible"))


def test_episode_from_before_the_start_gets_the_control():
    of = experiment(version(1, {"a": 0.0, "b": 1.0}))
    result = assigned(of, episode=episode_born(-1, 0))
    assert (result.arm, result.not_enrolled, result.probability) == ("a", "before", 0.0)


def test_pinned_request_gets_its_arm_and_takes_no_part():
    result = assigned(experiment(version(1, {"a": 1.0, "b": 1.0, "c": 0.0})), pin="c")
    assert (result.arm, result.not_enrolled, result.probability) == ("c", "pinned", 0.0)


@pytest.mark.parametrize("unit", ["user", "tag:tenant"])
def test_request_without_the_unit_gets_the_control(unit: str):
    result = assigned(experiment(version(1, {"a": 0.0, "b": 1.0}), unit=unit))
    assert (result.arm, result.not_enrolled, result.unit) == ("a", "no_unit", None)


def test_snapshot_that_may_lack_a_version_serves_its_newest_and_enrols_nobody():
    of = experiment(version(1, {"a": 1.0, "b": 0.0}), version(2, {"a": 0.0, "b": 1.0}, after_ms=1))
    tolerated_ms = EXPERIMENT_LEAD_MS - EXPERIMENT_CLOCK_TOLERANCE_MS
    assert assigned(of, age_ms=tolerated_ms).not_enrolled is None
    late = assigned(of, age_ms=tolerated_ms + 1)
    assert (late.arm, late.version, late.not_enrolled, late.probability) == ("b", 2, "late", 1.0)
    running = assigned(of, age_ms=tolerated_ms + 1, episode=episode_born(2, 0))
    assert (running.arm, running.not_enrolled) == ("b", None)


def test_episode_of_the_future_keeps_its_arm_and_is_not_enrolled_yet():
    of = experiment(version(1, {"a": 1.0, "b": 1.0}))
    for number in range(50):
        episode = episode_born(HOUR_MS + EXPERIMENT_CLOCK_TOLERANCE_MS + 1, number)
        early = assigned(of, episode=episode, at_ms=HOUR_MS)
        assert early.not_enrolled == "future"
        assert assigned(of, episode=episode, at_ms=2 * HOUR_MS) == replace(early, not_enrolled=None)


def test_no_two_teams_share_a_unit():
    of = experiment(version(1, {"a": 1.0, "b": 1.0}), unit="user")
    one, two = (Caller("key", team, "t", "full") for team in ("one", "two"))
    assert assigned(of, user="u", caller=one).unit != assigned(of, user="u", caller=two).unit


def test_unit_of_a_half_surrogate_pair_is_assigned():
    assert assigned(experiment(version(1, {"a": 1.0, "b": 1.0}), unit="user"), user="\ud800").not_enrolled is None


def test_probability_is_of_the_version_by_which_the_unit_is_assigned():
    of = experiment(version(1, {"a": 3.0, "b": 1.0}), version(2, {"a": 0.0, "b": 1.0}, after_ms=HOUR_MS))
    by_arm = {result.arm: result.probability for result in (assigned(of, episode=episode_born(0, number)) for number in range(50))}
    assert by_arm == {"a": 0.75, "b": 0.25}
    text_name = assigned(of, episode=Episode("f" * 32, "text"), at_ms=2 * HOUR_MS)
    assert text_name.version == 2 and text_name.probability in (0.75, 0.25)
