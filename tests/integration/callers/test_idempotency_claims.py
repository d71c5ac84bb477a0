"""Claims of idempotency keys among workers, with a real Valkey, Postgres and writer: every transition, race and kill point."""

import asyncio
import contextlib
import random
import secrets
import shutil
import tempfile
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
import redis.asyncio
from sqlalchemy.ext.asyncio import AsyncEngine

from app.domain.callers import Caller, ContentPolicy
from app.domain.exchange import Outcome
from app.domain.uuid7 import mint
from app.gateway.idempotency.claim import Claim
from app.gateway.idempotency.idempotency import Idempotency
from app.recording.spool.spool import Spool
from app.settings import Settings
from app.store.postgres.database import create_database_engine
from app.store.redis.idempotent_responses import StoredResponse
from app.supervisor.machine.home import erase_home
from app.supervisor.valkey import Valkey
from providers.canonical.errors import Conflict, IdempotencyKeyReused, InvalidRequest, NarthexError, Unavailable, Unsupported
from tests.support.processes.fast_folder import fast_folder
from tests.support.processes.postgres import Postgres
from tests.support.processes.wait_until import wait_until
from tests.support.processes.writer_process import drain, fetch, running_writer
from tests.support.spooled_exchanges import KEY, TEAM, make_exchange

LEASE_S = 1.0  # long enough to be renewed in time on a busy machine
DEAD_LEASE_S = 0.1  # of workers that renew nothing: the shortest there is, so that it expires soon
# The limit of a wait that should be short, below the total timeout, with which every wait ends.
SOON_S = 20.0
TOTAL_TIMEOUT_S = 60.0
ADA = Caller(KEY, TEAM, "blue", "full")
RESPONSE_BODY = b'{"answer": "Hello."}'


@contextlib.contextmanager
def running_valkey() -> Generator[Valkey]:
    home = Path(tempfile.mkdtemp(prefix="narthex-test-", dir=fast_folder()))
    home.chmod(0o711)
    server = Valkey(home)
    try:
        server.start()
        yield server
    finally:
        server.stop()
        erase_home(home)
        shutil.rmtree(home, ignore_errors=True)


@pytest.fixture(scope="module")
def valkey() -> Generator[Valkey]:
    with running_valkey() as server:
        yield server


@dataclass
class Worker:
    """The idempotency of one gateway process. One that is not started renews nothing, as if it were killed or suspended."""

    settings: Settings
    idempotency: Idempotency
    spool: Spool
    started_ids: list[str] = field(default_factory=list[str])

    async def begin(
        self,
        key: bytes,
        body: bytes = b"{}",
        *,
        caller: Caller = ADA,
        route: str = "chat",
        refuse: bool = False,
        headers: Mapping[bytes, bytes] = MappingProxyType({}),
    ):
        headers = {**headers, b"x-narthex-idempotency": b"refuse"} if refuse else headers
        return await self.idempotency.begin(key, headers, caller, route, body, mint())

    async def run(
        self, claim: Claim, body: bytes = RESPONSE_BODY, outcome: Outcome = "answered", content: ContentPolicy = "full"
    ) -> StoredResponse:
        """Runs the request up to its record; claim.complete() is to follow."""
        self.started_ids.append(claim.inference_id)
        spool_record = claim.capture(self.spool.open(claim.inference_id, content))
        for start in range(0, len(body), 1000):
            spool_record.append_response(body[start : start + 1000])
        await claim.confirm()
        made = make_exchange(id=claim.inference_id, outcome=outcome, streamed=True, content=content, dropped=("user",))
        spool_record.close(made)
        return StoredResponse(made.id, made.episode_id, True, body, made.served_provider, made.served_model, ("user",))

    async def request(self, key: bytes, *, takes_s: float = 0.0, outcome: Outcome = "answered", **more: Any) -> StoredResponse | None:
        """The response that the caller gets; None: the request failed."""
        claim_or_response = await self.begin(key, **more)
        if isinstance(claim_or_response, StoredResponse):
            return claim_or_response
        await asyncio.sleep(takes_s)
        answer = await self.run(claim_or_response, outcome=outcome)
        await claim_or_response.complete()
        return answer if outcome == "answered" else None


