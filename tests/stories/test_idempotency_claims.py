"""Claims of Idempotency-Keys among workers, with a real Valkey, Postgres and writer: every transition, every race, every kill point."""

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

from app.domain import Caller, ContentPolicy, Outcome
from app.gateway.idempotency.claims import Claim
from app.gateway.idempotency.idempotency import Idempotency
from app.recording.spool import Spool
from app.settings import Settings
from app.store.database import create_database_engine
from app.store.idempotent_responses import StoredResponse
from app.supervisor.paths import erase_home
from app.supervisor.valkey import Valkey
from app.uuid7 import mint
from providers.canonical.errors import Conflict, IdempotencyKeyReused, InvalidRequest, NarthexError, Unavailable, Unsupported
from tests.recorded import KEY, TEAM, exchange
from tests.stories.postgres import Postgres, fast_folder, postgres
from tests.stories.writing import drain, fetch, until, writing

__all__ = ["postgres"]

LEASE_S = 0.3
DEAD_LEASE_S = 0.1  # of who renews nothing: the shortest there is, for the dead to be missed soon
ADA = Caller(KEY, TEAM, "blue", "full")
SAID = b'{"answer": "Hello."}'


@contextlib.contextmanager
def serving() -> Generator[Valkey]:
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
    with serving() as server:
        yield server


@dataclass
class Worker:
    """One gateway process, as far as keys go. One that was not started renews nothing, as if it were dead or stopped."""

    settings: Settings
    idempotency: Idempotency
    spool: Spool
    ran: list[str] = field(default_factory=list[str])

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

    async def run(self, claim: Claim, said: bytes = SAID, ends: Outcome = "answered", content: ContentPolicy = "full") -> StoredResponse:
        """Up to the record; then settle() is due."""
        self.ran.append(claim.inference_id)
        entry = claim.capture(self.spool.open(claim.inference_id, content))
        for start in range(0, len(said), 1000):
            entry.append_response(said[start : start + 1000])
        await claim.confirm()
        made = exchange(id=claim.inference_id, outcome=ends, streamed=True, content=content, dropped=("user",))
        entry.close(made)
        return StoredResponse(made.id, made.episode_id, True, said, made.served_provider, made.served_model, ("user",))

    async def ask(self, key: bytes, *, takes_s: float = 0.0, ends: Outcome = "answered", **more: Any) -> StoredResponse | None:
        """What a caller is told, in full; None: it failed."""
        begun = await self.begin(key, **more)
        if isinstance(begun, StoredResponse):
            return begun
        await asyncio.sleep(takes_s)
        answer = await self.run(begun, ends=ends)
        await begun.complete()
        return answer if ends == "answered" else None


Hire = Callable[..., Awaitable[Worker]]


@pytest.fixture(scope="module")
async def database(postgres: Postgres) -> str:
    await postgres.execute("CREATE DATABASE claims TEMPLATE migrated")
    return postgres.database_url("claims")


@pytest.fixture
async def hire(valkey: Valkey, database: str, tmp_path: Path) -> AsyncGenerator[Hire]:
    """Workers of one machine, unless another home is given."""
    await forget(valkey)
    async with contextlib.AsyncExitStack() as stack:
        base = Settings(
            home=tmp_path,
            database_url=database,
            redis_url=valkey.url,
            writer_batch_ms=10,
            spool_reserve_bytes=0,
            idempotency_lease_s=LEASE_S,
            total_timeout_s=8,
        )

        async def hire(started: bool = True, **changes: Any) -> Worker:
            settings = replace(base, **{} if started else {"idempotency_lease_s": DEAD_LEASE_S}, **changes)
            asking: AsyncEngine = create_database_engine(settings.database_url, pool_size=2)
            stack.push_async_callback(asking.dispose)
            idempotency = Idempotency(settings, asking)
            stack.push_async_callback(idempotency.stop)
            if started:
                idempotency.start()
            spool = Spool(settings.home / "spool", settings)
            stack.callback(spool.close)
            return Worker(settings, idempotency, spool)

        yield hire


async def forget(valkey: Valkey) -> None:
    async with redis.asyncio.from_url(valkey.url) as client:  # pyright: ignore[reportUnknownMemberType]
        await client.flushall()  # pyright: ignore[reportUnknownMemberType]


