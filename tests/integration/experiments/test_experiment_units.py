"""Sums over units of experiments: equal to a scan of all records, whatever comes late, and whenever who counts is killed."""

import asyncio
import datetime
import json
import random
import uuid
from collections.abc import Iterator
from fractions import Fraction
from math import ceil, floor, log
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pytest
import uvloop

from app.domain import uuid7
from app.domain.exchange import Attempt
from app.domain.experiment_unit import draw_enrolment, team_unit, value_unit
from app.domain.experiments import Assignment
from app.recording.spool.feedback_records import Feedback
from app.recording.spool.spool import Spool
from app.recording.writer.feedback_matching import match_due
from app.recording.writes.cost_changes import CostChange, apply_cost_changes
from app.results.units import background
from app.results.units.counting import count_due_units, put_off_due_unit, take_in_touched
from app.results.units.pre_period import scan_pre_period
from app.settings import Settings
from app.store.experiment_units import forgotten_units
from app.store.postgres import bounded_transactions
from app.store.postgres.audit_log import SYSTEM
from app.store.postgres.database import connect
from app.store.usage.rollups import RollupSums
from tests.support.experiment_scan import assert_sums_equal_a_scan
from tests.support.processes.fork_server import ForkedProcess
from tests.support.processes.wait_until import GENEROUS_S, wait_until
from tests.support.processes.writer_process import drain, fetch
from tests.support.spooled_exchanges import spool_exchange
from tests.support.spooled_feedback import TEAM, make_feedback, make_withdrawal, spool_feedback

NOW_US = int(datetime.datetime.now(datetime.UTC).timestamp() * 1_000_000)
HOUR_US = 3_600_000_000
DAY_US = 24 * HOUR_US
METRICS = ["helpful", "stars", "error", "schema_failure", "refusal", "latency", "time_to_first_token", "cost", "output_tokens"]


@pytest.fixture
def settings(tmp_path: Path, database: str) -> Settings:
    return Settings(home=tmp_path, database_url=database, drain_timeout_s=GENEROUS_S, writer_batch_rows=50, writer_batch_ms=5.0)


async def start_experiment(database: str, name: str, unit: str, *, days_ago: int = 0, **analysis: Any) -> str:
    id = uuid7.mint()
    definition: dict[str, Any] = {
        "arms": ["a", "b"],
        "unit": unit,
        "control": "a",
        "holdout": 0,
        "layer": None,
        "slots": None,
        "eligible": {},
    }
    connection = await connect(database)
    try:
        await connection.execute(
            "INSERT INTO experiments (id, name, section, owner, salt, definition, started_at)"
            " VALUES ($1, $2, 'models', $2, 's', $3, now() - make_interval(days => $4))",
            *(id, name, json.dumps({**definition, "analysis": analysis}), days_ago),
        )
        for number in (1, 2):
            await connection.execute(
                "INSERT INTO experiment_versions (experiment_id, number, arms, enrolment, effective_at, author)"
                " VALUES ($1, $2, '{\"a\": 1, \"b\": 1}', 1, now(), 'test')",
                *(id, number),
            )
    finally:
        await connection.close()
    return id


async def count(database: str) -> None:
    """Matches and counts until nothing is left to do."""
    connection = await connect(database)
    try:
        async with connection.transaction():
            await match_due(connection, 10_000)
        while await take_in_touched(connection) or await scan_pre_period(connection, limit=7):
            pass
        while await connection.fetchval("SELECT count(*) FROM experiment_units WHERE due_at <= now()"):
            await count_due_units(connection)
    finally:
        await connection.close()