StartWorker = Callable[..., Awaitable[Worker]]


@pytest.fixture(scope="module")
async def database(postgres: Postgres) -> str:
    await postgres.execute("CREATE DATABASE claims TEMPLATE migrated")
    return postgres.database_url("claims")


@pytest.fixture
async def start_worker(valkey: Valkey, database: str, tmp_path: Path) -> AsyncGenerator[StartWorker]:
    """Workers of one machine."""
    await flush_valkey(valkey)
    async with contextlib.AsyncExitStack() as stack:
        base = Settings(
            home=tmp_path,
            database_url=database,
            redis_url=valkey.url,
            writer_batch_ms=10,
            spool_reserve_bytes=0,
            idempotency_lease_s=LEASE_S,
            total_timeout_s=TOTAL_TIMEOUT_S,
        )

        async def start_worker(started: bool = True, **changes: Any) -> Worker:
            defaults = {} if started else {"idempotency_lease_s": DEAD_LEASE_S}
            settings = replace(base, **{**defaults, **changes})
            database_engine: AsyncEngine = create_database_engine(settings.database_url, pool_size=2)
            stack.push_async_callback(database_engine.dispose)
            idempotency = Idempotency(settings, database_engine)
            stack.push_async_callback(idempotency.stop)
            if started:
                idempotency.start()
            spool = Spool(settings.home / "spool", settings)
            stack.callback(spool.close)
            return Worker(settings, idempotency, spool)

        yield start_worker


async def flush_valkey(valkey: Valkey) -> None:
    async with redis.asyncio.from_url(valkey.url) as client:  # pyright: ignore[reportUnknownMemberType]
        await client.flushall()  # pyright: ignore[reportUnknownMemberType]


def new_key() -> bytes:
    return secrets.token_hex(8).encode()


def code_and_inference_id(caught: pytest.ExceptionInfo[NarthexError]) -> tuple[str | None, Any]:
    return caught.value.code, (caught.value.details or {}).get("inference_id")


async def test_retry_on_any_worker_replays_the_stored_response(start_worker: StartWorker):
    one, two = await start_worker(), await start_worker()
    answer = await one.request(b"k")
    assert await two.request(b"k") == answer == await one.request(b"k")
    assert len(one.started_ids) == 1 and not two.started_ids


async def test_large_response_is_replayed_byte_for_byte(start_worker: StartWorker):
    worker = await start_worker()
    body = random.Random(1).randbytes(1_500_000)
    claim = await worker.begin(b"k")
    assert isinstance(claim, Claim)
    answer = await worker.run(claim, body)
    await claim.complete()
    assert await worker.request(b"k") == answer and answer.body == body


async def test_another_body_under_the_same_key_is_refused(start_worker: StartWorker):
    worker = await start_worker()
    answer = await worker.request(b"k", body=b'{"model": "a"}')
    assert answer is not None
    with pytest.raises(IdempotencyKeyReused) as caught:
        await worker.begin(b"k", b'{"model": "b"}')
    assert code_and_inference_id(caught) == ("idempotency_key_reused", answer.inference_id)
    assert await worker.request(b"k", body=b'{"model": "a"}') == answer


@pytest.mark.parametrize("header", [b"x-narthex-drop", b"x-narthex-tags", b"x-narthex-episode-id"])
async def test_gateway_headers_are_part_of_the_request_fingerprint(start_worker: StartWorker, header: bytes):
    worker = await start_worker()
    answer = await worker.request(b"k", headers={header: b"one"})
    assert await worker.request(b"k", headers={header: b"one", b"user-agent": b"another"}, refuse=True) == answer
    for other in ({}, {header: b"two"}):
        with pytest.raises(IdempotencyKeyReused, match="other x-narthex headers"):
            await worker.begin(b"k", headers=other)


