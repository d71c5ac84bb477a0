"""Nine conversations of two experiments keep their arms while weights change and a worker is killed; tests/long has a hundred."""

from tests.support.simulated.steady_conversations import assert_conversations_keep_their_arms


async def test_conversations_keep_their_arms_while_weights_change_and_a_worker_is_killed() -> None:
    await assert_conversations_keep_their_arms(conversations=9, turns=6, kills=1, weights_every_s=2)
