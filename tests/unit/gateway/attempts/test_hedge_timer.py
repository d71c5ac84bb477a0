"""A second attempt is made after the quantile of the newest latencies, for no more requests than the budget allows."""

from hypothesis import given
from hypothesis import strategies as st

from app.domain.exchange import Attempt
from app.domain.routing import HedgeConfig
from app.gateway.attempts.hedging import HedgeTimer


def took(ms: int) -> Attempt:
    return Attempt("p", "m", "http://e", 0, ms * 1000)


def test_delay_is_the_quantile_of_the_newest_latencies():
    timer, hedge = HedgeTimer(), HedgeConfig(quantile=0.9)
    assert timer.begin("m", hedge, streamed=True) is None
    for ms in range(100):
        timer.record("m", took(ms), streamed=True)
    assert timer.begin("m", hedge, streamed=True) == 0.09
    assert timer.begin("m", hedge, streamed=False) is None and timer.begin("other", hedge, streamed=True) is None
    for _ in range(1_000):
        timer.record("m", took(7), streamed=True)
    assert timer.begin("m", hedge, streamed=True) == 0.007


@given(st.floats(0.01, 1), st.lists(st.booleans(), max_size=300))
def test_no_more_attempts_than_the_budget(budget: float, wants: list[bool]):
    timer, hedge = HedgeTimer(), HedgeConfig(budget=budget)
    spent = 0
    for begun, wants_another in enumerate(wants, 1):
        timer.begin("m", hedge, streamed=False)
        spent += wants_another and timer.spend("m", streamed=False)
        assert spent <= begun * budget + 1e-6


def test_quiet_time_saves_up_few_attempts():
    timer, hedge = HedgeTimer(), HedgeConfig(budget=0.5)
    for _ in range(1_000):
        timer.begin("m", hedge, streamed=False)
    assert sum(timer.spend("m", streamed=False) for _ in range(100)) == 10