def fresh() -> bytes:
    return secrets.token_hex(8).encode()


def told(caught: pytest.ExceptionInfo[NarthexError]) -> tuple[str | None, Any]:
    return caught.value.code, (caught.value.details or {}).get("inference_id")


async def test_a_retry_is_told_the_same_by_any_worker_and_runs_nothing(hire: Hire):
    one, two = await hire(), await hire()
    answer = await one.ask(b"k")
    assert await two.ask(b"k") == answer == await one.ask(b"k")
    assert len(one.ran) == 1 and not two.ran


async def test_a_large_answer_comes_back_byte_for_byte(hire: Hire):
    worker = await hire()
    said = random.Random(1).randbytes(1_500_000)
    claim = await worker.begin(b"k")
    assert isinstance(claim, Claim)
    answer = await worker.run(claim, said)
    await claim.complete()
    assert await worker.ask(b"k") == answer and answer.body == said


async def test_another_body_under_the_same_key_is_refused(hire: Hire):
    worker = await hire()
    answer = await worker.ask(b"k", body=b'{"model": "a"}')
    assert answer is not None
    with pytest.raises(IdempotencyKeyReused) as caught:
        await worker.begin(b"k", b'{"model": "b"}')
    assert told(caught) == ("idempotency_key_reused", answer.inference_id)
    assert await worker.ask(b"k", body=b'{"model": "a"}') == answer


@pytest.mark.parametrize("header", [b"x-narthex-drop", b"x-narthex-tags", b"x-narthex-episode-id"])
async def test_a_header_that_the_answer_may_depend_on_is_part_of_the_request(hire: Hire, header: bytes):
    worker = await hire()
    answer = await worker.ask(b"k", headers={header: b"one"})
    assert await worker.ask(b"k", headers={header: b"one", b"user-agent": b"another"}, refuse=True) == answer
    for other in ({}, {header: b"two"}):
        with pytest.raises(IdempotencyKeyReused, match="other x-narthex headers"):
            await worker.begin(b"k", headers=other)


async def test_a_key_belongs_to_one_caller_and_one_route(hire: Hire):
    worker = await hire()
    await worker.ask(b"k")
    await worker.ask(b"k", caller=Caller("another key", TEAM, "blue", "full"))
    await worker.ask(b"k", route="embeddings")
    assert len(worker.ran) == 3


async def test_of_many_at_once_one_runs_and_the_others_wait_for_its_answer(hire: Hire):
    workers = [await hire(), await hire()]
    answers = await asyncio.gather(*(workers[number % 2].ask(b"k", takes_s=2.5 * LEASE_S) for number in range(12)))
    assert sum(len(worker.ran) for worker in workers) == 1, "also where the answer takes longer than a lease"
    assert len({answer.inference_id for answer in answers if answer}) == 1 and None not in answers


async def test_a_thousand_who_wait_are_all_told(hire: Hire):
    worker = await hire()
    claim = await worker.begin(b"k")
    assert isinstance(claim, Claim)
    waiting = [asyncio.create_task(worker.begin(b"k")) for _ in range(1000)]
    await asyncio.sleep(0.1)
    with pytest.raises(IdempotencyKeyReused):
        await asyncio.wait_for(worker.begin(b"k", b"another body"), 1)  # behind nobody
    answer = await worker.run(claim)
    await claim.complete()
    assert all([await each == answer for each in waiting])


async def test_who_would_not_wait_is_told_at_once_whose_answer_is_under_way(hire: Hire):
    one, two = await hire(), await hire()
    claim = await one.begin(b"k")
    assert isinstance(claim, Claim)
    with pytest.raises(Conflict) as caught:
        await asyncio.wait_for(two.begin(b"k", refuse=True), 0.5)
    assert told(caught) == ("idempotency_in_flight", claim.inference_id)
    await one.run(claim)
    await claim.complete()
    assert isinstance(await two.begin(b"k", refuse=True), StoredResponse)


