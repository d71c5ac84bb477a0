"""Limits of single keys that no file has had stay where others are pruned or rolled back, and go with what they are about."""

import pytest

from app.domain.functions import FunctionConfig, VariantConfig
from app.domain.limits import Limit
from app.domain.routing import ModelConfig, Target
from app.domain.snapshot import Snapshot
from app.store.configuration.limits_of_keys import drop_limits_about_missing, find_kept_limits
from app.store.configuration.rows import State
from app.store.configuration.snapshots import build_snapshot

KEY = "nx-0123456789ab"


def limit(name: str, scope: dict[str, str] | None = None, amount: float = 5) -> Limit:
    return Limit(name, {"key": KEY, **(scope or {})}, "requests", amount, "day")


def snapshot(*limits: Limit) -> Snapshot:
    """Returns a snapshot with the model `m` and the function `f` alone."""
    models = {"m": ModelConfig((Target("p", "x"),))}
    return build_snapshot(1, {}, models, limits, functions={"f": FunctionConfig({"v": VariantConfig("m")})})


@pytest.mark.parametrize(
    ("scope", "stays"),
    [
        ({}, True),
        ({"model": "m"}, True),
        ({"model": "each", "function": "each"}, True),
        ({"function": "f"}, True),
        ({"model": "gone"}, False),
        ({"function": "gone"}, False),
        ({"model": "m", "function": "gone"}, False),
    ],
    ids=["all", "model", "each", "function", "missing-model", "missing-function", "model-and-missing-function"],
)
def test_a_limit_of_a_key_goes_with_what_it_is_about(scope: dict[str, str], stays: bool):
    limits = (limit("a", scope),)
    left, sentences = drop_limits_about_missing(snapshot(), limits, {"a"})
    assert (left, bool(sentences)) == ((list(limits), False) if stays else ([], True))
    assert drop_limits_about_missing(snapshot(), limits, set()) == (list(limits), []), "what a file has had is for validation"


def test_limits_of_keys_are_kept_unless_another_counts_the_same_and_are_named_ten_at_most():
    given = [limit(f"a{number:02}", {"tag:n": f"v{number:02}"}) for number in range(12)]
    current = State(snapshot(limit("same", amount=9), *given), {})
    wanted = State(snapshot(limit("of the file")), {})
    limits, (sentence,) = find_kept_limits(current, wanted, {"same", *(each.name for each in given)})
    assert [each.name for each in limits] == ["of the file", *(each.name for each in given)]
    assert "a00" in sentence and "a09 and 2 more" in sentence and "same" not in sentence
    assert find_kept_limits(current, wanted, set()) == ([limit("of the file")], [])
