"""The Lua scripts of limits compared with the reference model, in many more examples than `make test` has time for."""

from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.gateway.limits.rules import WINDOW
from tests.integration.limits.test_limits_batches import buckets, run_turns_both_ways, turns
from tests.integration.limits.test_limits_lua_scripts import bucket_lists, busy_steps, run_against_model, steps
from tests.support.processes.valkey import Valkey, valkey, valkey_server
from tests.support.simulated.limit_scripts_model import START_MS, Bucket

__all__ = ["valkey", "valkey_server"]

many_examples = settings(max_examples=600, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])


@many_examples
@given(bucket_lists, steps)
def test_scripts_agree_with_the_model(valkey: Valkey, buckets: list[Bucket], script: list[Any]):
    run_against_model(valkey, buckets, script)


@many_examples
@given(st.integers(1, 5), busy_steps)
def test_rolling_window_never_exceeds_its_amount(valkey: Valkey, amount: int, script: list[Any]):
    run_against_model(valkey, [Bucket(WINDOW, "requests", amount, 60_000)], script)


@many_examples
@given(st.lists(buckets, min_size=1, max_size=6), st.sampled_from([0, START_MS - 10, START_MS + 10]), turns)
def test_operations_of_a_turn_agree_with_the_same_one_by_one(valkey: Valkey, buckets: list[Bucket], born_ms: int, script: list[Any]):
    run_turns_both_ways(valkey, buckets, born_ms, script)
