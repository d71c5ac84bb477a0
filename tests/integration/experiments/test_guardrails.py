"""Guardrails in Postgres: an arm is stopped once, by one process, with its evidence; who puts it back is believed until more is known."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncEngine

from app.domain.errors import BadConfiguration
from app.results.guard.acting import look_at
from app.store.configuration.apply_file import apply
from app.store.configuration.configuration import change_configuration, export, read_current
from app.store.configuration.experiments.acts import Act, page_acts
from app.store.configuration.roll_back import roll_back
from app.store.experiments import edits as experiment_edits
from app.store.experiments.edits import Edit
from app.store.experiments.queries import ListQuery, find_experiment
from app.store.postgres.audit_log import Author, command_author
from app.store.postgres.database import create_database_engine, transaction
from tests.support.experiment_sums import add_units, put_in_force

CONFIGURATION = """
[providers.sandbox]
adapter = "openai"
base_url = "http://127.0.0.1:1"
[metrics]
helpful = { kind = "boolean", level = "inference", optimize = "max" }
[models]
small.targets = [{ provider = "sandbox", model = "small" }]
large.targets = [{ provider = "sandbox", model = "large" }]
[models.fast.experiment]
control = "small"
arms = { small = 1, large = 1 }
"""
GUARDED = CONFIGURATION + '[models.fast.experiment.analysis]\nmetrics = ["helpful", "error"]\nguardrails = { error = 0.01 }\n'
ADAPTIVE = CONFIGURATION + (
    'adaptive = { rule = "thompson", every_minutes = 10, minimum_share = 0.1 }\n'
    '[models.fast.experiment.analysis]\nmetrics = ["helpful", "error"]\n'
)
LEAD_DAYS = 20 / 86_400


class Experiment:
    def __init__(self, url: str) -> None:
        self.url = url
        self.engine: AsyncEngine = create_database_engine(url)

    async def apply(self, content: str) -> str:
        shown: list[str] = []
        done = await apply(self.url, content, prune=False, confirm=lambda difference: not shown.append(difference), wait_s=0)
        return "\n".join([*shown, done])

    async def look(self) -> int:
        async with self.engine.begin() as connection:
            found = await find_experiment(connection, "fast")
            assert found is not None
            return await look_at(connection, found)

    async def change(self, edit: Edit, author: Author | None = None) -> None:
        async with self.engine.begin() as connection:
            await change_configuration(connection, author or command_author(), edit)
        await put_in_force(self.url, "fast", LEAD_DAYS)

    async def acts(self) -> list[Act]:
        async with self.engine.connect() as connection:
            found = await find_experiment(connection, "fast")
            assert found is not None
            return list((await page_acts(connection, found.id, ListQuery(limit=100, after=None, sort="id"))).data)

    async def config(self) -> Any:
        return (await read_current(self.engine)).models["fast"].experiment

    async def versions(self) -> int:
        return (await read_current(self.engine)).experiments["fast"].versions[-1].number

    async def errors(self, large: tuple[int, int], small: tuple[int, int], version: int = 1) -> None:
        for arm, (units, errors) in (("large", large), ("small", small)):
            await add_units(self.url, "fast", arm, units, {"error": errors}, version=version)


@pytest.fixture
async def experiment(database: str) -> AsyncIterator[Experiment]:
    experiment = Experiment(database)
    yield experiment
    await experiment.engine.dispose()


async def started(experiment: Experiment, content: str) -> Experiment:
    await experiment.apply(content)
    await put_in_force(experiment.url, "fast", LEAD_DAYS)
    return experiment


async def test_arm_is_stopped_once_by_one_process_with_its_evidence_in_the_log_and_in_the_audit_log(experiment: Experiment) -> None:
    await started(experiment, GUARDED)
    await experiment.errors((2_000, 40), (2_000, 40))
    assert await experiment.look() == 0
    await experiment.errors((2_000, 300), (2_000, 40))
    assert sorted(await asyncio.gather(*(experiment.look() for _ in range(4)))) == [0, 0, 0, 1]
    assert await experiment.look() == 0
    config = await experiment.config()
    assert (config.arms, config.stopped) == ({"small": 1, "large": 0}, ()) and await experiment.versions() == 2
    [act] = await experiment.acts()
    assert (act.kind, act.arm, act.author) == ("stopped", "large", "narthex guardrails")
    assert "large is stopped, it gets no new units: error is worse than that of small by 0.065" in act.reason
    assert (act.before["arms"]["large"], act.after["arms"]["large"]) == (1, 0)
    [test] = act.evidence["tests"]
    assert test["e_value"] >= test["needed"] == 20 and test["above"] > 0.01 and test["units"] == [4_000, 4_000]
    assert act.evidence["rule"]["alpha_of_each_guardrail_and_arm"] == 0.05
    [stratum] = act.evidence["sums"]["error"]["strata"]
    without_covariate = {"x": 0, "xx": 0, "xy": 0}
    assert stratum["arms"]["large"] == {"n": 4_000, "y": 340, "yy": 340, "zeros": 3_660, "ones": 340, **without_covariate}
    async with transaction(experiment.url) as connection:
        audited = (await connection.execute(text("SELECT author_name, via, name, version FROM audit_log ORDER BY id DESC LIMIT 1"))).one()
    assert tuple(audited) == ("narthex guardrails", "system", "fast", act.version)


async def test_arm_that_fails_outright_serves_nobody_any_longer(experiment: Experiment) -> None:
    await started(experiment, GUARDED)
    await experiment.errors((100, 100), (100, 0))
    assert await experiment.look() == 1
    config = await experiment.config()
    assert (config.arms["large"], config.stopped) == (0, ("large",))
    assert "the control serves all its units" in (await experiment.acts())[0].reason


async def test_arm_that_a_person_puts_back_is_stopped_again_only_by_new_evidence(experiment: Experiment) -> None:
    await started(experiment, GUARDED)
    await experiment.errors((100, 100), (100, 0))
    await experiment.look()
    await experiment.change(experiment_edits.resume_arm("fast", "large", 1.0))
    version = await experiment.versions()
    assert await experiment.look() == 1
    assert [await experiment.look() for _ in range(3)] == [0, 0, 0]
    assert (await experiment.config()).arms["large"] == 1
    # What comes late of earlier versions says nothing new, and what is good now is not held against it.
    await experiment.errors((100, 100), (100, 0), version=1)
    await experiment.errors((500, 2), (500, 2), version=version)
    assert await experiment.look() == 0
    await experiment.errors((500, 400), (500, 2), version=version)
    assert await experiment.look() == 1
    assert [act.kind for act in await experiment.acts()] == ["stopped", "put_back", "stopped"]
    assert (await experiment.acts())[-1].evidence["rule"]["since_version"] == version
    assert (await experiment.config()).arms["large"] == 0


async def test_log_says_who_put_an_arm_back_however_they_did_it(experiment: Experiment) -> None:
    await started(experiment, GUARDED)
    await experiment.errors((100, 100), (100, 0))
    await experiment.look()
    [stopped] = await experiment.acts()
    alice, bob = (Author("user", name, f"{name}@example.com", "rest") for name in ("alice", "bob"))
    # Only the second of them gives it anything.
    await experiment.change(experiment_edits.set_weights("fast", {"small": 3.0}), bob)
    await experiment.change(experiment_edits.resume_arm("fast", "large", 0.5), alice)
    await experiment.change(experiment_edits.set_weights("fast", {"small": 2.0, "large": 0.25}), bob)
    assert await experiment.look() == 1
    put_back = (await experiment.acts())[-1]
    assert (put_back.kind, put_back.author) == ("put_back", "alice@example.com")
    assert put_back.version is not None and stopped.version is not None and put_back.version == stopped.version + 2
    by = f"alice@example.com has put large back by version {put_back.version} of the configuration, at 20"
    assert put_back.reason.startswith(by), put_back.reason
    assert put_back.after["arms"]["large"] == 0.25

    version = await experiment.versions()
    await experiment.errors((100, 100), (100, 0), version=version)
    await experiment.look()
    async with experiment.engine.begin() as connection:
        await roll_back(connection, bob, stopped.version - 1)
    await put_in_force(experiment.url, "fast", LEAD_DAYS)
    assert await experiment.look() == 1
    assert [(act.kind, act.author) for act in await experiment.acts()] == [
        ("stopped", "narthex guardrails"),
        ("put_back", "alice@example.com"),
        ("stopped", "narthex guardrails"),
        ("put_back", "bob@example.com"),
    ]


@pytest.mark.parametrize("unit", ["episode", "user"])
async def test_arm_that_is_not_stopped_is_not_resumed_and_keeps_its_weight(experiment: Experiment, unit: str) -> None:
    await started(experiment, GUARDED.replace("arms =", f'unit = "{unit}"\narms ='))
    for weight in (None, 0.5):
        with pytest.raises(BadConfiguration, match=r"'large' of 'fast' is not stopped: it has the weight 1\. `narthex experiments weights"):
            await experiment.change(experiment_edits.resume_arm("fast", "large", weight))
    await experiment.change(experiment_edits.stop_arm("fast", "large", now=True))
    await experiment.change(experiment_edits.resume_arm("fast", "large", 1.0))
    config = await experiment.config()
    assert (config.arms, config.stopped) == ({"small": 1, "large": 1}, ())


async def test_arm_of_users_is_stopped_and_put_back_without_a_new_version(experiment: Experiment) -> None:
    await started(experiment, GUARDED.replace("arms =", 'unit = "user"\narms ='))
    await experiment.errors((2_000, 340), (2_000, 40))
    assert await experiment.look() == 1
    config = await experiment.config()
    assert (config.arms["large"], config.stopped, await experiment.versions()) == (1, ("large",), 1)
    await experiment.change(experiment_edits.resume_arm("fast", "large", None))
    assert [await experiment.look() for _ in range(3)] == [1, 0, 0]
    await experiment.errors((2_000, 340), (2_000, 40))
    assert await experiment.look() == 1
    assert (await experiment.config()).stopped == ("large",)


async def test_file_from_before_a_stop_does_not_put_the_arm_back_and_says_so(experiment: Experiment) -> None:
    await started(experiment, GUARDED)
    await experiment.errors((100, 100), (100, 0))
    await experiment.look()
    again = await experiment.apply(GUARDED)
    assert again.startswith("Nothing to change.\nmodels.fast.experiment: 'large' stays stopped, as a guardrail has stopped it"), again
    assert "`narthex experiments resume fast large` puts it back" in again
    changed = await experiment.apply(GUARDED.replace("small = 1, large = 1", "small = 2, large = 3"))
    assert "'large' stays stopped" in changed
    config = await experiment.config()
    assert (config.arms, config.stopped) == ({"small": 2, "large": 0}, ("large",))
    exported = await export(experiment.engine)
    assert await experiment.apply(exported) == "Nothing to change."
    await experiment.change(experiment_edits.resume_arm("fast", "large", 1.0))
    await experiment.look()
    assert "stays stopped" not in await experiment.apply(GUARDED)


async def test_weights_follow_the_results_within_their_bounds_at_intervals(experiment: Experiment) -> None:
    await started(experiment, ADAPTIVE)
    assert await experiment.look() == 0
    for arm, helped in (("large", 700), ("small", 500)):
        await add_units(experiment.url, "fast", arm, 1_000, {"helpful": helped})
    assert [await experiment.look() for _ in range(2)] == [1, 0]
    config = await experiment.config()
    assert config.arms == {"small": pytest.approx(0.2), "large": pytest.approx(1.8)} and await experiment.versions() == 2
    [act] = await experiment.acts()
    assert (act.kind, act.author) == ("weights", "narthex adaptive weights")
    assert act.evidence["probability_of_best"]["large"] > 0.99 and act.evidence["units"] == 2_000
    assert "The shares are now large 90.00%, small 10.00%, by thompson from 2000 units of helpful." in act.reason
    # Soon after, and however clear it were, nothing changes.
    await put_in_force(experiment.url, "fast", LEAD_DAYS)
    for arm, helped in (("large", 0), ("small", 9_000)):
        await add_units(experiment.url, "fast", arm, 9_000, {"helpful": helped}, version=2)
    assert await experiment.look() == 0


async def test_file_keeps_the_weights_of_an_adaptive_rule_and_says_so(experiment: Experiment) -> None:
    await started(experiment, ADAPTIVE)
    for arm, helped in (("large", 700), ("small", 500)):
        await add_units(experiment.url, "fast", arm, 1_000, {"helpful": helped})
    await experiment.look()
    weights = (await experiment.config()).arms
    again = await experiment.apply(ADAPTIVE)
    assert "models.fast.experiment: `arms` keeps the weights of the rule thompson" in again
    assert (await experiment.config()).arms == weights
    # Without the rule they are the file's again.
    await experiment.apply(CONFIGURATION + '[models.fast.experiment.analysis]\nmetrics = ["helpful", "error"]\n')
    assert (await experiment.config()).arms == {"small": 1, "large": 1}


async def test_log_cannot_be_changed(experiment: Experiment) -> None:
    await started(experiment, GUARDED)
    await experiment.errors((100, 100), (100, 0))
    await experiment.look()
    for statement in ("UPDATE experiment_acts SET reason = ''", "DELETE FROM experiment_acts", "TRUNCATE experiment_acts"):
        with pytest.raises(DBAPIError, match="append-only"):
            async with transaction(experiment.url) as connection:
                await connection.execute(text(statement))
