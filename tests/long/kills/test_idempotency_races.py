"""Idempotency-Keys under callers that retry for ever and workers that fail and die: seeded, with a real Valkey, Postgres and writer."""

import asyncio
import random
from pathlib import Path

import pytest

from app.domain.exchange import Outcome
from app.gateway.idempotency.claim import Claim
from app.store.redis.idempotent_responses import StoredResponse
from providers.canonical.errors import Conflict, Unavailable
from tests.integration.callers.test_idempotency_claims import StartWorker, count_recorded_outcomes, database, new_key, start_worker, valkey
from tests.support.processes.postgres import postgres
from tests.support.processes.writer_process import running_writer

__all__ = ["database", "postgres", "start_worker", "valkey"]


async def test_each_idempotency_key_is_answered_once_despite_failing_and_dying_workers(start_worker: StartWorker):
    """Workers fail, or die before the record, after it, or while they release the claim; callers retry until they have a response."""
    workers = [await start_worker(), await start_worker()]
    doomed = await start_worker(started=False)
    rng = random.Random(20261121)
    keys = [new_key() for _ in range(40)]

    async def caller(key: bytes) -> StoredResponse:
        while True:
            worker = rng.choice([*workers, *workers, doomed])
            try:
                claim_or_response = await worker.begin(key, refuse=rng.random() < 0.3)
            except (Conflict, Unavailable):
                await asyncio.sleep(0.05)
                continue
            if isinstance(claim_or_response, StoredResponse):
                return claim_or_response
            await asyncio.sleep(rng.random() * 0.1)
            outcome: Outcome = rng.choice(("answered", "answered", "failed", "disconnected"))
            if worker is doomed and rng.random() < 0.5:
                continue
            try:
                answer = await worker.run(claim_or_response, outcome=outcome)
            except Conflict:
                continue
            if worker is doomed:
                continue
            await claim_or_response.complete()
            if outcome == "answered":
                return answer

    async with running_writer(workers[0].settings):
        answers = await asyncio.wait_for(asyncio.gather(*(caller(key) for key in keys for _ in range(4))), 600)
    of_key = [{answer.inference_id for answer in answers[start : start + 4]} for start in range(0, len(answers), 4)]
    assert all(len(ids) == 1 for ids in of_key)
    assert (await count_recorded_outcomes(*workers, doomed))["answered"] == len(keys)


async def test_claim_waits_for_the_spool_of_another_machine_to_be_written(start_worker: StartWorker, tmp_path: Path):
    other_home = tmp_path / "away"
    dead, alive = await start_worker(started=False, home=other_home), await start_worker(total_timeout_s=0.8)
    claim = await dead.begin(b"k")
    assert isinstance(claim, Claim)
    async with running_writer(alive.settings):  # a written spool of this machine says nothing about the other
        with pytest.raises(Unavailable):
            await alive.begin(b"k")
        restarted = await start_worker(home=other_home)
        async with running_writer(restarted.settings):
            await asyncio.sleep(1.1)
            assert isinstance(await alive.begin(b"k"), Claim), "nothing was recorded there"
