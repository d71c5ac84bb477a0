"""Inferences and feedback are recorded exactly once under eighty kills: twenty each of workers, writer, Postgres, its connections."""

from tests.support.processes.kill_under_load import assert_answers_are_recorded_exactly_once


async def test_every_response_is_recorded_exactly_once_under_eighty_kills():
    await assert_answers_are_recorded_exactly_once(kills_each=20)
