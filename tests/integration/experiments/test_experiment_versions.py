"""Experiments in Postgres: versions take effect a lead after their commit, and what a start has frozen stays."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta

import pytest
from sqlalchemy import text

from app.domain.errors import BadConfiguration
from app.domain.experiments import EXPERIMENT_LEAD_MS, Experiment
from app.store.configuration.apply_file import apply, merge_file
from app.store.configuration.config_file import parse_config_file
from app.store.configuration.configuration import change_configuration, read_current
from app.store.configuration.experiments.experiments import WRITTEN_LEAD
from app.store.configuration.snapshots import build_snapshot
from app.store.experiments import edits as experiment_edits
from app.store.postgres.audit_log import SYSTEM
from app.store.postgres.database import create_database_engine, transaction

CLOCK_MS = "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::float8"
MODELS = """
[providers.sandbox]
adapter = "openai"
base_url = "http://127.0.0.1:1"
[models]
small.targets = [{ provider = "sandbox", model = "small" }]
large.targets = [{ provider = "sandbox", model = "large" }]
"""


def split(settings: str, arms: str = "{ small = 1, large = 1 }", name: str = "fast") -> str:
    return f"{MODELS}\n[models.{name}.experiment]\narms = {arms}\n{settings}\n"


async def store(database: str, content: str, *, prune: bool = False) -> str:
    return await apply(database, content, prune=prune, confirm=lambda _: True, wait_s=0)


async def running(database: str, name: str = "fast") -> Experiment:
    engine = create_database_engine(database)
    try:
        return (await read_current(engine)).experiments[name]
    finally:
        await engine.dispose()


async def rows(database: str, query: str) -> Sequence[tuple[object, ...]]:
    async with transaction(database) as connection:
        return [tuple(row) for row in await connection.execute(text(query))]


async def test_start_makes_the_first_version_and_a_random_salt(database: str) -> None:
    await store(database, split('control = "small"\nenrolment = 0.25'))
    await store(database, split('control = "small"\nenrolment = 0.25', name="other"))
    first, other = await running(database), await running(database, "other")
    assert len(first.salt) == 32 and first.salt != other.salt
    assert (first.name, first.unit, first.control) == ("fast", "episode", "small")
    assert [(each.number, each.arms, each.enrolment) for each in first.versions] == [(1, {"small": 1, "large": 1}, 0.25)]


async def test_each_change_of_weights_or_enrolment_is_a_version_and_others_are_none(database: str) -> None:
    await store(database, split(""))
    await store(database, split("", "{ small = 1, large = 3 }"))
    await store(database, split("enrolment = 0.5", "{ small = 1, large = 3 }"))
    await store(database, split("enrolment = 0.5\nstopped = ['small']", "{ small = 1, large = 3 }"))
    experiment = await running(database)
    assert [(each.number, each.arms["large"], each.enrolment) for each in experiment.versions] == [(1, 1, 1), (2, 3, 1), (3, 3, 0.5)]
    assert sorted(each.effective_ms for each in experiment.versions) == [each.effective_ms for each in experiment.versions]


async def test_version_takes_effect_a_lead_after_its_commit_however_long_its_transaction_took(database: str) -> None:
    await store(database, split(""))
    file = parse_config_file(split("", "{ small = 1, large = 2 }"))
    async with transaction(database) as connection:
        await change_configuration(connection, SYSTEM, lambda state: merge_file(state, file, prune=False))
        await asyncio.sleep(1.5)
        before_commit_ms = (await connection.execute(text(CLOCK_MS))).scalar_one()
    written_lead_ms = WRITTEN_LEAD / timedelta(milliseconds=1)
    lead_ms = (await running(database)).versions[-1].effective_ms - before_commit_ms
    assert lead_ms > written_lead_ms - 1, "it was moved on, as the transaction had taken more than a second"
    assert written_lead_ms - 1_000 > EXPERIMENT_LEAD_MS


async def test_ramp_is_planned_as_versions_and_a_change_supersedes_the_rest(database: str) -> None:
    ramp = "enrolment = 0.1\nramp = [{ after_hours = 24, enrolment = 0.5 }, { after_hours = 48, enrolment = 1 }]"
    await store(database, split(ramp))
    planned = (await running(database)).versions
    hours = [(each.effective_ms - planned[0].effective_ms) / 3_600_000 for each in planned]
    assert [each.enrolment for each in planned] == [0.1, 0.5, 1] and hours == [0, 24, 48]
    await store(database, split(ramp, "{ small = 1, large = 2 }"))
    changed = (await running(database)).versions
    assert [(each.number, each.enrolment, each.arms["large"]) for each in changed] == [(1, 0.1, 1), (4, 0.1, 2), (5, 0.5, 2), (6, 1, 2)]
    assert [each.effective_ms for each in changed[2:]] == [each.effective_ms for each in planned[1:]]
    await store(database, split("enrolment = 0.3", "{ small = 1, large = 2 }"))
    assert [(each.number, each.enrolment) for each in (await running(database)).versions] == [(1, 0.1), (4, 0.1), (7, 0.3)]
    assert len(await rows(database, "SELECT * FROM experiment_versions")) == 7


@pytest.mark.parametrize("unit", ["user", "team", "tag:tenant"])
async def test_weights_of_units_without_a_birth_time_change_only_with_the_salt(database: str, unit: str) -> None:
    await store(database, split(f'unit = "{unit}"'))
    before = await running(database)
    with pytest.raises(BadConfiguration, match=r"models\.fast\.experiment\.arms: the unit is .*Raise `enrolment` instead"):
        await store(database, split(f'unit = "{unit}"', "{ small = 1, large = 2 }"))
    await store(database, split(f'unit = "{unit}"\nenrolment = 0.5'))
    assert [each.number for each in (await running(database)).versions] == [1, 2]
    await store(database, split(f'unit = "{unit}"\nsalt = "second"', "{ small = 1, large = 2 }"))
    after = await running(database)
    assert after.salt == "second" != before.salt and [each.number for each in after.versions] == [3]
    ended = "SELECT salt FROM experiments WHERE ended_at IS NOT NULL"
    assert await rows(database, ended) == [(before.salt,)]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (split("", "{ small = 1 }"), r"fast\.experiment\.arms: the start of 'fast' froze it as \[\"large\",\"small\"\]"),
        (
            split("", "{ small = 1, large = 1, other = 1 }") + 'models.other.targets = [{ provider = "sandbox", model = "x" }]',
            "arms: the start",
        ),
        (split('control = "small"'), r"experiment\.control: the start"),
        (split('unit = "user"'), r"experiment\.unit: the start"),
        (split("holdout = 0.1"), r"experiment\.holdout: the start"),
        (split('layer = "l"\nslots = [0, 10]'), r"experiment\.layer: the start"),
        (split('eligible = { team = ["legal"] }'), r"experiment\.eligible: the start"),
        (
            split("analysis = { alpha = 0.1 }"),
            r"experiment\.analysis: the start of 'fast' froze it as {}, so it cannot become {\"alpha\":0.1}",
        ),
        (split('name = "slow"'), r"experiment\.name: the start"),
        (split('salt = "other"'), r"experiment\.salt: another salt would move running episodes"),
        (split('status = "draft"'), r"experiment\.status: the experiment 'fast' is running and can only be ended"),
        (MODELS + '[models.fast]\ntargets = [{ provider = "sandbox", model = "x" }]', "is running, so it cannot be removed"),
    ],
)
async def test_what_the_start_froze_is_kept(database: str, content: str, message: str) -> None:
    await store(database, split('control = "large"'))
    before = await running(database)
    with pytest.raises(BadConfiguration, match=message):
        await store(database, content.replace("models.other.targets", "[models.other]\ntargets"))
    assert (await running(database)).versions == before.versions


async def test_metric_that_a_running_experiment_is_read_by_keeps_its_meaning(database: str) -> None:
    def with_metric(kind: str, optimize: str, status: str = "running") -> str:
        metric = f'[metrics.helpful]\nkind = "{kind}"\nlevel = "inference"\noptimize = "{optimize}"\n'
        return split(f'status = "{status}"\nanalysis = {{ metrics = ["helpful"] }}') + metric

    await store(database, with_metric("boolean", "max"))
    for kind, optimize in (("boolean", "min"), ("float", "max")):
        with pytest.raises(BadConfiguration, match=r"metrics\.helpful: the experiment 'fast' is running and is read by it"):
            await store(database, with_metric(kind, optimize))
    await store(database, with_metric("boolean", "max") + 'description = "Whether it helped"\n')
    await store(database, with_metric("boolean", "min", "ended"))


async def test_models_of_a_running_experiment_cannot_be_removed(database: str) -> None:
    await store(database, split(""))
    with pytest.raises(BadConfiguration, match="'fast' is running, so it cannot be removed"):
        await store(database, MODELS, prune=True)
    with pytest.raises(BadConfiguration, match="there is no 'large'"):
        await store(database, split("").replace('large.targets = [{ provider = "sandbox", model = "large" }]', ""), prune=True)


async def test_draft_assigns_nobody_until_it_is_started(database: str) -> None:
    await store(database, split('status = "draft"'))
    await store(database, split('status = "draft"\nunit = "user"\nname = "draft"', "{ small = 1, large = 2 }"))
    found = await rows(database, "SELECT name, definition->>'unit', started_at FROM experiments")
    assert found == [("draft", "user", None)]
    await store(database, split('unit = "user"\nname = "draft"', "{ small = 1, large = 2 }"))
    assert (await running(database)).name == "draft" and len(await rows(database, "SELECT * FROM experiments")) == 1


async def test_ended_experiment_starts_again_only_as_another(database: str) -> None:
    await store(database, split('salt = "s"'))
    await store(database, split('salt = "s"\nstatus = "ended"\nwinner = "large"'))
    assert await rows(database, "SELECT salt, winner FROM experiments WHERE ended_at IS NOT NULL") == [("s", "large")]
    with pytest.raises(BadConfiguration, match=r"fast\.experiment: the experiment 'fast' has ended at .*, or a new `salt`"):
        await store(database, split('salt = "s"'))
    # An edit has seen that it has ended, and still needs another salt.
    with pytest.raises(BadConfiguration, match=r"fast\.experiment\.salt: an experiment 'fast' with this salt has ended"):
        async with transaction(database) as connection:
            await change_configuration(connection, SYSTEM, experiment_edits.start("fast"))
    await store(database, split('salt = "t"', "{ small = 3, large = 1 }"))
    assert [each.number for each in (await running(database)).versions] == [2]


@pytest.mark.parametrize("winner", [None, "large"])
async def test_file_from_before_the_end_starts_nothing_and_says_how_to_go_on(database: str, winner: str | None) -> None:
    async def refused(content: str) -> str:
        state = "SELECT count(*) FROM experiments UNION ALL SELECT max(version) FROM configuration_versions"
        before = await rows(database, state)
        with pytest.raises(BadConfiguration) as refusal:
            await store(database, content)
        assert await rows(database, state) == before
        return str(refusal.value)

    async def change(edit: experiment_edits.Edit) -> None:
        async with transaction(database) as connection:
            await change_configuration(connection, SYSTEM, edit)

    file, other = split('control = "small"'), '[providers.more]\nadapter = "openai"\nbase_url = "http://127.0.0.1:2"\n'
    await store(database, file)
    await change(experiment_edits.end("fast", winner))
    said = await refused(other + file)
    ended = " with the winner 'large'" if winner else ""
    kept = ' and winner = "large"' if winner else ""
    assert f' UTC{ended}, and this file would start it again. If the file is older, write status = "ended"{kept} into it' in said
    assert "`narthex experiments start fast` starts it again as it is." in said
    assert "would make a draft of it" in await refused(split('control = "small"\nstatus = "draft"'))
    medium = '[models.medium]\ntargets = [{ provider = "sandbox", model = "medium" }]\n'
    # Also with other arms: an experiment before it may have had these.
    assert "has ended" in await refused(split('control = "small"', "{ small = 1, medium = 1 }") + medium)
    # What the message says goes on.
    winning = f'winner = "{winner}"' if winner else ""
    assert await store(database, split(f'control = "small"\nstatus = "ended"\n{winning}')) == "Nothing to change."
    await store(database, split('control = "small"\nname = "fast-2"'))
    assert (await running(database)).name == "fast-2"
    await change(experiment_edits.end("fast-2", None))
    assert "the experiment 'fast' has ended" in await refused(file), "an older one of the same model"
    await change(experiment_edits.start("fast-2"))
    assert await store(database, split('control = "small"\nname = "fast-2"')) == "Nothing to change."
    await change(experiment_edits.end("fast-2", None))
    await store(database, split('control = "small"\nname = "fast-2"\nsalt = "new"\nstatus = "draft"'))
    await store(database, split('control = "small"\nname = "fast-2"\nsalt = "new"'))
    await change(experiment_edits.end("fast-2", None))
    # Also once the configuration has forgotten it.
    await store(database, MODELS + 'fast.targets = [{ provider = "sandbox", model = "large" }]')
    gone = await refused(split('control = "small"\nname = "fast-2"\nsalt = "new"'))
    assert "has ended" in gone and "experiments start" not in gone


async def test_running_experiment_cannot_move_to_a_function_of_the_same_name_and_a_draft_can(database: str) -> None:
    moved = """
    [functions.fast.variants]
    small = { model = "small" }
    large = { model = "large" }
    [functions.fast.experiment]
    arms = { small = 1, large = 1 }
    control = "large"
    """
    await store(database, split('control = "large"'))
    with pytest.raises(
        BadConfiguration, match=r"functions\.fast\.experiment: the experiment 'fast' is running at models\.fast\.experiment"
    ):
        await store(database, MODELS + moved, prune=True)
    await store(database, split('control = "large"\nstatus = "ended"'))
    await store(database, MODELS + moved, prune=True)
    with pytest.raises(BadConfiguration, match=r"is running at functions\.fast\.experiment and cannot move"):
        await store(database, split('control = "large"') + "[functions]", prune=True)
    await store(
        database, MODELS + "[functions]" + split('control = "large"\nstatus = "draft"', name="later").removeprefix(MODELS), prune=False
    )
    await store(database, MODELS + moved.replace("fast", "later") + 'status = "draft"' + moved, prune=True)
    of_draft = "SELECT section, owner FROM experiments WHERE started_at IS NULL"
    assert await rows(database, of_draft) == [("functions", "later")]


async def test_salt_of_another_experiment_is_refused_at_the_start_alone(database: str) -> None:
    await store(database, split('salt = "s"'))
    for first in ("", 'status = "ended"'):
        await store(database, split(f'salt = "s"\n{first}'))
        with pytest.raises(BadConfiguration, match=r"other\.experiment\.salt: the experiment 'fast' has this salt, or had it"):
            await store(database, split('salt = "s"', name="other"))
    with pytest.raises(BadConfiguration, match=r"\.salt: the experiment 'one' has this salt, or had it"):
        await store(database, split('salt = "t"', name="one") + split('salt = "t"', name="two").removeprefix(MODELS))
    # As it may be in a database of before: what runs with the salt of another goes on, unmoved.
    await store(database, split('salt = "u"', name="other"))
    async with transaction(database) as connection:
        await connection.execute(text("UPDATE experiments SET salt = 's' WHERE name = 'other'"))
    await store(database, split('salt = "s"\nenrolment = 0.5', name="other"))
    experiment = await running(database, "other")
    assert (experiment.salt, [each.enrolment for each in experiment.versions]) == ("s", [1, 0.5])


async def test_experiments_do_not_change_the_hash_beyond_what_the_configuration_says(database: str) -> None:
    await store(database, split(""))
    engine = create_database_engine(database)
    try:
        snapshot = await read_current(engine)
    finally:
        await engine.dispose()
    file = parse_config_file(split(""))
    assert snapshot.hash == build_snapshot(1, file.providers or {}, file.models or {}).hash
