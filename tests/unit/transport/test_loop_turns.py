"""Turns of the event loop: a few pieces at each, in the order in which they came."""

import asyncio
import time
from collections import Counter

from providers.transport.loop_turns import LoopTurns


async def test_pieces_are_done_a_few_at_each_turn_in_order():
    turns, turn = LoopTurns(), 0
    done: list[tuple[int, int]] = []
    for number in range(10):
        turns.append(lambda number=number: done.append((number, turn)))
    assert not done
    while len(done) < 10:
        await asyncio.sleep(0)
        turn += 1
    assert [number for number, _ in done] == list(range(10))
    in_turn = Counter(at for _, at in done)
    assert max(in_turn.values()) <= 4 and len(in_turn) >= 3


async def test_slow_pieces_have_a_turn_each():
    turns, turn = LoopTurns(), 0
    done_at: list[int] = []

    def do_slowly() -> None:
        time.sleep(0.003)
        done_at.append(turn)

    for _ in range(3):
        turns.append(do_slowly)
    while len(done_at) < 3:
        await asyncio.sleep(0)
        turn += 1
    assert len(set(done_at)) == 3


async def test_waiting_ends_at_a_later_turn_and_may_be_cancelled():
    turns = LoopTurns()
    first, cancelled, last = (asyncio.create_task(turns.wait()) for _ in range(3))
    await asyncio.sleep(0)
    assert not first.done()
    cancelled.cancel()
    await asyncio.gather(first, last)
    assert cancelled.cancelled()


async def test_piece_that_is_followed_by_another_waits_again():
    """Whoever has many pieces does not keep others from theirs."""
    turns = LoopTurns()
    order: list[str] = []

    async def do_pieces(name: str, count: int) -> None:
        for _ in range(count):
            await turns.wait()
            order.append(name)

    many = asyncio.create_task(do_pieces("many", 20))
    await turns.wait()
    await do_pieces("one", 1)
    assert order.count("many") <= 3
    await many
