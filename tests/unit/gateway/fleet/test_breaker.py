"""A breaker opens after failures in a row, lets one request through when its time is over, and closes once that has succeeded."""

import time

import pytest

from app.gateway.fleet.breaker import Breaker
from providers.canonical.errors import Overloaded, Unreachable, UpstreamRejected


@pytest.fixture
def breaker() -> Breaker:
    breaker = Breaker()
    for _ in range(3):
        assert not breaker.is_open(time.monotonic())
        breaker.record_failure(Unreachable("no"), max_failures=3, open_s=60)
    return breaker


def test_opens_after_failures_in_a_row(breaker: Breaker):
    now = time.monotonic()
    assert breaker.is_open(now) and not breaker.is_open(now + 61)


@pytest.mark.parametrize("error", [Overloaded("busy"), UpstreamRejected("bad request", upstream_status=400)])
def test_errors_that_are_not_the_endpoints_fault_start_the_count_anew(error: Overloaded | UpstreamRejected):
    breaker = Breaker()
    for each in (Unreachable("no"), Unreachable("no"), error, Unreachable("no"), Unreachable("no")):
        breaker.record_failure(each, max_failures=3, open_s=60)
    assert not breaker.is_open(time.monotonic())


def test_half_open_breaker_lets_one_request_through(breaker: Breaker):
    later = time.monotonic() + 61
    breaker.begin_request(later)
    assert breaker.is_open(later + 1)
    breaker.record_success()
    assert not breaker.is_open(later + 1)


def test_failed_trial_opens_it_again(breaker: Breaker):
    breaker.open_until = 0.0  # its time is over
    breaker.begin_request(time.monotonic())
    breaker.record_failure(Unreachable("no"), max_failures=3, open_s=60)
    assert breaker.is_open(time.monotonic() + 59)


def test_trial_that_never_ends_is_followed_by_another(breaker: Breaker):
    later = time.monotonic() + 61
    breaker.begin_request(later)
    assert not breaker.is_open(later + 61)


def test_success_does_not_put_back_an_endpoint_that_a_probe_took_out():
    breaker = Breaker()
    breaker.open_for(60)
    breaker.record_success()
    assert breaker.is_open(time.monotonic())
    breaker.close()
    assert not breaker.is_open(time.monotonic())
