"""A history of millions of inferences, and how fast the questions of a dashboard are answered over it.

    python -m bench.history --rows 5000000 --days 30

Rows, sums and groups are made by the writer's own code, the newest --content of them with content, in an embedded PostgreSQL in a
temporary folder, or in DATABASE_URL with --keep. Days beyond the first ten are copies of these. It prints the median and the 95th
percentile of each question, with a cold cache of plans each time.
"""

import argparse
import asyncio
import datetime
import multiprocessing
import os
import random
import shutil
import tempfile
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
from sqlalchemy.ext.asyncio import AsyncEngine

from app.domain import uuid7
from app.domain.exchange import Exchange
from app.recording.rows.inference_rows import inference_row
from app.recording.rows.rollup_sums import RollupSummer
from app.recording.rows.usage_sums import sum_usage
from app.recording.writes.inference_writes import CONTENT_COLUMNS, add_usage
from app.store.formats.content_packing import pack
from app.store.postgres import partitions
from app.store.postgres.database import connect, create_database_engine
from app.store.postgres.inference_columns import INFERENCE_COLUMNS
from app.store.records.inference_filter import InferenceFilter
from app.store.records.inference_queries import list_inferences
from app.store.schema.migrate import migrate
from app.store.usage.analytics import read_analytics
from app.store.usage.analytics_query import make_query
from app.store.usage.rollups import add_rollups
from app.supervisor import postgres as embedded
from bench.copied_days import copy_day
from providers.canonical.chat import Usage

TEAMS, KEYS_OF_A_TEAM, END_USERS, TENANTS = 40, 3, 20_000, 200
MODELS = [f"model-{number}" for number in range(12)]
_VOCABULARY = (
    *("the", "parcel", "was", "late", "and", "we", "ship", "on", "fridays", "a", "blue", "jacket", "in", "contract", "error", "of"),
    *("refund", "order", "answer", "please"),
)
BATCH_ROWS = 20_000
QUESTION_ROUNDS = 15
DAY = datetime.timedelta(days=1)
DIFFERENT_DAYS = 10


def exchanges(rows: int, begin: datetime.datetime, seed: int) -> Iterator[Exchange]:
    """A day: few teams, models and users make most requests; a fortieth fails."""
    chance = random.Random(seed)
    begin_us = int(begin.timestamp() * 1_000_000)
    for at_us in sorted(begin_us + int(86_400_000_000 * chance.triangular(0, 1, 0.6)) for _ in range(rows)):
        team = min(TEAMS, int(chance.paretovariate(0.8))) - 1
        model = min(len(MODELS), int(chance.paretovariate(1.0))) - 1
        failed = chance.random() < 0.025
        streamed = chance.random() < 0.7
        duration_us = int(chance.lognormvariate(14 + model / 10, 0.8))
        yield Exchange(
            id=uuid7.mint(at_us),
            episode_id=uuid7.mint(at_us),
            route="openai_chat" if chance.random() < 0.8 else "anthropic_messages",
            model=MODELS[model],
            key_id=str(uuid.UUID(int=1000 + KEYS_OF_A_TEAM * team + chance.randrange(KEYS_OF_A_TEAM))),
            team_id=str(uuid.UUID(int=100 + team)),
            snapshot="0123456789abcdef",
            received_us=at_us,
            duration_us=duration_us,
            streamed=streamed,
            status=502 if failed else 200,
            outcome="failed" if failed else "answered",
            error="UpstreamFailed" if failed else None,
            content="none",
            first_token_us=int(duration_us * chance.random() / 3) if streamed else None,
            usage=Usage(chance.randrange(50, 8000), chance.randrange(1, 900), chance.randrange(50)),
            served_provider=("gpu", "openai", "anthropic")[model % 3],
            served_model=MODELS[model],
            cost_microusd=chance.randrange(20_000),
            charge_basis="reported",
            tags={"tenant": f"tenant-{min(TENANTS, int(chance.paretovariate(0.7)))}"} if chance.random() < 0.5 else {},
            trace_id=f"{chance.getrandbits(128):032x}" if chance.random() < 0.7 else None,
            request_id=f"req-{chance.getrandbits(64):x}" if chance.random() < 0.5 else None,
            end_user=f"user-{min(END_USERS, int(chance.paretovariate(0.5)))}" if chance.random() < 0.3 else None,
        )


