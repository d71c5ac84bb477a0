"""Idempotency-Keys under callers who never give up and workers that fail and die: seeded, with a real Valkey, Postgres and writer."""

import asyncio
import random
from pathlib import Path

import pytest

from app.domain import Outcome
from app.gateway.idempotency.claims import Claim
from app.store.idempotent_responses import StoredResponse
from providers.canonical.errors import Conflict, Unavailable
from tests.stories.postgres import postgres
from tests.stories.test_idempotency_claims import Hire, database, fresh, hire, recorded_as, valkey
from tests.stories.writing import writing

__all__ = ["database", "hire", "postgres", "valkey"]


async def test_whatever_happens_each_key_is_answered_once(hire: Hire):
    """Callers retry until they are answered, by workers that fail, or die before the record, after it, or while letting go."""
    workers = [await hire(), await hire()]
    doomed = await hire(started=False)
    chance = random.Random(20261121)
    keys = [fresh() for _ in range(40)]

    async def caller(key: bytes) -> StoredResponse:
        while True:
            worker = chance.choice([*workers, *workers, doomed])
            try:
                begun = await worker.begin(key, refuse=chance.random() < 0.3)
            except (Conflict, Unavailable):
                await asyncio.sleep(0.05)
                continue
            if isinstance(begun, StoredResponse):
                return begun
            await asyncio.sleep(chance.random() * 0.1)
            ends: Outcome = chance.choice(("answered", "answered", "failed", "hung_up"))
            if worker is doomed and chance.random() < 0.5:
                continue
            try:
                answer = await worker.run(begun, ends=ends)
            except Conflict:
                continue
            if worker is doomed:
                continue
            await begun.complete()
            if ends == "answered":
                return answer

    async with writing(workers[0].settings):
        answers = await asyncio.wait_for(asyncio.gather(*(caller(key) for key in keys for _ in range(4))), 120)
    of_key = [{answer.inference_id for answer in answers[start : start + 4]} for start in range(0, len(answers), 4)]
    assert all(len(ids) == 1 for ids in of_key)
    assert (await recorded_as(*workers, doomed))["answered"] == len(keys)


async def test_what_another_machine_recorded_is_waited_for(hire: Hire, tmp_path: Path):
    away = tmp_path / "away"
    dead, alive = await hire(started=False, home=away), await hire(total_timeout_s=0.8)
    claim = await dead.begin(b"k")
    assert isinstance(claim, Claim)
    async with writing(alive.settings):  # that our own spool is written says nothing of the other one
        with pytest.raises(Unavailable):
            await alive.begin(b"k")
        back = await hire(home=away)
        async with writing(back.settings):
            await asyncio.sleep(1.1)
            assert isinstance(await alive.begin(b"k"), Claim), "nothing was recorded there"