def random_exchanges(seed: int, experiment: str, unit: str) -> Iterator[dict[str, Any]]:
    """Fields of exchanges of the last two days: of some units, which have several inferences, many of them after their window."""
    chance = random.Random(seed)
    births = [NOW_US - int(chance.random() * 48 * HOUR_US) for _ in range(60)]
    units = [(f"{experiment}-{number}", uuid7.mint(born_us), born_us) for number, born_us in enumerate(births)]
    while True:
        name, episode, born_us = chance.choice(units)
        at_us = min(NOW_US, born_us + int(chance.expovariate(1) * HOUR_US))
        arm = "ab"[sum(name.encode()) % 2]
        reason = chance.choice((*[None] * 150, "pinned", "late", "share", "ineligible"))
        failed = chance.random() < 0.1
        attempts = (
            Attempt("p", "m", "http://a", 0, 10, 200, "ConstraintViolation"),
            Attempt("p", "m", "http://a", 0, 10, 400, "UpstreamRejected", code="content_filter"),
        )
        yield {
            "id": uuid7.mint(at_us),
            "episode_id": episode if unit == "episode" else str(uuid.UUID(int=chance.randrange(1, 40))),
            "received_us": at_us,
            "team_id": TEAM,
            "duration_us": int(chance.lognormvariate(13, 1.5)),
            "first_token_us": chance.choice((None, int(chance.lognormvariate(11, 1)))),
            "outcome": "failed" if failed else "answered",
            "error": chance.choice(("UpstreamFailed", "ConstraintViolation")) if failed else None,
            "finish_reason": chance.choice((*["stop"] * 9, "content_filter")),
            "attempts": chance.choice((*[()] * 9, attempts[:1], attempts[1:])),
            "cost_microusd": chance.choice((*[17] * 9, 0, 123_456_789, None)),
            "charged_output": chance.randrange(1000),
            "variant": "a" if reason else arm,
            "served_variant": chance.choice((arm, arm, arm, "b", None)),
            "tags": {"tenant": chance.choice("xyz"), "other": 'a "quoted\\ value'},
            "end_user": name if unit == "user" else None,
            "assignment": Assignment(
                experiment, 1 + (sum(name.encode()) % 3 > 1), arm, 0.5, reason, name, "minted" if episode[-1] > "7" else "text"
            ),
        }


def spool_random(settings: Settings, sources: list[Iterator[dict[str, Any]]], chance: random.Random, number: int) -> None:
    """Exchanges of these, and feedback on some of them, in any order: corrected, withdrawn, before or after what it is about."""
    spool = Spool(settings.home / "spool", settings)
    for _ in range(number):
        exchange = next(chance.choice(sources))
        at_us = min(NOW_US, exchange["received_us"] + int(chance.random() * 40 * HOUR_US))
        feedback: list[Feedback] = []
        if chance.random() < 0.5:
            feedback.append(make_feedback(exchange["id"], chance.random() < 0.5, received_us=at_us))
        if chance.random() < 0.3:
            stars = {"metric": "stars", "kind": "float", "level": "episode", "received_us": at_us}
            feedback.append(make_feedback(exchange["episode_id"], chance.choice((0, 1, 3.1, 1e300, -7.2500004)), **stars))
        if chance.random() < 0.5:
            spool_feedback(spool, *feedback)
            spool_exchange(spool, b"", b"", **exchange)
        else:
            spool_exchange(spool, b"", b"", **exchange)
            spool_feedback(spool, *feedback)
        for each in feedback:
            if chance.random() < 0.2:
                spool_feedback(spool, make_withdrawal(each))
            elif chance.random() < 0.2:
                other = make_feedback(str(each.target_id), False if each.kind == "boolean" else 2, received_us=at_us, metric=each.metric)
                if each.kind == "boolean":
                    spool_feedback(spool, other)
    spool.close()


@pytest.mark.parametrize("seed", [1, 2])
async def test_sums_equal_a_scan_whatever_comes_late(settings: Settings, seed: int) -> None:
    database = settings.database_url
    await start_experiment(database, "episodes", "episode", metrics=METRICS, caps={"cost": 0.5, "stars": 3}, slices=["tenant", "other"])
    await start_experiment(database, "users", "user", metrics=["latency", "error"], window_minutes=300)
    chance = random.Random(seed)
    sources = [random_exchanges(seed, "episodes", "episode"), random_exchanges(seed, "users", "user")]
    most = 0
    for _ in range(4):
        spool_random(settings, sources, chance, 250)
        await drain(settings)
        await count(database)
        most = await assert_sums_equal_a_scan(database)
    assert most > 5


