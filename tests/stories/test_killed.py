"""Promise 2: an answer whose last byte a client has is in Postgres, exactly once, whatever is killed meanwhile."""

from tests.stories.killing import what_was_answered_is_recorded_exactly_once


async def test_what_was_answered_is_recorded_exactly_once_whatever_is_killed():
    await what_was_answered_is_recorded_exactly_once(kills_each=4)
