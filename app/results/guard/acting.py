"""One look at one experiment: stops arms, notes those that people put back, and changes weights; each with its evidence in the log."""

import asyncio
import logging
from collections.abc import Mapping
from typing import Any

from sqlalchemy.ext.asyncio import AsyncConnection

from app.results.experiments.strata import read_strata
from app.results.guard import evidence
from app.results.guard.adaptive import NoProposal, Proposal, propose_weights
from app.results.guard.current_facts import read_facts
from app.results.guard.facts import ExperimentFacts, Results
from app.results.guard.guardrails import OUTRIGHT_MARGIN, GuardrailTest, Stop, find_stops, results_since
from app.store.configuration.configuration import change_configuration
from app.store.configuration.experiments.acts import (
    Act,
    NewAct,
    add_act,
    count_versions,
    describe_arms,
    last_acts_on_arms,
    last_weights,
    lock_acting,
)
from app.store.configuration.experiments.experiments import MAX_VERSIONS, in_utc
from app.store.configuration.rows import State
from app.store.experiments import edits as experiment_edits
from app.store.experiments.edits import Edit, find_owned
from app.store.experiments.put_back_arms import find_put_back
from app.store.experiments.queries import ExperimentRow
from app.store.postgres.audit_log import Author
from app.store.webhooks.webhook_events import EventType, add_event
from app.store.webhooks.webhooks import read_enabled

logger = logging.getLogger(__name__)

GUARDRAILS = Author("system", None, "narthex guardrails", "system")
ADAPTIVE = Author("system", None, "narthex adaptive weights", "system")
# For guardrails and people, once an adaptive rule has used up the rest.
RESERVED_VERSIONS = 500


async def look_at(connection: AsyncConnection, experiment: ExperimentRow) -> int:
    """Returns how many acts there were, in the caller's transaction; 0 also while another process looks at
    the experiment.
    """
    if not await lock_acting(connection, experiment.id):
        return 0
    facts = await read_facts(connection, experiment)
    if facts is None or not (facts.analysis.guardrails or facts.adaptive):
        return 0
    results = await read_strata(connection, experiment, metrics=sorted({facts.primary, *facts.analysis.guardrails}))
    acting = _Acting(connection, experiment, facts, results)
    # One after the other: weights follow the arms that are left.
    return await acting.guard() or await acting.adapt()