@pytest.mark.parametrize("ends", ["failed", "hung_up", "cut"])
async def test_if_the_first_one_fails_one_who_waits_runs(hire: Hire, ends: Outcome):
    one, two = await hire(), await hire()
    claim = await one.begin(b"k")
    assert isinstance(claim, Claim)
    waiting = [asyncio.create_task(two.ask(b"k", takes_s=0.2)) for _ in range(4)]
    await asyncio.sleep(0.1)
    await one.run(claim, ends=ends)
    await claim.complete()
    answers = await asyncio.wait_for(asyncio.gather(*waiting), 1.5)
    assert len(two.ran) == 1 and {answer.inference_id for answer in answers if answer} == set(two.ran)


async def test_a_request_that_is_refused_before_it_is_recorded_lets_go(hire: Hire):
    worker = await hire()
    claim = await worker.begin(b"k")
    assert isinstance(claim, Claim)
    await claim.complete()
    assert isinstance(await worker.begin(b"k", refuse=True), Claim)


async def test_an_answer_that_is_too_large_is_named_instead_of_run_again(hire: Hire):
    worker = await hire(idempotency_max_bytes=5000)
    claim = await worker.begin(b"k")
    assert isinstance(claim, Claim)
    await worker.run(claim, b"x" * 5001)
    await claim.complete()
    with pytest.raises(Conflict) as caught:
        await worker.begin(b"k")
    assert told(caught) == ("idempotency_answer_not_kept", claim.inference_id)
    other = await worker.begin(b"fits")
    assert isinstance(other, Claim)
    await worker.run(other, b"x" * 5000)
    await other.complete()
    assert isinstance(await worker.begin(b"fits"), StoredResponse)


async def test_a_key_is_forgotten_when_its_time_is_over(hire: Hire):
    worker = await hire(idempotency_keep_s=0.3)
    await worker.ask(b"k")
    await asyncio.sleep(0.35)
    await worker.ask(b"k")
    assert len(worker.ran) == 2


async def test_all_that_is_kept_lies_under_one_prefix_and_ends_by_itself(hire: Hire, valkey: Valkey):
    worker = await hire()
    async with writing(worker.settings), redis.asyncio.from_url(valkey.url) as client:  # pyright: ignore[reportUnknownMemberType]
        await worker.ask(b"k")
        await worker.begin(b"running")
        await until(lambda: _told_written(client))
        keys = await client.keys("*")  # pyright: ignore[reportUnknownMemberType]
        assert len(keys) == 3 and all(key[:5] == b"nx:i:" for key in keys)
        assert all([0 < await client.pttl(key) <= 86_400_000 for key in keys])


async def test_who_leaves_while_waiting_leaves_nothing_behind(hire: Hire):
    one, two = await hire(), await hire()
    claim = await one.begin(b"k")
    assert isinstance(claim, Claim)
    waiting = asyncio.create_task(two.begin(b"k"))
    await asyncio.sleep(0.1)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await claim.complete()
    assert isinstance(await one.begin(b"k", refuse=True), Claim)


async def test_who_leaves_while_claiming_does_not_keep_the_key(hire: Hire):
    worker = await hire()
    for steps in range(12):
        key = fresh()
        claiming = asyncio.create_task(worker.begin(key))
        for _ in range(steps):
            await asyncio.sleep(0)
        if claiming.cancel():
            with contextlib.suppress(asyncio.CancelledError):
                await claiming
            begun = await asyncio.wait_for(worker.begin(key), 4)
            assert isinstance(begun, Claim)


async def test_an_answer_is_stored_also_if_its_caller_leaves_just_then(hire: Hire):
    worker = await hire()
    claim = await worker.begin(b"k")
    assert isinstance(claim, Claim)
    answer = await worker.run(claim, random.Random(2).randbytes(500_000))
    ending = asyncio.create_task(claim.complete())
    await asyncio.sleep(0)
    ending.cancel()
    with pytest.raises(asyncio.CancelledError):
        await ending
    await claim.complete()
    assert await worker.ask(b"k") == answer


async def test_a_gateway_that_is_shut_down_sends_away_who_waits(hire: Hire):
    worker = await hire()
    await worker.begin(b"k")
    waiting = asyncio.create_task(worker.begin(b"k"))
    await asyncio.sleep(0.05)
    worker.idempotency.draining = True
    with pytest.raises(Unavailable):
        await asyncio.wait_for(waiting, 1)


@pytest.mark.parametrize("key", [b"", b"x" * 256, b"caf\xc3\xa9", b"a\tb"])
async def test_a_key_that_is_none_is_refused(hire: Hire, key: bytes):
    with pytest.raises(InvalidRequest):
        await (await hire(started=False)).begin(key)