async def test_idempotency_key_is_scoped_to_caller_and_route(start_worker: StartWorker):
    worker = await start_worker()
    await worker.request(b"k")
    await worker.request(b"k", caller=Caller("another key", TEAM, "blue", "full"))
    await worker.request(b"k", route="embeddings")
    assert len(worker.started_ids) == 3


async def test_one_of_many_concurrent_requests_runs_and_the_others_get_its_response(start_worker: StartWorker):
    workers = [await start_worker(), await start_worker()]
    answers = await asyncio.gather(*(workers[number % 2].request(b"k", takes_s=2.5 * LEASE_S) for number in range(12)))
    assert sum(len(worker.started_ids) for worker in workers) == 1, "also where the answer takes longer than a lease"
    assert len({answer.inference_id for answer in answers if answer}) == 1 and None not in answers


async def test_a_thousand_waiting_requests_all_get_the_response(start_worker: StartWorker):
    worker = await start_worker()
    claim = await worker.begin(b"k")
    assert isinstance(claim, Claim)
    waiting = [asyncio.create_task(worker.begin(b"k")) for _ in range(1000)]
    await asyncio.sleep(0.1)
    with pytest.raises(IdempotencyKeyReused):
        await asyncio.wait_for(worker.begin(b"k", b"another body"), SOON_S)  # it waits for none of them
    answer = await worker.run(claim)
    await claim.complete()
    assert all([await each == answer for each in waiting])


async def test_refuse_mode_names_the_inference_in_flight(start_worker: StartWorker):
    one, two = await start_worker(), await start_worker()
    claim = await one.begin(b"k")
    assert isinstance(claim, Claim)
    with pytest.raises(Conflict) as caught:
        await asyncio.wait_for(two.begin(b"k", refuse=True), SOON_S)
    assert code_and_inference_id(caught) == ("idempotency_in_flight", claim.inference_id)
    await one.run(claim)
    await claim.complete()
    assert isinstance(await two.begin(b"k", refuse=True), StoredResponse)


@pytest.mark.parametrize("outcome", ["failed", "disconnected", "aborted"])
async def test_one_waiting_request_runs_if_the_first_fails(start_worker: StartWorker, outcome: Outcome):
    one, two = await start_worker(), await start_worker()
    claim = await one.begin(b"k")
    assert isinstance(claim, Claim)
    waiting = [asyncio.create_task(two.request(b"k", takes_s=0.2)) for _ in range(4)]
    await asyncio.sleep(0.1)
    await one.run(claim, outcome=outcome)
    await claim.complete()
    answers = await asyncio.wait_for(asyncio.gather(*waiting), SOON_S)
    assert len(two.started_ids) == 1 and {answer.inference_id for answer in answers if answer} == set(two.started_ids)


async def test_request_ended_before_recording_releases_its_key(start_worker: StartWorker):
    worker = await start_worker()
    claim = await worker.begin(b"k")
    assert isinstance(claim, Claim)
    await claim.complete()
    assert isinstance(await worker.begin(b"k", refuse=True), Claim)


async def test_response_too_large_to_store_is_a_conflict_naming_its_inference(start_worker: StartWorker):
    worker = await start_worker(idempotency_max_bytes=5000)
    claim = await worker.begin(b"k")
    assert isinstance(claim, Claim)
    await worker.run(claim, b"x" * 5001)
    await claim.complete()
    with pytest.raises(Conflict) as caught:
        await worker.begin(b"k")
    assert code_and_inference_id(caught) == ("idempotency_response_not_stored", claim.inference_id)
    other = await worker.begin(b"fits")
    assert isinstance(other, Claim)
    await worker.run(other, b"x" * 5000)
    await other.complete()
    assert isinstance(await worker.begin(b"fits"), StoredResponse)


async def test_idempotency_key_expires_after_its_retention(start_worker: StartWorker):
    worker = await start_worker(idempotency_keep_s=0.3)
    await worker.request(b"k")
    await asyncio.sleep(0.35)
    await worker.request(b"k")
    assert len(worker.started_ids) == 2


