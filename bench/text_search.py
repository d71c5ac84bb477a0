"""Full-text search over a history: how fast words are stored, indexed and found.

    python -m bench.text_search --rows 600000 --days 30

The history is that of bench.history; each inference has a text of random words, as frequent as those of a language (Zipf), in an embedded
PostgreSQL in a temporary folder. All days but the last are indexed, as the writer does it; of the last one texts are read one by one.
"""

import argparse
import asyncio
import itertools
import multiprocessing
import random
import shutil
import tempfile
import time
from pathlib import Path

from sqlalchemy.ext.asyncio import AsyncEngine

from app.recording.writes.inference_texts import add_texts, index_closed_days
from app.store.postgres.database import connect, create_database_engine
from app.store.records.inference_filter import InferenceFilter
from app.store.records.inference_queries import page_inferences
from app.store.records.search_words import read_search
from app.supervisor import postgres as embedded
from bench.history import QUESTION_ROUNDS, prepare

VOCABULARY = [f"word{rank}" for rank in range(1, 50_000)]
CUMULATIVE_FREQUENCIES = list(itertools.accumulate(1 / rank for rank in range(1, 50_000)))
WORDS_OF_A_TEXT = 150
RARE, RARE_SHARE = "kingfisher", 1 / 20_000
BATCH_ROWS = 2_000

SEARCHES = {
    "a word of nearly all texts": "word1",
    "a word of a third": "word25",
    "a word of one in 600": "word8000",
    "a word of one in 20,000": RARE,
    "a word of none": "absent",
    "a phrase of frequent words": '"word2 word3"',
    "a phrase that none has": '"word1 kingfisher word1"',
    "two frequent words, not a third": "word30 word40 -word1",
}


async def write_texts(database_url: str, parity: int) -> None:
    connection = await connect(database_url)
    chance = random.Random(parity)
    last = "00000000-0000-0000-0000-000000000000"
    while True:
        query = "SELECT id::text, team_id::text FROM inferences WHERE id > $1 ORDER BY id LIMIT $2"
        rows = await connection.fetch(query, last, 2 * BATCH_ROWS)
        if not rows:
            break
        last = rows[-1]["id"]
        await add_texts(connection, [(row["id"], row["team_id"], _text(chance)) for row in rows[parity::2]])
    await connection.close()


def _text(chance: random.Random) -> str:
    words = chance.choices(VOCABULARY, cum_weights=CUMULATIVE_FREQUENCIES, k=WORDS_OF_A_TEXT)
    return " ".join([*words, RARE] if chance.random() < RARE_SHARE else words)


def write_process(database_url: str, parity: int) -> None:
    asyncio.run(write_texts(database_url, parity))


async def prepare_texts(database_url: str, rows: int, days: int) -> None:
    await prepare(database_url, rows, days)
    began = time.monotonic()
    processes = [multiprocessing.get_context("spawn").Process(target=write_process, args=(database_url, parity)) for parity in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        await asyncio.to_thread(process.join)
    print(f"words of {rows:,} inferences stored: {rows / (time.monotonic() - began):,.0f} a second, by two processes")
    connection = await connect(database_url)
    await connection.execute("UPDATE teams SET search = true")
    # The last day of the history is yesterday: as if it were today, it gets no index.
    await connection.execute(
        "INSERT INTO spools (spool, stored_until) VALUES ('bench', date_trunc('day', now(), 'UTC') - interval '1 minute')"
    )
    began = time.monotonic()
    await index_closed_days(connection)
    size = await connection.fetchval(
        "SELECT sum(pg_total_relation_size(inhrelid)) FROM pg_inherits WHERE inhparent = 'inference_texts'::regclass"
    )
    indexes = await connection.fetchval(
        "SELECT sum(pg_relation_size(indexrelid)) FROM pg_stat_user_indexes WHERE indexrelname LIKE '%words_idx'"
    )
    print(f"{days - 1} days indexed in {time.monotonic() - began:.0f} s")
    print(f"{size / rows:,.0f} bytes an inference, {indexes / rows:,.0f} of them in indexes of words")
    await connection.execute("VACUUM ANALYZE")
    await connection.close()


async def measure(database_url: str) -> None:
    database = create_database_engine(database_url)
    print(f"{'search, and whether it came to the end':50} {'found':>6} {'pages':>6} {'median ms':>10} {'p95 ms':>10}")
    for team in ("team-0", "team-20", None):
        for name, search in SEARCHES.items():
            times: list[float] = []
            found = pages = 0
            for _ in range(QUESTION_ROUNDS):
                began = time.monotonic()
                found, pages = await _search(database, InferenceFilter(text=read_search(search), team=team))
                times.append(1000 * (time.monotonic() - began))
            times.sort()
            print(
                f"{team or 'all teams'}: {name:40} {found:6} {pages:6} {times[len(times) // 2]:10.0f} {times[int(len(times) * 0.95)]:10.0f}"
            )
    await database.dispose()


async def _search(database: AsyncEngine, filters: InferenceFilter) -> tuple[int, int]:
    """The newest 50: how many there are, and how many pages that took."""
    found = pages = 0
    before: str | None = None
    while found < 50:
        async with database.begin() as connection:
            page = await page_inferences(connection, filters, keep_hours_days=400, before=before, limit=50 - found)
        found, pages, before = found + len(page.rows), pages + 1, page.next
        if before is None:
            break
    return found, pages


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=600_000)
    parser.add_argument("--days", type=int, default=30)
    arguments = parser.parse_args()
    home = Path(tempfile.mkdtemp(prefix="narthex-texts-"))
    server = embedded.Postgres(home)
    try:
        url = server.start()
        asyncio.run(prepare_texts(url, arguments.rows, arguments.days))
        asyncio.run(measure(url))
    finally:
        server.stop()
        shutil.rmtree(home, ignore_errors=True)


if __name__ == "__main__":
    main()