async def test_sums_equal_a_scan_after_kills_of_who_counts(settings: Settings) -> None:
    database = settings.database_url
    await start_experiment(database, "episodes", "episode", metrics=METRICS)
    chance = random.Random(3)
    sources = [random_exchanges(3, "episodes", "episode")]
    for _ in range(5):
        spool_random(settings, sources, chance, 150)
        await drain(settings)
        process = ForkedProcess(target=_count_for_ever, args=(settings,), daemon=True)
        process.start()
        await _has_begun(database)
        await asyncio.sleep(chance.random() * 0.1)
        _kill(process)
    await count(database)
    assert await assert_sums_equal_a_scan(database) > 5


def _count_for_ever(settings: Settings) -> None:
    async def work() -> None:
        async with background.counting_in_background(settings):
            await asyncio.Event().wait()

    uvloop.run(work())


async def _has_begun(database: str) -> None:
    async def has_fewer() -> bool:
        return (await fetch(database, "SELECT count(*) AS left FROM touched_units"))[0]["left"] == 0

    await wait_until(has_fewer)


def _kill(process: BaseProcess) -> None:
    process.kill()
    process.join()
    process.close()


_SLOW_UNIT = """
    CREATE FUNCTION take_long() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(60); RETURN NEW; END $$;
    CREATE TRIGGER take_long BEFORE UPDATE ON experiment_units FOR EACH ROW
    WHEN (NEW.unit = 'slow' AND NEW.state <> OLD.state) EXECUTE FUNCTION take_long()
"""


async def test_a_unit_that_takes_too_long_holds_up_no_other(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded_transactions, "STATEMENT_TIMEOUT_S", 2.0)
    database = settings.database_url
    await start_experiment(database, "slow", "user", metrics=["latency"])
    spool = Spool(settings.home / "spool", settings)
    for hours, unit in ((4, "slow"), (3, "quick"), (2, "other")):  # the slow one is due first
        at_us = NOW_US - hours * HOUR_US
        fields: dict[str, Any] = {"id": uuid7.mint(at_us), "received_us": at_us, "team_id": TEAM, "end_user": unit, "variant": "a"}
        spool_exchange(spool, b"", b"", **fields, assignment=Assignment("slow", 1, "a", 0.5, None, unit, "minted"))
    spool.close()
    await drain(settings)
    connection = await connect(database)
    try:
        await connection.execute(_SLOW_UNIT)
    finally:
        await connection.close()
    async with background.counting_in_background(settings):

        async def others_are_counted() -> bool:
            states = {row["unit"]: row["state"] for row in await fetch(database, "SELECT unit, state FROM experiment_units")}
            return states == {"slow": "open", "quick": "complete", "other": "complete"}

        await wait_until(others_are_counted)
    (slow,) = await fetch(database, "SELECT due_at > now() + interval '50 minutes' AS is_put_off FROM experiment_units WHERE unit = 'slow'")
    assert slow["is_put_off"]


def spool_user(settings: Settings, experiment: str, inferences: int, *, ago_us: int) -> list[str]:
    """Inferences of one user, a millisecond apart; returns their ids."""
    spool = Spool(settings.home / "spool", settings)
    ids = [uuid7.mint(NOW_US - ago_us + at * 1000) for at in range(inferences)]
    for id in ids:
        at_us = uuid7.created_ms(id) * 1000
        fields: dict[str, Any] = {"id": id, "received_us": at_us, "team_id": TEAM, "end_user": "u", "variant": "a"}
        fields["assignment"] = Assignment(experiment, 1, "a", 0.5, None, "hash", "minted")
        spool_exchange(spool, b"", b"", **fields, duration_us=at_us % 7)
    spool.close()
    return ids


