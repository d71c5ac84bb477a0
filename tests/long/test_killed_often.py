"""Promise 2 under sixty kills: twenty each of gateway workers, the writer and Postgres."""

from tests.stories.killing import what_was_answered_is_recorded_exactly_once


async def test_what_was_answered_is_recorded_exactly_once_whatever_is_killed_however_often():
    await what_was_answered_is_recorded_exactly_once(kills_each=20)