async def test_redis_keys_share_one_prefix_and_expire(start_worker: StartWorker, valkey: Valkey):
    worker = await start_worker()
    async with running_writer(worker.settings), redis.asyncio.from_url(valkey.url) as client:  # pyright: ignore[reportUnknownMemberType]
        await worker.request(b"k")
        await worker.begin(b"running")
        await wait_until(lambda: _written_mark_exists(client))
        keys = await client.keys("*")  # pyright: ignore[reportUnknownMemberType]
        assert len(keys) == 3 and all(key[:5] == b"nx:i:" for key in keys)
        assert all([0 < await client.pttl(key) <= 86_400_000 for key in keys])


async def test_cancelled_wait_leaves_nothing_behind(start_worker: StartWorker):
    one, two = await start_worker(), await start_worker()
    claim = await one.begin(b"k")
    assert isinstance(claim, Claim)
    waiting = asyncio.create_task(two.begin(b"k"))
    await asyncio.sleep(0.1)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await claim.complete()
    assert isinstance(await one.begin(b"k", refuse=True), Claim)


async def test_cancelled_claim_does_not_hold_the_key(start_worker: StartWorker):
    worker = await start_worker()
    for steps in range(12):
        key = new_key()
        claiming = asyncio.create_task(worker.begin(key))
        for _ in range(steps):
            await asyncio.sleep(0)
        if claiming.cancel():
            with contextlib.suppress(asyncio.CancelledError):
                await claiming
            claim = await asyncio.wait_for(worker.begin(key), SOON_S)
            assert isinstance(claim, Claim)


async def test_response_is_stored_although_its_caller_disconnects_meanwhile(start_worker: StartWorker):
    worker = await start_worker()
    claim = await worker.begin(b"k")
    assert isinstance(claim, Claim)
    answer = await worker.run(claim, random.Random(2).randbytes(500_000))
    completing = asyncio.create_task(claim.complete())
    await asyncio.sleep(0)
    completing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await completing
    await claim.complete()
    assert await worker.request(b"k") == answer


async def test_draining_gateway_refuses_waiting_requests(start_worker: StartWorker):
    worker = await start_worker()
    await worker.begin(b"k")
    waiting = asyncio.create_task(worker.begin(b"k"))
    await asyncio.sleep(0.05)
    worker.idempotency.draining = True
    with pytest.raises(Unavailable):
        await asyncio.wait_for(waiting, SOON_S)


@pytest.mark.parametrize("key", [b"", b"x" * 256, b"caf\xc3\xa9", b"a\tb"])
async def test_invalid_idempotency_key_is_refused(start_worker: StartWorker, key: bytes):
    with pytest.raises(InvalidRequest):
        await (await start_worker(started=False)).begin(key)


async def test_unknown_idempotency_mode_is_refused(start_worker: StartWorker):
    with pytest.raises(InvalidRequest, match="wait or refuse, not perhaps"):
        await (await start_worker(started=False)).idempotency.begin(
            b"k", {b"x-narthex-idempotency": b"perhaps"}, ADA, "chat", b"{}", mint()
        )


@pytest.mark.parametrize(("changes", "reason"), [({"idempotency_keep_s": 0.0}, "KEEP_S is 0"), ({"redis_url": ""}, "no REDIS_URL")])
async def test_idempotency_key_is_refused_with_the_reason_when_disabled(start_worker: StartWorker, changes: dict[str, Any], reason: str):
    with pytest.raises(Unsupported, match=reason):
        await (await start_worker(**changes)).begin(b"k")


# Kill points: an owner that is not started renews nothing, and whatever it has not done when it is "killed" stays undone.


async def test_retry_runs_if_the_owner_was_killed_before_recording(start_worker: StartWorker):
    dead, alive = await start_worker(started=False), await start_worker()
    claim = await dead.begin(b"k")
    assert isinstance(claim, Claim)
    claim.capture(dead.spool.open(claim.inference_id, "full")).append_response(RESPONSE_BODY)
    async with running_writer(alive.settings):
        answers = await asyncio.gather(*(alive.request(b"k", takes_s=0.1) for _ in range(3)))
    assert len(alive.started_ids) == 1 and {answer.inference_id for answer in answers if answer} == set(alive.started_ids)
    assert await count_recorded_outcomes(dead, alive) == Counter(answered=1)