async def test_a_large_unit_waits_for_more_of_what_comes_late(settings: Settings) -> None:
    database = settings.database_url
    await start_experiment(database, "busy", "user", metrics=["latency", "helpful"])
    ids = spool_user(settings, "busy", 200, ago_us=30 * HOUR_US)
    await drain(settings)
    await count(database)
    assert await assert_sums_equal_a_scan(database) == 1
    due = "SELECT due_at, due_at - now() AS wait FROM experiment_units"
    assert (await fetch(database, due))[0]["due_at"] is None
    at_us = NOW_US - 29 * HOUR_US
    first_due = None
    for id in ids[:3]:
        spool = Spool(settings.home / "spool", settings)
        spool_feedback(spool, make_feedback(id, True, received_us=at_us))
        spool.close()
        await drain(settings)
        await count(database)
        (row,) = await fetch(database, due)
        assert datetime.timedelta(0) < row["wait"] <= datetime.timedelta(seconds=12)
        assert row["due_at"] == (first_due := first_due or row["due_at"]), "more does not put it off further"
    connection = await connect(database)
    try:
        await connection.execute("UPDATE experiment_units SET due_at = now()")  # the time has come
    finally:
        await connection.close()
    await count(database)
    assert await assert_sums_equal_a_scan(database) == 1
    (sums,) = await fetch(database, "SELECT n FROM experiment_sums WHERE metric = 'helpful'")
    assert sums["n"] == 1


async def test_users_have_their_mean_from_before_the_experiment_as_covariate(settings: Settings) -> None:
    database = settings.database_url
    earlier = [(9, 1_000_000, 40), (9, 2_000_000, 60), (3, 6_000_000, 500)]  # days ago, latency, cost
    spool = Spool(settings.home / "spool", settings)
    for days, duration_us, cost_microusd in earlier:
        at_us = NOW_US - days * 24 * HOUR_US
        fields: dict[str, Any] = {"id": uuid7.mint(at_us), "received_us": at_us, "team_id": TEAM, "end_user": "ann"}
        spool_exchange(spool, b"", b"", **fields, duration_us=duration_us, cost_microusd=cost_microusd)
        spool_exchange(spool, b"", b"", **{**fields, "id": uuid7.mint(at_us), "end_user": "bob", "outcome": "failed"})
    spool.close()
    await drain(settings)
    await start_experiment(database, "users", "user", days_ago=1, metrics=["latency", "cost", "error", "time_to_first_token"])
    spool = Spool(settings.home / "spool", settings)
    for user in ("ann", "new"):
        at_us = NOW_US - 2 * HOUR_US
        fields = {"id": uuid7.mint(at_us), "received_us": at_us, "team_id": TEAM, "end_user": user, "variant": "a"}
        spool_exchange(spool, b"", b"", **fields, assignment=Assignment("users", 1, "a", 0.5, None, f"hash of {user}", "minted"))
    spool.close()
    await drain(settings)
    await count(database)
    units = await fetch(database, "SELECT unit, covariates FROM experiment_units ORDER BY unit")
    assert [(row["unit"], row["covariates"]) for row in units] == [
        ("hash of ann", [3_000_000, 300, None, 0]),  # of a request; of a day; errors are compared without
        ("hash of new", [0, 0, None, 0]),
    ]
    (sums,) = await fetch(database, "SELECT x, xx FROM experiment_sums WHERE metric = 'latency'")
    assert (sums["x"], sums["xx"]) == (3_000_000, 9_000_000_000_000)


STARTED_DAYS_AGO = 3