class _Acting:
    def __init__(self, connection: AsyncConnection, experiment: ExperimentRow, facts: ExperimentFacts, results: Results) -> None:
        self._connection = connection
        self._experiment = experiment
        self._facts = facts
        self._results = results

    async def guard(self) -> int:
        facts = self._facts
        if not facts.analysis.guardrails:
            return 0
        last = await last_acts_on_arms(self._connection, facts.id)
        put_back = [act for act in last.values() if act.kind == "stopped" and _is_put_back(facts, act)]
        for act in put_back:
            await self._note_put_back(act)
        if put_back:
            return len(put_back)
        baselines = {arm: evidence.read_baseline(act.evidence) for arm, act in last.items() if act.kind == "put_back"}
        stops = await asyncio.to_thread(find_stops, facts, self._results, baselines)
        made = 0
        for stop in stops:
            baseline = baselines.get(stop.arm)
            results = self._results if baseline is None else results_since(self._results, baseline)
            made += await self._make(
                GUARDRAILS,
                experiment_edits.stop_arm(facts.name, stop.arm, now=stop.now),
                kind="stopped",
                arm=stop.arm,
                reason=_describe_stop(facts, stop),
                found=evidence.of_stop(facts, stop, results, baseline),
            )
        return made

    async def adapt(self) -> int:
        facts = self._facts
        if facts.adaptive is None or not facts.is_settled:
            return 0
        last = await last_weights(self._connection, facts.id)
        if last is not None and last.age_s < 60 * facts.adaptive.every_minutes:
            return 0
        last_units = last.units if last is not None and last.arms == facts.arms else 0
        proposed = await asyncio.to_thread(propose_weights, facts, self._results, last_units)
        if isinstance(proposed, NoProposal):
            return 0
        if await count_versions(self._connection, facts.id) >= MAX_VERSIONS - RESERVED_VERSIONS:
            logger.warning("The experiment %s has nearly as many versions as it may have: its weights adapt no longer.", facts.name)
            return 0
        return await self._make(
            ADAPTIVE,
            experiment_edits.set_weights(facts.name, proposed.weights),
            kind="weights",
            arm=proposed.winner,
            reason=_describe_weights(facts, proposed),
            found=evidence.of_weights(facts, proposed, self._results),
        )

    async def _make(self, author: Author, edit: Edit, *, kind: Any, arm: str | None, reason: str, found: Mapping[str, Any]) -> bool:
        """Returns whether the act was made, which it is not if the experiment has changed since it was looked
        at.
        """
        facts = self._facts

        def edit_if_unchanged(state: State) -> State:
            config = find_owned(state, facts.name).config
            return edit(state) if config.status == "running" and (config.arms, tuple(config.stopped)) == _seen else state

        _seen = (facts.arms, tuple(facts.stopped))
        changed = await change_configuration(self._connection, author, edit_if_unchanged)
        if changed.version is None:
            return False
        before, after = (describe_arms(find_owned(state, facts.name).config) for state in (changed.before, changed.after))
        # What one act has changed the next one has seen.
        self._facts = facts.with_arms(after["arms"], after["stopped"])
        act = NewAct(
            kind=kind, arm=arm, author=author.name, reason=reason, evidence=found, before=before, after=after, version=changed.version
        )
        await add_act(self._connection, facts.id, act)
        if kind == "stopped":
            await notify(self._connection, "experiment.arm_stopped", facts.name, act)
        logger.warning("The experiment %s: %s", facts.name, reason)
        return True

    async def _note_put_back(self, stopped: Act) -> None:
        """Logs that an arm was put back, by whoever did it.

        Their change is in the configuration already; what it means for the guardrail is known only here.
        """
        arm, facts = stopped.arm, self._facts
        assert arm is not None and stopped.version is not None, "a guardrail stops arms by a change"
        now = {"arms": dict(facts.arms), "stopped": list(facts.stopped), "status": "running", "winner": None}
        done = await find_put_back(self._connection, self._experiment, arm, stopped.version)
        by = "Somebody" if done is None else done.author
        when = "" if done is None else f" by version {done.version} of the configuration, at {in_utc(done.at)}"
        reason = (
            f"{by} has put {arm} back{when}. It is judged by units that are complete from now on, and that began in version {facts.version}"
            " or later."
        )
        act = NewAct(
            kind="put_back",
            arm=arm,
            author=GUARDRAILS.name if done is None else done.author,
            reason=reason,
            evidence=evidence.of_put_back(facts, arm, self._results),
            before=stopped.after,
            after=now,
            version=None if done is None else done.version,
        )
        await add_act(self._connection, facts.id, act)


async def notify(connection: AsyncConnection, type: EventType, experiment: str, act: NewAct) -> None:
    """Adds an event for the webhooks of all budgets.

    A webhook that names its budgets is about these alone, and gets none.
    """
    fields = {"experiment": experiment, "arm": act.arm, "author": act.author, "reason": act.reason, "after": dict(act.after)}
    webhook_ids = [webhook.id for webhook in await read_enabled(connection) if webhook.budgets is None]
    await add_event(connection, type, fields, webhook_ids, None)


def _is_put_back(facts: ExperimentFacts, stopped: Act) -> bool:
    """Returns whether the arm has more than it was left with: new units, or its running ones."""
    arm = stopped.arm
    if arm is None or arm not in facts.arms:
        return False
    was_now = arm in stopped.after["stopped"]
    has_weight = facts.arms[arm] > stopped.after["arms"][arm]
    return (was_now and arm not in facts.stopped) or (has_weight and arm not in facts.stopped)


def _describe_stop(facts: ExperimentFacts, stop: Stop) -> str:
    what = "the control serves all its units" if stop.now else "it gets no new units"
    return f"{stop.arm} is stopped, {what}: " + "; ".join(_describe_test(facts, test) for test in stop.tests if test.exceeds_margin) + "."


def _describe_test(facts: ExperimentFacts, test: GuardrailTest) -> str:
    harm, above = (f"{each:.4g}" for each in (test.harm or 0.0, test.above or 0.0))
    text = (
        f"{test.metric} is worse than that of {facts.control} by {harm}, at any time by more than {above} with a probability of"
        f" {1 - test.alpha:.4g}, and the margin is {test.margin:g} ({test.units[0]} and {test.units[1]} units)"
    )
    return f"{text}, it fails outright: by more than {OUTRIGHT_MARGIN:g}" if test.fails_outright else text


def _describe_weights(facts: ExperimentFacts, proposed: Proposal) -> str:
    shares = ", ".join(f"{arm} {share:.2%}" for arm, share in sorted(proposed.shares.items()))
    why = f"from {proposed.units} units of {facts.primary}"
    if proposed.winner is not None:
        return f"{proposed.winner} is the best arm, {why}: {shares}."
    return f"The shares are now {shares}, by {proposed.rule} {why}."
