"""Promise 2: an answer whose last byte a client has is in Postgres, exactly once, whatever is killed meanwhile."""

from tests.support.kill_under_load import assert_answers_are_recorded_exactly_once


async def test_answered_requests_are_recorded_exactly_once_whatever_is_killed():
    await assert_answers_are_recorded_exactly_once(kills_each=4)