async def test_an_unknown_behaviour_is_refused(hire: Hire):
    with pytest.raises(InvalidRequest, match="wait or refuse, not perhaps"):
        await (await hire(started=False)).idempotency.begin(b"k", {b"x-narthex-idempotency": b"perhaps"}, ADA, "chat", b"{}", mint())


@pytest.mark.parametrize(("changes", "why"), [({"idempotency_keep_s": 0.0}, "KEEP_S is 0"), ({"redis_url": ""}, "no REDIS_URL")])
async def test_switched_off_the_header_is_refused_and_says_so(hire: Hire, changes: dict[str, Any], why: str):
    with pytest.raises(Unsupported, match=why):
        await (await hire(**changes)).begin(b"k")


# Kill points: an owner that is not started renews nothing, and what it does not do after its "death" is left undone.


async def test_killed_before_the_record_the_retry_runs(hire: Hire):
    dead, alive = await hire(started=False), await hire()
    claim = await dead.begin(b"k")
    assert isinstance(claim, Claim)
    claim.capture(dead.spool.open(claim.inference_id, "full")).append_response(SAID)
    async with writing(alive.settings):
        answers = await asyncio.gather(*(alive.ask(b"k", takes_s=0.1) for _ in range(3)))
    assert len(alive.ran) == 1 and {answer.inference_id for answer in answers if answer} == set(alive.ran)
    assert await recorded_as(dead, alive) == Counter(answered=1)


async def test_killed_after_the_record_the_answer_is_told_from_it(hire: Hire):
    dead, alive = await hire(started=False), await hire()
    claim = await dead.begin(b"k")
    assert isinstance(claim, Claim)
    answer = await dead.run(claim, b"data: word\n\n" * 400)
    async with writing(alive.settings):
        retried = await alive.ask(b"k")
        assert retried is not None and (retried.body, retried.inference_id, retried.streamed) == (answer.body, answer.inference_id, True)
        assert (retried.served_provider, retried.served_model, retried.dropped) == ("gpu", "Qwen/Qwen3-4B", ("user",))
        assert await alive.ask(b"k") == retried, "from Redis by now"
    assert not alive.ran and await recorded_as(dead) == Counter(answered=1)


@pytest.mark.parametrize("content", ["none", "redacted"])
async def test_killed_after_a_record_without_content_the_retry_is_told_the_inference(hire: Hire, content: ContentPolicy):
    dead, alive = await hire(started=False), await hire()
    claim = await dead.begin(b"k")
    assert isinstance(claim, Claim)
    await dead.run(claim, content=content)
    async with writing(alive.settings):
        for _ in range(2):
            with pytest.raises(Conflict) as caught:
                await alive.ask(b"k")
            assert told(caught) == ("idempotency_answer_not_kept", claim.inference_id)
    assert not alive.ran


async def test_killed_while_it_let_go_the_retry_runs(hire: Hire):
    dead, alive = await hire(started=False), await hire()
    claim = await dead.begin(b"k")
    assert isinstance(claim, Claim)
    await dead.run(claim, ends="hung_up")
    async with writing(alive.settings):
        assert await alive.ask(b"k")
    assert await recorded_as(dead, alive) == Counter(answered=1, hung_up=1)


async def test_killed_while_finding_out_the_next_one_finds_out(hire: Hire):
    dead, second, alive = await hire(started=False), await hire(started=False, total_timeout_s=3), await hire()
    claim = await dead.begin(b"k")
    assert isinstance(claim, Claim)
    answer = await dead.run(claim)
    finding = asyncio.create_task(second.begin(b"k"))
    await asyncio.sleep(0.5)  # by now it has taken the claim
    finding.cancel()
    with pytest.raises(asyncio.CancelledError):
        await finding
    async with writing(alive.settings):
        retried = await alive.ask(b"k")
    assert retried is not None and retried.inference_id == answer.inference_id and not alive.ran


