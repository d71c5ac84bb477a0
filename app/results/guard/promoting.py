"""Promotion of an arm by a person: checked by what is stored now, then made the winner, with the evidence in the log."""

import asyncio
from datetime import UTC, datetime

from msgspec import Struct
from sqlalchemy.ext.asyncio import AsyncConnection

from app.domain.errors import BadConfiguration, UnknownExperiment
from app.results.experiments.strata import probabilities_of, read_strata
from app.results.guard import evidence
from app.results.guard.acting import notify
from app.results.guard.current_facts import read_facts
from app.results.guard.facts import ExperimentFacts, Results
from app.results.guard.promotion import Promotion, check_promotion
from app.results.statistics.sample_ratio import SampleRatio, sample_ratio
from app.store.configuration.configuration import Changed, change_configuration
from app.store.configuration.experiments.acts import NewAct, add_act, describe_arms
from app.store.configuration.rows import lock_configuration
from app.store.experiment_units.sums import read_counts
from app.store.experiments import edits as experiment_edits
from app.store.experiments.edits import find_owned
from app.store.experiments.queries import ExperimentRow, find_experiment, find_first_effect, read_weights
from app.store.postgres.audit_log import Author

MAX_REASON_CHARACTERS = 1000


class PromotionRefused(Exception):
    """Conditions are not met; the message lists them."""

    def __init__(self, name: str, promotion: Promotion) -> None:
        self.promotion = promotion
        lines = [f"{promotion.arm!r} of {name!r} is not promoted:", *(f"  not met: {each.text}" for each in promotion.unmet)]
        super().__init__("\n".join([*lines, *(f"  met:     {each.text}" for each in promotion.conditions if each.met)]))


class Promoted(Struct, frozen=True):
    changed: Changed
    promotion: Promotion


async def promote(
    connection: AsyncConnection, author: Author, name: str, arm: str, *, reason: str | None = None, output_tokens: int | None = None
) -> Promoted:
    """Promotes an arm, in the caller's transaction.

    `reason` is that of whoever promotes it although conditions are not met; if it is None, that is refused.
    Raises PromotionRefused, BadConfiguration, UnknownExperiment.
    """
    await lock_configuration(connection)
    experiment = await find_experiment(connection, name)
    if experiment is None:
        raise UnknownExperiment(f"There is no experiment {name!r:.100}.")
    facts = await read_facts(connection, experiment)
    if facts is None:
        if experiment.status != "running":
            raise BadConfiguration(f"The experiment {name!r} is not running: it is {experiment.status}.")
        shown = f"`narthex experiments show {name}` says from when it is"
        raise BadConfiguration(f"The newest version of the experiment {name!r} is not in force yet; {shown}. Promote the arm after that.")
    results = await read_strata(connection, experiment, metrics=sorted({facts.primary, *facts.analysis.guardrails}))
    days, ratio = await _days_since_start(connection, experiment), await _assigned_ratio(connection, experiment)
    promotion = await asyncio.to_thread(check_promotion, facts, results, arm, days=days, assigned=ratio)
    if promotion.unmet and reason is None:
        raise PromotionRefused(name, promotion)
    changed = await change_configuration(connection, author, experiment_edits.end(name, arm), output_tokens=output_tokens)
    await _log(connection, author, facts, results, promotion, changed, reason if promotion.unmet else None)
    return Promoted(changed, promotion)


async def _log(
    connection: AsyncConnection,
    author: Author,
    facts: ExperimentFacts,
    results: Results,
    promotion: Promotion,
    changed: Changed,
    forced: str | None,
) -> None:
    if forced is None:
        text = f"{promotion.arm} is promoted: all {len(promotion.conditions)} conditions are met."
    else:
        unmet = " ".join(condition.text for condition in promotion.unmet)
        text = f"{promotion.arm} is promoted although {len(promotion.unmet)} conditions are not met, because: {forced!r}. {unmet}"
    before, after = (describe_arms(find_owned(state, facts.name).config) for state in (changed.before, changed.after))
    act = NewAct(
        kind="promoted",
        arm=promotion.arm,
        author=author.name,
        reason=text,
        evidence=evidence.of_promotion(facts, promotion, results, forced),
        before=before,
        after=after,
        version=changed.version,
    )
    await add_act(connection, facts.id, act)
    await notify(connection, "experiment.promoted", facts.name, act)


async def _days_since_start(connection: AsyncConnection, experiment: ExperimentRow) -> float:
    first = await find_first_effect(connection, experiment.id)
    return 0.0 if first is None else max(0.0, (datetime.now(UTC) - first).total_seconds() / 86_400)


async def _assigned_ratio(connection: AsyncConnection, experiment: ExperimentRow) -> SampleRatio | None:
    """Returns the sample ratio of all units that take part, complete or not, or None if there are none."""
    weights = await read_weights(connection, experiment.id)
    counted: dict[tuple[int, str], dict[str, int]] = {}
    for key, counts in await read_counts(connection, experiment.id):
        of_arms = counted.setdefault((key.version, key.episode_kind), {})
        of_arms[key.arm] = of_arms.get(key.arm, 0) + counts["units"]
    if not any(any(arms.values()) for arms in counted.values()):
        return None
    return sample_ratio([(arms, probabilities_of(experiment, weights, version, kind)) for (version, kind), arms in counted.items()])
