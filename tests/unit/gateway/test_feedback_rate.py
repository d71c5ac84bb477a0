"""The amount of feedback that a team may send: by number and by size, without another team's share."""

import pytest

from app.gateway.feedback.rate import COUNTED_BYTES, MAX_AT_ONCE, FeedbackRate, counted
from providers.canonical.errors import LimitExceeded


def test_large_feedback_counts_as_several_and_teams_have_their_own_share() -> None:
    now = 0.0
    rate = FeedbackRate(10, lambda: now)
    for _ in range(MAX_AT_ONCE // counted(256 * 1024)):
        rate.take("flood", counted(256 * 1024))
    with pytest.raises(LimitExceeded):
        rate.take("flood", counted(256 * 1024))
    rate.take("quiet", MAX_AT_ONCE)
    now = 2.0
    rate.take("flood", 20)


def test_no_request_is_larger_than_what_a_team_may_ever_send() -> None:
    rate = FeedbackRate(1, lambda: 0.0)
    rate.take("team", counted(MAX_AT_ONCE * COUNTED_BYTES * 2))
    with pytest.raises(LimitExceeded):
        rate.take("team", 1)


def test_small_feedback_counts_once() -> None:
    assert [counted(size) for size in (0, 1, COUNTED_BYTES, COUNTED_BYTES + 1)] == [1, 1, 1, 2]