async def test_until_the_spool_is_written_nobody_says_that_nothing_was_recorded(hire: Hire):
    dead, alive = await hire(started=False), await hire(total_timeout_s=0.9)
    claim = await dead.begin(b"k")
    assert isinstance(claim, Claim)
    answer = await dead.run(claim)
    with pytest.raises(Unavailable) as caught:
        await alive.begin(b"k")
    assert told(caught) == ("idempotency_not_known_yet", claim.inference_id)
    await drain(alive.settings)
    retried = await alive.begin(b"k")
    assert isinstance(retried, StoredResponse) and retried.inference_id == answer.inference_id


async def test_an_owner_that_was_only_stopped_may_not_count_its_answer_any_more(hire: Hire):
    stopped, alive = await hire(started=False), await hire()
    claim = await stopped.begin(b"k")
    assert isinstance(claim, Claim)
    async with writing(alive.settings):
        answer = await alive.ask(b"k")
        with pytest.raises(Conflict) as caught:
            await stopped.run(claim)
        assert told(caught) == ("idempotency_taken_over", claim.inference_id)
        await claim.complete()
        assert await alive.ask(b"k") == answer
    assert await recorded_as(stopped, alive) == Counter(answered=1)


async def test_an_owner_that_was_stopped_and_not_missed_goes_on(hire: Hire):
    stopped, alive = await hire(started=False), await hire()
    claim = await stopped.begin(b"k")
    assert isinstance(claim, Claim)
    await asyncio.sleep(LEASE_S * 1.5)
    answer = await stopped.run(claim)
    await claim.complete()
    assert await alive.ask(b"k") == answer


async def test_an_owner_is_given_time_to_say_that_it_lives(hire: Hire):
    stopped, alive = await hire(started=False), await hire()
    claim = await stopped.begin(b"k")
    assert isinstance(claim, Claim)
    await asyncio.sleep(LEASE_S * 2)
    for _ in range(2):  # the first to see that the lease is over does not take the claim, nor does one who comes just after
        with pytest.raises(Conflict):
            await alive.begin(b"k", refuse=True)
    answer = await stopped.run(claim)
    await claim.complete()
    assert await alive.ask(b"k") == answer


async def test_redis_away_nothing_is_begun_and_what_was_begun_is_answered(hire: Hire):
    with serving() as own:
        worker = await hire(redis_url=own.url)
        stored = await worker.ask(b"before")
        claim = await worker.begin(b"k")
        assert isinstance(claim, Claim)
        own.stop()
        with pytest.raises(Unavailable):
            await worker.begin(b"other")
        await asyncio.sleep(LEASE_S)  # until confirm() would ask
        answer = await worker.run(claim)
        await claim.complete()
        own.start()
        assert await worker.ask(b"before") == stored
        async with writing(worker.settings):
            retried = await worker.ask(b"k")
        assert retried is not None and retried.inference_id == answer.inference_id and len(worker.ran) == 2


async def test_an_answer_that_is_found_in_the_records_is_told_also_if_redis_cannot_take_it(hire: Hire):
    with serving() as own:
        dead, alive = await hire(started=False, redis_url=own.url), await hire(redis_url=own.url)
        claim = await dead.begin(b"k")
        assert isinstance(claim, Claim)
        answer = await dead.run(claim)
        finding = asyncio.create_task(alive.begin(b"k"))
        await asyncio.sleep(0.5)  # by now it has taken the claim
        own.stop()
        async with writing(alive.settings):
            retried = await finding
    assert isinstance(retried, StoredResponse) and retried.inference_id == answer.inference_id


async def test_a_claim_outlives_a_loss_of_what_redis_knew(hire: Hire, valkey: Valkey):
    one, two = await hire(), await hire()
    claim = await one.begin(b"k")
    assert isinstance(claim, Claim)
    await forget(valkey)
    await asyncio.sleep(LEASE_S)
    with pytest.raises(Conflict):
        await two.begin(b"k", refuse=True)
    answer = await one.run(claim)
    await claim.complete()
    assert await two.ask(b"k") == answer


async def recorded_as(*workers: Worker) -> Counter[str]:
    """How many records there are of each outcome, of what these workers ran."""
    settings = workers[0].settings
    await drain(settings)
    ran = [id for worker in workers for id in worker.ran]
    return Counter(row["outcome"] for row in await fetch(settings.database_url, "SELECT outcome FROM inferences WHERE id = any($1)", ran))


async def _told_written(client: Any) -> bool:
    return bool(await client.keys("nx:i:spool:*"))
