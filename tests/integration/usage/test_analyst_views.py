"""The views for analysts: docs/sql.md describes every column, its questions are answered as printed, and a role reads nothing else."""

import asyncio
import datetime
import json
import re
import urllib.parse
from collections.abc import AsyncGenerator, Callable
from decimal import Decimal
from pathlib import Path
from typing import Any, TypeAlias
from zoneinfo import ZoneInfo

import asyncpg
import pytest
from click.testing import CliRunner, Result

from app.cli import main
from app.domain import uuid7
from app.domain.exchange import Attempt
from app.domain.experiments import Assignment
from app.recording.spool.refusal_records import RefusalCount, Refusals, RefusalSample, encode_refusals
from app.recording.spool.spool import Spool
from app.settings import Settings
from app.store.keys.callers import find_callers
from app.store.keys.key_format import hash_key, parse_prefix
from app.store.postgres.database import connect, dsn
from app.store.schema.migrate import migrate
from app.store.teams import keys
from providers.canonical.chat import Usage
from tests.support.processes.postgres import Postgres
from tests.support.processes.wait_until import wait_until
from tests.support.processes.writer_process import drain, fetch, running_writer
from tests.support.spooled_exchanges import spool_exchange
from tests.support.spooled_feedback import make_feedback, make_withdrawal, spool_feedback

Connection: TypeAlias = "asyncpg.Connection[Any]"
PAGE = (Path(__file__).parents[3] / "docs/sql.md").read_text()
NOW = datetime.datetime.now(datetime.UTC)
TODAY = NOW.replace(hour=0, minute=0, second=0, microsecond=0)
THIS_MONTH = TODAY.replace(day=1)
LAST_MONTH = (THIS_MONTH - datetime.timedelta(days=1)).replace(day=1)
AN_HOUR_AGO, YESTERDAY = NOW - datetime.timedelta(hours=1), TODAY - datetime.timedelta(hours=12)
EPISODE = uuid7.mint(int(AN_HOUR_AGO.timestamp() * 1_000_000))
RETRIED = (
    Attempt("gpu", "qwen", "http://10.0.0.5", 1000, 250_000, 503, "Overloaded", "a prompt", "busy", "req-1"),
    Attempt("openai", "gpt-5-mini", "https://api.openai.com", 260_000, 1_500_000, 200, first_token_us=300_000, input_tokens=70),
)
# Of two teams: fields of the exchange, and when it was received.
ROWS: list[tuple[str, datetime.datetime, dict[str, Any]]] = [
    ("search", LAST_MONTH + datetime.timedelta(days=4), {"cost_microusd": 1_250_000, "model": "tensorzero::model_name::gpt-5-mini"}),
    ("blue", LAST_MONTH + datetime.timedelta(days=9), {"cost_microusd": 5}),
    ("search", YESTERDAY, {"duration_us": 9_000_000, "model": "slow"}),
    ("blue", YESTERDAY, {"duration_us": 100_000, "model": "quick"}),
    (
        "search",
        AN_HOUR_AGO,
        {
            **{
                "episode_id": EPISODE,
                "episode_name": "chat 7",
                "model": "gpt-5-mini",
                "end_user": "ann",
                "tags": {"tenant": "acme"},
                "cost_microusd": 42,
            },
            **{"usage": Usage(input=70, output=30, cached=20), "attempts": RETRIED, "served_provider": "openai", "served_us": 1_500_000},
            **{"duration_us": 1_760_000, "dropped": ("logit_bias",), "charge_basis": "received", "trace_id": "4b" * 16, "streamed": True},
        },
    ),
    (
        "search",
        AN_HOUR_AGO + datetime.timedelta(seconds=5),
        {
            **{"episode_id": EPISODE, "model": "gpt-5-mini", "outcome": "failed", "status": 502, "error": "UpstreamFailed"},
            **{"served_provider": None, "served_model": None, "endpoint": None, "attempts": RETRIED[:1]},
        },
    ),
]

INFERENCES = len(ROWS) + 2  # and two with feedback


