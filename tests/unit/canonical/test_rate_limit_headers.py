"""Rate limits that hosts report in response headers, in the header layout of each host."""

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as some

from providers.canonical.rate_limit_headers import RateLimit, read_rate_limits

# One moment by the monotonic clock and in Unix time: 2026-11-21T12:00:00Z.
NOW, NOW_S = 500.0, 1_795_262_400.0


def rate_limits(headers: Mapping[str, str]) -> set[RateLimit]:
    parsed = read_rate_limits([(name.encode(), value.encode()) for name, value in headers.items()], NOW, NOW_S)
    return set() if parsed is None else set(parsed.limits)


@pytest.mark.parametrize(
    ("reset", "remaining_s"),
    [
        ("2ms", 0.002),
        ("1s", 1),
        ("6m0s", 360),
        ("1h2m3.5s", 3723.5),
        ("2m59.56s", 179.56),
        ("17", 17),
        ("0.5", 0.5),
        ("2026-11-21T12:01:00Z", 60),
        ("2026-11-21T11:00:00Z", 0),
        (str(int(NOW_S) + 30), 30),
        (str(int(NOW_S) * 1000 + 30_000), 30),
        ("999999999d", 86_400),
    ],
)
def test_reset_time_is_read_in_every_known_format(reset: str, remaining_s: float):
    (limit,) = rate_limits({"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": reset})
    assert limit.resets_at == pytest.approx(NOW + remaining_s)  # pyright: ignore[reportUnknownMemberType]


def test_resource_name_is_read_from_every_header_layout_of_hosts():
    assert rate_limits({"X-RateLimit-Limit-Requests": "500", "x-ratelimit-remaining-requests": "499"}) == {RateLimit("requests", 500, 499)}
    assert rate_limits({"anthropic-ratelimit-input-tokens-limit": "9", "anthropic-ratelimit-input-tokens-remaining": "8"}) == {
        RateLimit("input-tokens", 9, 8)
    }
    assert rate_limits({"x-ratelimit-limit": "2", "x-ratelimit-remaining": "0", "x-ratelimit-reset": "1"}) == {
        RateLimit("requests", 2, 0, NOW + 1)
    }
    assert rate_limits({"x-ratelimit-remaining-req-minute": "92"}) == {RateLimit("req-minute", None, 92)}
    assert rate_limits({"x-ratelimit-limit-tokens-prompt": "60000"}) == {RateLimit("tokens-prompt", 60000)}
    assert rate_limits({"x-ratelimit-over-limit": "no", "x-request-id": "1", "content-type": "x"}) == set()


def test_exhausted_limit_is_waited_for_only_when_its_reset_is_known():
    def exhausted_until(headers: Mapping[str, str]) -> float:
        parsed = read_rate_limits([(name.encode(), value.encode()) for name, value in headers.items()], NOW, NOW_S)
        assert parsed is not None
        return parsed.exhausted_until

    assert exhausted_until({"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "20s"}) == NOW + 20
    assert exhausted_until({"x-ratelimit-remaining-requests": "1", "x-ratelimit-reset-requests": "20s"}) < NOW
    assert exhausted_until({"x-ratelimit-remaining-requests": "0"}) < NOW


@given(some.lists(some.tuples(some.sampled_from([b"x-ratelimit-reset-a", b"x-ratelimit-remaining", b"x-ratelimit--limit"]), some.binary())))
def test_arbitrary_header_values_never_break_the_parser(headers: list[tuple[bytes, bytes]]):
    parsed = read_rate_limits(headers, NOW, NOW_S)
    assert parsed is None or all(limit.resets_at is None or NOW <= limit.resets_at <= NOW + 86_400 for limit in parsed.limits)
