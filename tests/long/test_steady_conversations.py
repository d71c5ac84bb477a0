"""A hundred conversations of twenty turns keep their arms while weights change every second and workers are killed over and over."""

from tests.support.simulated.steady_conversations import assert_conversations_keep_their_arms


async def test_hundred_conversations_keep_their_arms_while_weights_change_every_second_and_workers_are_killed() -> None:
    await assert_conversations_keep_their_arms(conversations=100, turns=20, kills=10, weights_every_s=1)
