"""Exactly-once recording under eighty kills: twenty each of gateway workers, the writer, Postgres and all connections to it."""

from tests.support.kill_under_load import assert_answers_are_recorded_exactly_once


async def test_every_response_is_recorded_exactly_once_under_eighty_kills():
    await assert_answers_are_recorded_exactly_once(kills_each=20)