@pytest.fixture(scope="module")
async def url(postgres: Postgres, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A database with ROWS, which `analyst` may read by its views."""
    await postgres.execute("CREATE DATABASE views TEMPLATE migrated")
    await postgres.execute("CREATE ROLE analyst LOGIN")
    home = tmp_path_factory.mktemp("views")
    settings = Settings(home=home, database_url=postgres.database_url("views"))
    made = {team: await keys.create_key(settings.database_url, team) for team in ("search", "blue")}
    connection = await connect(settings.database_url)
    found = await find_callers(connection, {hash_key(key): parse_prefix(key) or "" for key in made.values()})
    await connection.close()
    spool = Spool(home / "spool", settings)
    for team, received, fields in ROWS:
        caller, at_us = found[hash_key(made[team])], int(received.timestamp() * 1_000_000)
        ids = {"id": uuid7.mint(at_us), "received_us": at_us, "team_id": caller.team_id, "key_id": caller.key_id}
        spool_exchange(spool, b"what ann wrote", b"", **{"episode_id": ids["id"], **ids, **fields})
    caller, at_us = found[hash_key(made["search"])], int(YESTERDAY.timestamp() * 1_000_000)
    sender = {"team_id": caller.team_id, "key_id": caller.key_id}
    why = ("openai_chat", "gpt-5-mini", 429, "LimitExceeded")
    counts = [RefusalCount(at_us // 60_000_000, caller.team_id, caller.key_id, *why, "once", 1000)]
    sample = RefusalSample(
        uuid7.mint(at_us), at_us, caller.team_id, caller.key_id, None, *why, "requests_limit_reached", None, "once", "no room", None, None
    )
    assert spool.append_refusals(encode_refusals(Refusals(counts, [sample])))
    enrolled, pinned = (
        spool_exchange(spool, b"", b"", model="compared", variant="large", assignment=Assignment("e", 1, "large", 0.5, why), **sender)
        for why in (None, "pinned")
    )
    said = [
        make_feedback(enrolled.id, tags={"app": "chat"}, **sender),
        make_feedback(pinned.id, False, **sender),
        make_feedback(enrolled.id, "what ann wrote", metric="comment", kind="comment", **sender),
        make_feedback(enrolled.episode_id, 0.25, metric="score", kind="float", level="episode", **sender),
        make_withdrawal(make_feedback(enrolled.id), **sender),
    ]
    spool_feedback(spool, *said)
    spool.close()
    await drain(settings)
    async with running_writer(settings):
        await wait_until(lambda: is_matched(settings.database_url, len(said) - 1))
    granted = await narthex(settings.database_url, "views", "grant", "analyst")
    assert granted.exit_code == 0, granted.output
    return settings.database_url


async def is_matched(url: str, count: int) -> bool:
    [(matched,)] = await fetch(url, "SELECT count(*) FROM feedback WHERE matched_at IS NOT NULL")
    return matched == count


@pytest.fixture
async def analyst(url: str) -> AsyncGenerator[Connection]:
    connection = await connect_as("analyst", url)
    yield connection
    await connection.close()


async def connect_as(role: str, url: str) -> Connection:
    connection = await asyncpg.connect(dsn(url))
    await connection.execute(f"SET SESSION AUTHORIZATION {role}")
    return connection


async def narthex(url: str, *arguments: str) -> Result:
    return await asyncio.to_thread(CliRunner().invoke, main, list(arguments), prog_name="narthex", env={"DATABASE_URL": url})


def documented_columns() -> dict[str, set[str]]:
    """Returns the documented columns of each view; a table under a heading with two names is of both."""
    found: dict[str, set[str]] = {}
    for names, text in re.findall(r"^### ([\w, ]+)\n(.*?)(?=^##)", PAGE, re.DOTALL | re.MULTILINE):
        cells = re.findall(r"^\| (`.*?) \|", text, re.MULTILINE)
        found |= {view: {name for cell in cells for name in re.findall(r"`(\w+)`", cell)} for view in names.split(", ")}
    return found


async def test_page_describes_every_column_and_no_other(analyst: Connection):
    existing: dict[str, set[str]] = {}
    for row in await analyst.fetch("SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = 'narthex_views'"):
        existing.setdefault(row["table_name"], set()).add(row["column_name"])
    # What one of two views under a heading has, and the other has not.
    only = {"refusals_by_hour": {"day"}, "refusals_by_day": {"hour"}}
    only |= {"usage_by_hour": {"day"}, "usage_by_day": {"hour"}, "usage_by_end_user": {"tag", "value"}, "usage_by_tag": {"end_user"}}
    assert {name: columns - only.get(name, set()) for name, columns in documented_columns().items()} == existing


async def test_refusals_are_counted_and_are_no_usage(analyst: Connection):
    for period in ("hour", "day"):
        [refused] = await analyst.fetch(f"SELECT team, key_name, model, rule, refused FROM narthex_views.refusals_by_{period}")
        assert tuple(refused) == ("search", "", "gpt-5-mini", "once", 1000)
        assert await analyst.fetchval(f"SELECT sum(requests) FROM narthex_views.usage_by_{period}") == INFERENCES
    [sample] = await analyst.fetch("SELECT * FROM narthex_views.refusals")
    assert (sample["team"], sample["status"], sample["message"]) == ("search", 429, "no room")


async def test_feedback_is_there_without_its_words(analyst: Connection):
    rows = await analyst.fetch("SELECT * FROM narthex_views.feedback WHERE id >= narthex_views.id_at($1) ORDER BY id", AN_HOUR_AGO)
    assert [(row["action"], row["metric"], row["number"], row["is_current"], row["not_enrolled"]) for row in rows] == [
        ("create", "helpful", 1, True, None),
        ("create", "helpful", 0, True, "pinned"),
        ("create", "comment", None, True, None),
        ("create", "score", 0.25, True, None),
        ("withdraw", None, None, False, None),
    ]
    helpful, _, comment, score, _ = rows
    assert (helpful["team"], helpful["model"], helpful["variant"]) == ("search", "compared", "large")
    assert json.loads(helpful["tags"]) == {"app": "chat"}
    assert (comment["content"], json.loads(comment["tags"]), comment["inference_id"]) == ("full", {}, helpful["inference_id"])
    assert score["episode_id"] and score["inference_id"] is None
    joined = "SELECT count(*) FROM narthex_views.feedback f JOIN narthex_views.inferences i ON i.id = f.inference_id"
    assert await analyst.fetchval(joined) == 3


async def test_queries_of_the_page_about_feedback_run(analyst: Connection):
    page = (Path(__file__).parents[3] / "docs/feedback.md").read_text()
    queries = re.findall(r"^```sql\n(.*?)```", page, re.DOTALL | re.MULTILINE)
    by_metric, joined = [await analyst.fetch(query) for query in queries]
    assert [tuple(row) for row in by_metric] == [("compared", "large", 1, 1.0)]
    assert [(row["variant"], row["feedback"]) for row in joined] == [("large", 2)]


Rows: TypeAlias = list[dict[str, Any]]


def cost_of_last_month(team: str) -> Decimal:
    costs = [fields.get("cost_microusd") or 0 for owner, at, fields in ROWS if owner == team and LAST_MONTH <= at < THIS_MONTH]
    return Decimal(sum(costs)) / 1_000_000


QUESTIONS: dict[str, Callable[[Rows], bool]] = {
    "What did each team cost last month?": lambda rows: (
        {row["team"]: row["cost_usd"] for row in rows} == {team: cost_of_last_month(team) for team in ("search", "blue")}
    ),
    "Which model was slowest yesterday?": lambda rows: rows[0] == {"model": "slow", "requests": 1, "p95_s": 9.0} and len(rows) > 1,
    "What fails, where and why?": lambda rows: [tuple(row.values()) for row in rows] == [("gpu", "qwen", "Overloaded", 2)],
    "Which share of a model's requests needed more than one attempt, by day?": lambda rows: sum(row["share"] for row in rows) == 0.5,
    "What did a user request, and what became of it?": lambda rows: (
        [(row["model"], row["status"], row["output_tokens"], row["cost_usd"]) for row in rows]
        == [("gpt-5-mini", 200, 30, Decimal("0.000042"))]
    ),
    "Who uses a model most?": lambda rows: rows[0]["team"] == "search" and rows[0]["key"].startswith("nx-") and rows[0]["tokens"] == 100,
    "What does a tenant use each day?": lambda rows: [(row["requests"], row["cost_usd"]) for row in rows] == [(1, Decimal("0.000042"))],
    "At which hours of the day is a team busy, in its own time zone?": lambda rows: (
        AN_HOUR_AGO.astimezone(ZoneInfo("Europe/Berlin")).hour in {int(row["local_hour"]) for row in rows}
    ),
    "Which conversations cost most?": lambda rows: (
        (str(rows[0]["episode_id"]), rows[0]["inferences"], rows[0]["models"], rows[0]["cost_usd"])
        == (EPISODE, 2, ["gpt-5-mini"], Decimal("0.000042"))
    ),
    "Which fields do teams send that their engines do not take?": lambda rows: (
        [tuple(row.values()) for row in rows] == [("search", "logit_bias", "openai", 1)]
    ),
}


def printed_questions() -> dict[str, str]:
    """The SQL by question, as printed."""
    return dict(re.findall(r"^([A-Z][^\n]*\?)\n\n```sql\n(.*?)```", PAGE.partition("## Ten questions")[2], re.DOTALL | re.MULTILINE))


def test_page_has_ten_questions():
    assert printed_questions().keys() == QUESTIONS.keys() and len(QUESTIONS) == 10


@pytest.mark.parametrize("question", QUESTIONS)
async def test_printed_sql_answers_its_question(analyst: Connection, question: str):
    rows = [dict(row) for row in await analyst.fetch(printed_questions()[question])]
    assert QUESTIONS[question](rows), rows


async def test_examples_beside_the_questions_run(url: str, analyst: Connection):
    (count,) = re.findall(r"^SELECT count.*?;$", PAGE, re.DOTALL | re.MULTILINE)
    await analyst.fetch(count)
    roles, of_a_team = (block for block in re.findall(r"```sql\n(.*?)```", PAGE, re.DOTALL) if block.startswith("CREATE "))
    owner = await connect(url)
    try:
        await owner.execute(roles.replace("ROLE analyst", "ROLE printed_analyst"))
        await owner.execute("CREATE ROLE search_analyst")
        await owner.execute(of_a_team)
        await owner.execute("SET SESSION AUTHORIZATION search_analyst")
        assert {row["team"] for row in await owner.fetch("SELECT team FROM search_team.inferences")} == {"search"}
        await owner.execute("RESET SESSION AUTHORIZATION; DROP SCHEMA search_team CASCADE")
    finally:
        await owner.close()


async def test_views_hold_what_was_recorded(analyst: Connection):
    row = await analyst.fetchrow("SELECT * FROM narthex_views.inferences WHERE end_user = 'ann'")
    assert row is not None
    assert (row["team"], row["cost_usd"], row["duration_s"], row["served_s"]) == ("search", Decimal("0.000042"), 1.76, 1.5)
    assert (str(row["episode_id"]), row["episode_name"]) == (EPISODE, "chat 7")
    assert (await analyst.fetchval("SELECT name FROM narthex_views.episodes WHERE id = $1", EPISODE)) == "chat 7"
    assert (json.loads(row["tags"]), row["attempts"], row["cost_is_estimated"], row["trace_id"]) == ({"tenant": "acme"}, 2, True, "4b" * 16)
    attempts = await analyst.fetch("SELECT * FROM narthex_views.attempts WHERE inference_id = $1 ORDER BY number", row["id"])
    assert [(each["provider"], each["status"], each["error"], each["started_s"], each["duration_s"]) for each in attempts] == [
        ("gpu", 503, "Overloaded", 0.001, 0.25),
        ("openai", 200, None, 0.26, 1.5),
    ]
    alone = await analyst.fetch("SELECT * FROM narthex_views.attempts WHERE model = 'quick'")
    assert [(each["number"], each["provider"], each["served_model"], each["error"]) for each in alone] == [
        (1, "gpu", "Qwen/Qwen3-4B", None)
    ]
    sums = "SELECT sum(requests), sum(cost_usd), sum(output_tokens) FROM narthex_views.usage_by_"
    assert len({tuple(*await analyst.fetch(sums + level)) for level in ("hour", "day")}) == 1
    assert await analyst.fetchval("SELECT sum(requests) FROM narthex_views.usage_by_day") == INFERENCES
    assert await analyst.fetchval("SELECT sum(requests) FROM narthex_views.usage_by_end_user WHERE end_user = 'ann'") == 1


async def test_views_hold_nothing_that_was_written(analyst: Connection):
    for view in documented_columns():
        rows = await analyst.fetch(f"SELECT v::text FROM narthex_views.{view} AS v")
        assert rows and not any("ann wrote" in row[0] or "a prompt" in row[0] for row in rows)


async def test_condition_on_the_id_reads_the_partitions_of_that_time_only(analyst: Connection):
    moment = datetime.datetime(2026, 11, 21, 3, 20, 0, 123_456, datetime.UTC)
    assert str(await analyst.fetchval("SELECT narthex_views.id_at($1)", moment)) == uuid7.lowest_at(int(moment.timestamp() * 1000))
    for condition in ("now() - interval '70 minutes'", f"'{AN_HOUR_AGO - datetime.timedelta(minutes=10)}'"):
        lines = await analyst.fetch(
            f"EXPLAIN ANALYZE SELECT * FROM narthex_views.attempts WHERE inference_id >= narthex_views.id_at({condition})"
        )
        read = {name for row in lines if "never executed" not in row[0] for name in re.findall(r" on (inferences_\d+)", row[0])}
        assert read and read <= {f"inferences_{day:%Y%m%d}" for day in (AN_HOUR_AGO, NOW, NOW + datetime.timedelta(days=1))}, lines


async def test_role_reads_views_of_later_versions_and_no_table(url: str, analyst: Connection):
    owner = await connect(url)
    try:
        # As a migration does that changes a column.
        definition = await owner.fetchval("SELECT pg_get_viewdef('narthex_views.episodes'::regclass)")
        await owner.execute(f"DROP VIEW narthex_views.episodes; CREATE VIEW narthex_views.episodes AS {definition}")
        await owner.execute("CREATE VIEW narthex_views.later AS SELECT 1 AS one")
    finally:
        await owner.close()
    assert await analyst.fetch("SELECT * FROM narthex_views.episodes, narthex_views.later")
    for table in ("inferences", "inference_content", "keys", "credentials", "audit_log", "rollups_by_day"):
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await analyst.fetch(f"SELECT * FROM {table}")
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await analyst.execute("CREATE VIEW narthex_views.mine AS SELECT 1")
    owner = await connect(url)
    await owner.execute("DROP VIEW narthex_views.later")
    await owner.close()


async def test_commands_grant_and_revoke(url: str):
    owner = await connect(url)
    try:
        await owner.execute("""CREATE ROLE "an ""odd: one" """)
        odd = 'an "odd: one'
        assert (await narthex(url, "views", "grant", odd)).output == f"{odd} may read the views of the schema narthex_views.\n"
        listed = json.loads((await narthex(url, "views", "list", "--json")).output)["roles"]
        assert {"name": odd, "reads_content": False} in listed and len(listed) == 2
        await owner.execute("""GRANT SELECT ON inference_content TO "an ""odd: one" """)
        assert "it is no role for analysts" in (await narthex(url, "views", "grant", odd)).output
        assert "yes, by other privileges" in (await narthex(url, "views", "list")).output
        assert (await narthex(url, "views", "revoke", odd)).exit_code == 0
        await owner.execute('REVOKE SELECT ON inference_content FROM "an ""odd: one"')
        await owner.execute("""DROP ROLE "an ""odd: one" """)  # which fails if anything is left of the grants
        logged = await owner.fetch(
            "SELECT action, name, author_kind FROM audit_log WHERE resource = 'views' AND name = $1 ORDER BY id", odd
        )
        assert [tuple(row) for row in logged] == [("grant", odd, "cli"), ("grant", odd, "cli"), ("revoke", odd, "cli")]

        unknown = await narthex(url, "views", "grant", "nobody")
        assert unknown.exit_code == 1 and "Create it first: CREATE ROLE" in unknown.output
        assert (await narthex(url, "views", "revoke", "nobody")).exit_code == 1

        await owner.execute("CREATE ROLE by_script")
        await owner.execute((await narthex(url, "views", "grant", "by_script", "--print")).output)
        assert [each["name"] for each in json.loads((await narthex(url, "views", "list", "--json")).output)["roles"]] == [
            "analyst",
            "by_script",
        ]
        await owner.execute((await narthex(url, "views", "revoke", "by_script", "--print")).output + "DROP ROLE by_script")
    finally:
        await owner.close()


async def test_owner_without_the_right_to_create_schemas_migrates_into_one_that_exists(postgres: Postgres, blank_database: str):
    name = blank_database.partition("?")[0].rpartition("/")[2]
    await postgres.execute("CREATE ROLE plain LOGIN")
    connection = await connect(blank_database)
    try:
        await connection.execute("GRANT ALL ON SCHEMA public TO plain; CREATE SCHEMA narthex_views AUTHORIZATION plain")
        assert not await connection.fetchval("SELECT has_database_privilege('plain', $1, 'CREATE')", name)
        await connection.execute("SET SESSION AUTHORIZATION plain")
    finally:
        await connection.close()
    address = urllib.parse.urlsplit(blank_database)
    await migrate(address._replace(netloc=f"plain@{address.netloc.rpartition('@')[2]}").geturl())