async def write_days(database_url: str, days: list[tuple[int, datetime.datetime]], rows: int) -> None:
    connection = await connect(database_url)
    await connection.execute("SET synchronous_commit = off")
    summer = RollupSummer(connection)
    for seed, begin in days:
        await partitions.create_partitions(connection, {int(begin.timestamp()) // 86_400})
        batch: list[tuple[Any, ...]] = []
        for exchange in exchanges(rows, begin, seed):
            batch.append(inference_row(exchange))
            if len(batch) == BATCH_ROWS:
                await _write_batch(connection, summer, batch)
                batch = []
        await _write_batch(connection, summer, batch)
    await connection.close()


async def _write_batch(connection: partitions.Connection, summer: RollupSummer, batch: list[tuple[Any, ...]]) -> None:
    async with connection.transaction():
        await connection.copy_records_to_table("inferences", records=batch, columns=INFERENCE_COLUMNS)
        await add_rollups(connection, await summer.sum(batch), ())
        await add_usage(connection, sum_usage(batch))


async def copy_days(database_url: str, copies: list[tuple[datetime.datetime, datetime.datetime]]) -> None:
    connection = await connect(database_url, None)
    await connection.execute("SET synchronous_commit = off")
    for source, target in copies:
        await copy_day(connection, source, target)
    await connection.close()


def write_process(database_url: str, days: list[tuple[int, datetime.datetime]], rows: int) -> None:
    asyncio.run(write_days(database_url, days, rows))


async def write_content(connection: partitions.Connection, number: int) -> None:
    """Gives the newest requests that were answered at once a conversation of some turns."""
    chance = random.Random(1)
    newest = "SELECT id, route FROM inferences WHERE NOT streamed AND outcome = 'answered' ORDER BY id DESC LIMIT $1"
    records: list[tuple[str, str, bytes, bytes]] = []
    for id, route in await connection.fetch(newest, number):
        turns = [{"role": ("user", "assistant")[at % 2], "content": _words(chance)} for at in range(1 + 2 * chance.randrange(6))]
        answer = _words(chance)
        if route == "anthropic_messages":
            response: dict[str, Any] = {"type": "message", "role": "assistant", "content": [{"type": "text", "text": answer}]}
            response |= {"id": "msg_1", "model": "m", "stop_reason": "end_turn", "usage": {"input_tokens": 9, "output_tokens": 9}}
        else:
            choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": answer}}
            response = {"id": "1", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}
        request = {"model": "m", "max_tokens": 500, "messages": turns}
        records.append((str(id), "full", pack(msgspec.json.encode(request)), pack(msgspec.json.encode(response))))
    await connection.copy_records_to_table("inference_content", records=records, columns=CONTENT_COLUMNS)


def _words(chance: random.Random) -> str:
    return " ".join(chance.choice(_VOCABULARY) for _ in range(chance.randrange(20, 300)))


async def prepare(database_url: str, rows: int, days: int, content: int = 0) -> None:
    await migrate(database_url)
    connection = await connect(database_url)
    for team in range(TEAMS):
        await connection.execute("INSERT INTO teams (id, name) VALUES ($1, $2)", str(uuid.UUID(int=100 + team)), f"team-{team}")
        for number in range(KEYS_OF_A_TEAM):
            id = KEYS_OF_A_TEAM * team + number
            await connection.execute(
                "INSERT INTO keys (id, prefix, hash, team_id) VALUES ($1, $2, $3, $4)",
                str(uuid.UUID(int=1000 + id)),
                f"{id:012x}",
                id.to_bytes(32, "big"),
                str(uuid.UUID(int=100 + team)),
            )
    today = datetime.datetime.now(datetime.UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    begins = [(number, today - (days - number) * DAY) for number in range(days)]
    await partitions.create_partitions(connection, {int(begin.timestamp()) // 86_400 for _, begin in begins})
    made = begins[:DIFFERENT_DAYS]
    workers = min(2, os.cpu_count() or 1)
    processes = [
        multiprocessing.get_context("spawn").Process(target=write_process, args=(database_url, made[at::workers], rows // days))
        for at in range(workers)
    ]
    for process in processes:
        process.start()
    for process in processes:
        await asyncio.to_thread(process.join)
        if process.exitcode:
            raise SystemExit(f"A process that writes rows ended with {process.exitcode}.")
    copies = [(made[number % DIFFERENT_DAYS][1], begin) for number, begin in begins[DIFFERENT_DAYS:]]
    await asyncio.gather(*(copy_days(database_url, copies[at::workers]) for at in range(workers)))
    await write_content(connection, content)
    await connection.execute("UPDATE rollups_since SET since = 'epoch'")
    await connection.execute("VACUUM ANALYZE")
    await connection.close()


def questions(now: datetime.datetime, days: int) -> dict[str, Any]:
    """Returns the questions of a dashboard by name: the arguments of an analytics query, or the filters of a list."""
    month = {"since": now - days * DAY}
    return {
        "totals of all days": month,
        "cost by team": {**month, "group_by": "team", "order_by": "cost_microusd"},
        "requests by day and model": {**month, "group_by": "model", "interval": "day"},
        "latency by model, all days": {**month, "group_by": "model", "quantiles": True},
        "slowest model yesterday": {"since": now - DAY, "group_by": "model", "quantiles": True, "order_by": "p95_duration_us"},
        "last day by hour, with latency": {"since": now - DAY, "interval": "hour", "quantiles": True},
        "errors by target": {**month, "group_by": "target,error", "filters": {"outcome": "failed"}},
        "a team by day": {**month, "filters": {"team": "team-3"}, "interval": "day", "quantiles": True},
        "top end users": {**month, "group_by": "end_user", "order_by": "cost_microusd"},
        "a tenant by day": {**month, "filters": {"tag:tenant": "tenant-7"}, "interval": "day"},
        "top tenants": {**month, "group_by": "tag:tenant"},
        "matches nothing": {**month, "filters": {"model": "none"}, "group_by": "team"},
        "list: newest": InferenceFilter(),
        "list: a user": InferenceFilter(end_user="user-777"),
        "list: failed, of a team": InferenceFilter(team="team-20", outcome="failed"),
        "list: a tag": InferenceFilter(tag=("tenant", "tenant-150")),
        "list: very expensive": InferenceFilter(min_cost_microusd=10**9),
        "list: matches nothing": InferenceFilter(error="Nothing"),
        "list: no such trace": InferenceFilter(trace_id="0" * 32),
        "list: no such request id": InferenceFilter(request_id=uuid7.mint()),
        "list: no such user": InferenceFilter(end_user="nobody"),
    }


async def time_question(database: AsyncEngine, question: Any) -> float:
    begin = time.monotonic()
    async with database.begin() as connection:
        if isinstance(question, InferenceFilter):
            await list_inferences(connection, question, keep_hours_days=400, before=None, limit=51)
        else:
            fields = {"until": None, "now": datetime.datetime.now(datetime.UTC), "keep_minutes_days": 7, "keep_hours_days": 400}
            await read_analytics(connection, make_query(**fields, **question))
    return time.monotonic() - begin


async def measure(database_url: str, days: int) -> None:
    database = create_database_engine(database_url)
    everything: list[float] = []
    print(f"{'question':34} {'median ms':>10} {'p95 ms':>10}")
    for name, question in questions(datetime.datetime.now(datetime.UTC), days).items():
        times = sorted([await time_question(database, question) for _ in range(QUESTION_ROUNDS)])
        everything += times
        print(f"{name:34} {1000 * times[len(times) // 2]:10.0f} {1000 * times[int(len(times) * 0.95)]:10.0f}")
    everything.sort()
    print(f"{'all':34} {1000 * everything[len(everything) // 2]:10.0f} {1000 * everything[int(len(everything) * 0.95)]:10.0f}")
    await database.dispose()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--days", type=int, default=30)
    parser.add_argument("--content", type=int, default=0, help="how many have content, the newest")
    parser.add_argument("--keep", action="store_true", help="write into the empty database of DATABASE_URL, and leave it there")
    arguments = parser.parse_args()
    if arguments.keep:
        _run(os.environ["DATABASE_URL"], arguments)
        return
    home = Path(tempfile.mkdtemp(prefix="narthex-history-"))
    server = embedded.Postgres(home)
    try:
        _run(server.start(), arguments)
    finally:
        server.stop()
        shutil.rmtree(home, ignore_errors=True)


def _run(database_url: str, arguments: argparse.Namespace) -> None:
    begin = time.monotonic()
    asyncio.run(prepare(database_url, arguments.rows, arguments.days, arguments.content))
    passed = time.monotonic() - begin
    print(f"{arguments.rows:,} inferences of {arguments.days} days, written in {passed:.0f} s ({arguments.rows / passed:,.0f} a second)")
    asyncio.run(measure(database_url, arguments.days))


if __name__ == "__main__":
    main()