def is_before(at_us: int) -> bool:
    """Returns whether a time is in the 28 days before the day when an experiment started, STARTED_DAYS_AGO days ago."""
    midnight_us = (NOW_US // DAY_US - STARTED_DAYS_AGO) * DAY_US
    return midnight_us - 28 * DAY_US <= at_us < midnight_us


@pytest.mark.parametrize("unit", ["user", "team", "tag:tenant"])
async def test_what_is_known_from_before_equals_a_scan(settings: Settings, unit: str) -> None:
    """Times to the first token as sketches have them: within 2 %, and to the last digit what their buckets stand for."""
    database, chance, gamma = settings.database_url, random.Random(8), 1.02 / 0.98
    subjects = {"user": ["ann", "bob", "cem"], "team": [TEAM, str(uuid.UUID(int=9))], "tag:tenant": ["x", "y"]}[unit]
    before: dict[str, list[dict[str, Any]]] = {each: [] for each in subjects}

    def fields_of(subject: str, at_us: int) -> dict[str, Any]:
        fields: dict[str, Any] = {"id": uuid7.mint(at_us), "received_us": at_us, "team_id": subject if unit == "team" else TEAM}
        return {**fields, "end_user": subject if unit == "user" else "u", "tags": {"tenant": subject} if unit.startswith("tag") else {}}

    spool = Spool(settings.home / "spool", settings)
    for _ in range(300):
        subject = chance.choice(subjects[:-1])
        days = 1 + chance.random() * 34
        fields = fields_of(subject, NOW_US - int(days * DAY_US))
        fields["first_token_us"] = chance.choice((None, 0, 1, int(chance.lognormvariate(11, 2))))
        fields["duration_us"] = int(chance.lognormvariate(13, 1))
        fields["model"] = chance.choice("mn")
        spool_exchange(spool, b"", b"", **fields)
        if is_before(fields["received_us"]):
            before[subject].append(fields)
    spool.close()
    await drain(settings)
    await start_experiment(database, "e", unit, days_ago=STARTED_DAYS_AGO, metrics=["time_to_first_token", "latency"])
    spool = Spool(settings.home / "spool", settings)
    for subject in subjects:
        fields = fields_of(subject, NOW_US - 2 * HOUR_US)
        spool_exchange(spool, b"", b"", **fields, variant="a", assignment=Assignment("e", 1, "a", 0.5, None, subject, "minted"))
    spool.close()
    await drain(settings)
    await count(database)
    units = {row["unit"]: row["covariates"] for row in await fetch(database, "SELECT unit, covariates FROM experiment_units")}

    def mean(numbers: list[int]) -> int:
        return floor(Fraction(sum(numbers), len(numbers)) + Fraction(1, 2)) if numbers else 0

    def of_bucket(us: int) -> int:
        return round(2 * gamma ** ceil(log(us) / log(gamma)) / (gamma + 1)) if us > 1 else 1

    for subject, records in before.items():
        times = [each["first_token_us"] for each in records if each["first_token_us"] is not None]
        expected = [mean([of_bucket(us) for us in times]), mean([each["duration_us"] for each in records])]
        assert units[subject] == expected
        assert abs(expected[0] - mean(times)) <= 0.02 * mean(times) + 1
    assert units[subjects[-1]] == [0, 0] and 0 not in units[subjects[0]]


@pytest.mark.parametrize("unit", ["user", "team", "tag:tenant"])
async def test_feedback_from_before_equals_a_scan(settings: Settings, unit: str) -> None:
    database, chance = settings.database_url, random.Random(9)
    teams = [TEAM, str(uuid.UUID(int=9))]
    subjects = [(team, value) for team in teams for value in (["x"] if unit == "team" else ["x", "y", "z", "nobody"])]
    hashes = {
        (team, value): draw_enrolment("s", team_unit(team) if unit == "team" else value_unit(team, value)).hex() for team, value in subjects
    }
    ratings: dict[tuple[str, tuple[str, str]], list[Fraction]] = {
        (metric, each): [] for metric in ("helpful", "stars") for each in subjects
    }

    def fields_of(subject: tuple[str, str], at_us: int) -> dict[str, Any]:
        team, value = subject
        fields: dict[str, Any] = {"id": uuid7.mint(at_us), "episode_id": uuid7.mint(at_us), "received_us": at_us, "team_id": team}
        return {**fields, "end_user": value if unit == "user" else "u", "tags": {"tenant": value} if unit.startswith("tag") else {}}

    spool = Spool(settings.home / "spool", settings)
    for _ in range(300):
        subject = chance.choice([each for each in subjects if each[1] != "nobody"])
        at_us = NOW_US - int((1 + chance.random() * 34) * DAY_US)
        fields = fields_of(subject, at_us)
        spool_exchange(spool, b"", b"", **fields)
        rated_us = min(NOW_US, at_us + int(chance.random() * 5 * DAY_US))
        common = {"received_us": rated_us, "team_id": subject[0]}
        is_withdrawn, helpful, stars = chance.random() < 0.2, chance.random() < 0.5, chance.choice((1, 3.1, -1e300))
        feedback = [
            make_feedback(fields["id"], helpful, **common),
            make_feedback(fields["episode_id"], stars, metric="stars", kind="float", level="episode", **common),
            make_feedback(fields["id"], 4, metric="other", kind="float", **common),
        ]
        spool_feedback(spool, *feedback)
        if is_withdrawn:
            spool_feedback(spool, make_withdrawal(feedback[0]))
        if is_before(rated_us):
            ratings["stars", subject].append(max(Fraction(str(stars)), Fraction(-(10**12))))
            if not is_withdrawn:
                ratings["helpful", subject].append(Fraction(helpful))
    spool_feedback(spool, make_feedback(uuid7.mint(NOW_US - 9 * DAY_US), received_us=NOW_US - 9 * DAY_US))  # on nothing recorded
    spool.close()
    await drain(settings)
    await start_experiment(database, "e", unit, days_ago=STARTED_DAYS_AGO, metrics=["helpful", "error", "stars", "never"])
    spool = Spool(settings.home / "spool", settings)
    for subject, hashed in hashes.items():
        fields = fields_of(subject, NOW_US - 2 * DAY_US)
        spool_exchange(spool, b"", b"", **fields, variant="a", assignment=Assignment("e", 1, "a", 0.5, None, hashed, "minted"))
    spool.close()
    await drain(settings)
    await count(database)

    def mean(values: list[Fraction]) -> Fraction:
        return sum(values, Fraction(0)) / len(values)

    def in_millionths(number: Fraction) -> int:
        return floor(1_000_000 * number + Fraction(1, 2))

    units = {row["unit"]: row["covariates"] for row in await fetch(database, "SELECT unit, covariates FROM experiment_units")}
    means = {(metric, subject): mean(values) for (metric, subject), values in ratings.items() if values}
    for subject, hashed in hashes.items():
        of_metric: dict[str, int] = {}
        for metric in ("helpful", "stars"):
            others = mean([each for (name, _), each in means.items() if name == metric])
            of_metric[metric] = in_millionths(means.get((metric, subject), others))
        assert units[hashed] == [of_metric["helpful"], None, of_metric["stars"], None], subject
    assert len(units) == len(subjects) and len(means) == 2 * sum(value != "nobody" for _, value in subjects)


async def test_units_wait_until_feedback_from_before_is_known(settings: Settings) -> None:
    database = settings.database_url
    spool = Spool(settings.home / "spool", settings)
    for days in (2, 3, 4):
        at_us = NOW_US - days * DAY_US
        fields: dict[str, Any] = {"id": uuid7.mint(at_us), "received_us": at_us, "team_id": TEAM, "end_user": "ann"}
        spool_exchange(spool, b"", b"", **fields)
        spool_feedback(spool, make_feedback(fields["id"], received_us=at_us))
    await start_experiment(database, "e", "user", days_ago=1, metrics=["helpful"], feedback_hours=1)
    await start_experiment(database, "other", "episode", metrics=["latency"])
    at_us = NOW_US - 2 * HOUR_US
    for name, hashed in (("e", draw_enrolment("s", value_unit(TEAM, "ann")).hex()), ("other", "episode")):
        fields = {"id": uuid7.mint(at_us), "received_us": at_us, "team_id": TEAM, "end_user": "ann", "variant": "a"}
        spool_exchange(spool, b"", b"", **fields, assignment=Assignment(name, 1, "a", 0.5, None, hashed, "minted"))
    spool.close()
    await drain(settings)
    states = "SELECT name, state, covariates FROM experiment_units JOIN experiments ON experiments.id = experiment_id ORDER BY name"
    connection = await connect(database)
    try:
        while await take_in_touched(connection):
            pass
        await count_due_units(connection)
        assert [tuple(row) for row in await connection.fetch(states)] == [("e", "open", None), ("other", "complete", None)]
        assert await put_off_due_unit(connection) is None
        assert await scan_pre_period(connection, limit=2)
        process = ForkedProcess(target=_count_for_ever, args=(settings,), daemon=True)
        process.start()  # another one goes on with the scan

        async def is_counted() -> bool:
            (of_user, _) = await connection.fetch(states)
            return of_user["state"] == "complete"

        await wait_until(is_counted)
        _kill(process)
        (of_user, _) = await connection.fetch(states)
        assert of_user["covariates"] == [1_000_000]
        (total,) = await connection.fetch("SELECT events, total FROM pre_period_feedback")
        assert tuple(total) == (3, 3_000_000)
    finally:
        await connection.close()


async def test_sums_follow_costs_that_are_computed_again(settings: Settings) -> None:
    database = settings.database_url
    await start_experiment(database, "episodes", "episode", metrics=METRICS)
    spool_random(settings, [random_exchanges(5, "episodes", "episode")], random.Random(5), 200)
    await drain(settings)
    await count(database)
    await assert_sums_equal_a_scan(database)
    changed = await fetch(database, "SELECT id::text, cost_microusd FROM inferences WHERE not_enrolled IS NULL ORDER BY id LIMIT 50")
    changes = [CostChange(row["id"], row["cost_microusd"], 1_000, None, None) for row in changed]
    connection = await connect(database)
    try:
        async with connection.transaction():
            await apply_cost_changes(connection, SYSTEM, uuid7.mint(), changes, (), RollupSums({}, {}, {}))
    finally:
        await connection.close()
    await count(database)
    await assert_sums_equal_a_scan(database)


async def test_units_and_slices_go_some_time_after_the_end(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forgotten_units, "_DELETED_AT_ONCE", 4)
    database = settings.database_url
    for name in ("old", "recent"):
        await start_experiment(database, name, "episode", metrics=["latency"], slices=["tenant"])
        spool_random(settings, [random_exchanges(7, name, "episode")], random.Random(7), 60)
    await drain(settings)
    await count(database)
    by_name = "SELECT name, {} FROM {} JOIN experiments ON id = experiment_id GROUP BY name ORDER BY name"
    sums, units = by_name.format("count(*), sum(n)::int AS n", "experiment_sums"), by_name.format("count(*)", "experiment_units")
    before, units_before = await fetch(database, sums + " -- before"), await fetch(database, units)
    assert len(before) == len(units_before) == 2
    connection = await connect(database)
    try:
        await connection.execute(
            "UPDATE experiments SET ended_at = now() - make_interval(days => CASE name WHEN 'old' THEN 101 ELSE 99 END)"
        )
        await forgotten_units.delete_old_units(connection)
        assert await fetch(database, sums) == before, "some units are left, whose values may change"
        for _ in range(30):
            await forgotten_units.delete_old_units(connection)
    finally:
        await connection.close()
    assert await fetch(database, units) == units_before[1:]
    slices = "SELECT name, slice <> '' AS is_slice FROM experiment_sums JOIN experiments ON id = experiment_id GROUP BY 1, 2 ORDER BY 1, 2"
    assert [tuple(row) for row in await fetch(database, slices)] == [("old", False), ("recent", False), ("recent", True)]