async def test_retry_gets_the_recorded_response_if_the_owner_was_killed_after_recording(start_worker: StartWorker):
    dead, alive = await start_worker(started=False), await start_worker()
    claim = await dead.begin(b"k")
    assert isinstance(claim, Claim)
    answer = await dead.run(claim, b"data: word\n\n" * 400)
    async with running_writer(alive.settings):
        retried = await alive.request(b"k")
        assert retried is not None and (retried.body, retried.inference_id, retried.streamed) == (answer.body, answer.inference_id, True)
        assert (retried.served_provider, retried.served_model, retried.dropped) == ("gpu", "Qwen/Qwen3-4B", ("user",))
        assert await alive.request(b"k") == retried, "from Redis now"
    assert not alive.started_ids and await count_recorded_outcomes(dead) == Counter(answered=1)


@pytest.mark.parametrize("content", ["none", "redacted"])
async def test_retry_conflicts_if_the_owner_was_killed_after_recording_without_content(start_worker: StartWorker, content: ContentPolicy):
    dead, alive = await start_worker(started=False), await start_worker()
    claim = await dead.begin(b"k")
    assert isinstance(claim, Claim)
    await dead.run(claim, content=content)
    async with running_writer(alive.settings):
        for _ in range(2):
            with pytest.raises(Conflict) as caught:
                await alive.request(b"k")
            assert code_and_inference_id(caught) == ("idempotency_response_not_stored", claim.inference_id)
    assert not alive.started_ids


async def test_retry_runs_if_the_owner_was_killed_while_releasing(start_worker: StartWorker):
    dead, alive = await start_worker(started=False), await start_worker()
    claim = await dead.begin(b"k")
    assert isinstance(claim, Claim)
    await dead.run(claim, outcome="disconnected")
    async with running_writer(alive.settings):
        assert await alive.request(b"k")
    assert await count_recorded_outcomes(dead, alive) == Counter(answered=1, disconnected=1)


async def test_recovery_continues_if_the_recovering_worker_is_killed(start_worker: StartWorker, valkey: Valkey):
    dead, second, alive = await start_worker(started=False), await start_worker(started=False), await start_worker()
    claim = await dead.begin(b"k")
    assert isinstance(claim, Claim)
    answer = await dead.run(claim)
    recovering = asyncio.create_task(second.begin(b"k"))
    await wait_until_taken_over(valkey)
    recovering.cancel()
    with pytest.raises(asyncio.CancelledError):
        await recovering
    async with running_writer(alive.settings):
        retried = await alive.request(b"k")
    assert retried is not None and retried.inference_id == answer.inference_id and not alive.started_ids


async def test_retry_is_unavailable_until_the_dead_owners_spool_is_written(start_worker: StartWorker):
    dead, alive = await start_worker(started=False), await start_worker(total_timeout_s=0.9)
    claim = await dead.begin(b"k")
    assert isinstance(claim, Claim)
    answer = await dead.run(claim)
    with pytest.raises(Unavailable) as caught:
        await alive.begin(b"k")
    assert code_and_inference_id(caught) == ("idempotency_outcome_unknown", claim.inference_id)
    await drain(alive.settings)
    retried = await alive.begin(b"k")
    assert isinstance(retried, StoredResponse) and retried.inference_id == answer.inference_id


async def test_resumed_owner_cannot_complete_a_claim_that_was_taken_over(start_worker: StartWorker):
    stopped, alive = await start_worker(started=False), await start_worker()
    claim = await stopped.begin(b"k")
    assert isinstance(claim, Claim)
    async with running_writer(alive.settings):
        answer = await alive.request(b"k")
        with pytest.raises(Conflict) as caught:
            await stopped.run(claim)
        assert code_and_inference_id(caught) == ("idempotency_taken_over", claim.inference_id)
        await claim.complete()
        assert await alive.request(b"k") == answer
    assert await count_recorded_outcomes(stopped, alive) == Counter(answered=1)


