"""An answer whose last byte a client received is in Postgres exactly once, whichever process is killed meanwhile.

tests/long does the same with many more kills.
"""

from tests.support.processes.kill_under_load import assert_answers_are_recorded_exactly_once


async def test_answered_requests_are_recorded_exactly_once_whatever_is_killed():
    await assert_answers_are_recorded_exactly_once(kills_each=4)
