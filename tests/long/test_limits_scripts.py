"""The scripts against the model, with many more examples than `make test` has time for."""

from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.gateway.limits.rules import WINDOW
from tests.stories.counting import Bucket
from tests.stories.test_limits_scripts import busy, follow, rows, steps
from tests.stories.valkey import Valkey, valkey, valkey_server

__all__ = ["valkey", "valkey_server"]

many = settings(max_examples=600, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])


@many
@given(rows, steps)
def test_the_scripts_do_as_the_model(valkey: Valkey, row: list[Bucket], script: list[Any]):
    follow(valkey, row, script)


@many
@given(st.integers(1, 5), busy)
def test_no_window_ever_holds_more(valkey: Valkey, amount: int, script: list[Any]):
    follow(valkey, [Bucket(WINDOW, "requests", amount, 60_000)], script)
