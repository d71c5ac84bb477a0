"""The requests that are answered again, and those that never are."""

import pytest
from msgspec.structs import replace

from app.domain.callers import Caller
from app.domain.routing import ModelConfig, ShadowConfig, Target
from app.domain.snapshot import Plan
from app.domain.uuid7 import mint
from app.gateway.shadow.choice import config_of, find_objection, is_drawn
from app.store.configuration.snapshots import build_snapshot

TARGETS = (Target("sandbox", "sandbox"),)
SHADOW = ShadowConfig("large", "lab", 0.1)
SNAPSHOT = build_snapshot(1, {}, {"small": ModelConfig(TARGETS, shadow=SHADOW), "large": ModelConfig(TARGETS)}, shadow_teams={"lab": "1"})
PLAN = Plan("small", "small", TARGETS, ("small",), SNAPSHOT)
CALLER = Caller("key", "team", "team", "full")


def test_share_is_drawn_and_a_larger_one_draws_the_same_and_more():
    ids = [mint() for _ in range(20_000)]
    small, large = ({id for id in ids if is_drawn(share, "small", id)} for share in (0.1, 0.3))
    assert small < large
    assert len(small) == pytest.approx(2_000, abs=200)  # 4.7 standard deviations
    assert len(large) == pytest.approx(6_000, abs=300)
    assert all(is_drawn(1, "small", id) for id in ids) and not any(is_drawn(0, "small", id) for id in ids)
    others = {id for id in ids if is_drawn(0.1, "other", id)}
    assert len(small & others) == pytest.approx(200, abs=70)


def test_only_a_shadow_whose_team_is_known_is_in_force():
    assert config_of(SNAPSHOT, "small") == SHADOW
    assert config_of(SNAPSHOT, "large") is None and config_of(SNAPSHOT, "none") is None
    assert config_of(replace(SNAPSHOT, shadow_teams={}), "small") is None


@pytest.mark.parametrize(
    ("caller", "plan", "expected"),
    [
        (CALLER, PLAN, None),
        (replace(CALLER, content="masked", models=("sm*", "large")), PLAN, None),
        (replace(CALLER, content="redacted"), PLAN, "content_policy"),
        (replace(CALLER, content="none"), PLAN, "content_policy"),
        (replace(CALLER, models=("small",)), PLAN, "not_allowed"),
        # A function's variants need no permission of their own.
        (replace(CALLER, models=("task",)), replace(PLAN, function="task", variant="plain"), None),
        (CALLER, replace(PLAN, function="task", variant="large"), "same_variant"),
        (CALLER, replace(PLAN, name="large", experiment_model="small", variant="large"), "same_variant"),
    ],
)
def test_request_is_not_answered_again_against_the_rights_of_whoever_sent_it(caller: Caller, plan: Plan, expected: str | None):
    assert find_objection(plan, SHADOW, caller) == expected