async def test_resumed_owner_completes_a_claim_nobody_took_over(start_worker: StartWorker):
    stopped, alive = await start_worker(started=False), await start_worker()
    claim = await stopped.begin(b"k")
    assert isinstance(claim, Claim)
    await asyncio.sleep(DEAD_LEASE_S * 2)
    answer = await stopped.run(claim)
    await claim.complete()
    assert await alive.request(b"k") == answer


async def test_expired_lease_is_not_taken_over_at_first_sight(start_worker: StartWorker):
    # A retry waits for three tenths of its own lease before it takes over: long enough for a second request within it.
    stopped, alive = await start_worker(started=False), await start_worker(idempotency_lease_s=100.0)
    claim = await stopped.begin(b"k")
    assert isinstance(claim, Claim)
    await asyncio.sleep(DEAD_LEASE_S * 2)
    for _ in range(2):  # neither the first request that sees the lease expired nor one just after it takes the claim
        with pytest.raises(Conflict):
            await alive.begin(b"k", refuse=True)
    answer = await stopped.run(claim)
    await claim.complete()
    assert await alive.request(b"k") == answer


async def test_without_redis_new_claims_are_refused_and_running_ones_complete(start_worker: StartWorker):
    with running_valkey() as own:
        worker = await start_worker(redis_url=own.url)
        stored = await worker.request(b"before")
        claim = await worker.begin(b"k")
        assert isinstance(claim, Claim)
        own.stop()
        with pytest.raises(Unavailable):
            await worker.begin(b"other")
        await asyncio.sleep(LEASE_S)  # from here on confirm() checks in Redis that the claim is still its own
        answer = await worker.run(claim)
        await claim.complete()
        own.start()
        assert await worker.request(b"before") == stored
        async with running_writer(worker.settings):
            retried = await worker.request(b"k")
        assert retried is not None and retried.inference_id == answer.inference_id and len(worker.started_ids) == 2


async def test_recorded_response_is_replayed_even_if_redis_cannot_store_it(start_worker: StartWorker):
    with running_valkey() as own:
        dead, alive = await start_worker(started=False, redis_url=own.url), await start_worker(redis_url=own.url)
        claim = await dead.begin(b"k")
        assert isinstance(claim, Claim)
        answer = await dead.run(claim)
        recovering = asyncio.create_task(alive.begin(b"k"))
        await wait_until_taken_over(own)
        own.stop()
        async with running_writer(alive.settings):
            retried = await recovering
    assert isinstance(retried, StoredResponse) and retried.inference_id == answer.inference_id


async def test_running_claim_survives_a_redis_flush(start_worker: StartWorker, valkey: Valkey):
    one, two = await start_worker(), await start_worker()
    claim = await one.begin(b"k")
    assert isinstance(claim, Claim)
    await flush_valkey(valkey)
    await asyncio.sleep(LEASE_S)
    with pytest.raises(Conflict):
        await two.begin(b"k", refuse=True)
    answer = await one.run(claim)
    await claim.complete()
    assert await two.request(b"k") == answer


async def count_recorded_outcomes(*workers: Worker) -> Counter[str]:
    """Returns how many records of each outcome there are for what these workers ran."""
    settings = workers[0].settings
    await drain(settings)
    ran = [id for worker in workers for id in worker.started_ids]
    return Counter(row["outcome"] for row in await fetch(settings.database_url, "SELECT outcome FROM inferences WHERE id = any($1)", ran))


async def wait_until_taken_over(valkey: Valkey) -> None:
    """Waits until a retry has taken over the only claim."""
    client: Any = redis.asyncio.from_url(valkey.url)  # pyright: ignore[reportUnknownMemberType]

    async def is_taken_over() -> bool:
        return any([await client.hexists(key, "taken") for key in await client.keys("nx:i:*") if not key.startswith(b"nx:i:spool:")])

    async with client:
        await wait_until(is_taken_over)


async def _written_mark_exists(client: Any) -> bool:
    return bool(await client.keys("nx:i:spool:*"))
