"""Selections: which inferences become rows of a version of a dataset, and with which output. Stored as they were given."""

import hashlib
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any, Literal, NamedTuple

import msgspec
from msgspec import Meta, Struct
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from app.domain import uuid7
from app.domain.errors import InvalidKeyField
from app.domain.exchange import Outcome
from app.domain.experiments import BUILT_IN_METRICS, MetricConfig
from app.store.postgres import tables
from app.store.records.inference_filter import InferenceFilter

MAX_ROWS = 1_000_000
DEFAULT_ROWS = 100_000
MAX_CONDITIONS = 10

Chosen = Literal["response", "demonstration", "demonstration_or_response"]
_Name = Annotated[str, Meta(min_length=1, max_length=512)]
_Time = Annotated[str, Meta(extra_json_schema={"format": "date-time"})]
_DAY_MS = 86_400_000


class FeedbackCondition(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """A condition on what callers said of an inference, or of its episode by a metric of episodes.

    If several events count, all of a boolean must agree, and the mean of a float decides. A comment or
    demonstration must be there.
    """

    metric: Annotated[str, Meta(min_length=1, max_length=512, description="A metric that is configured, or built in.")]
    value: Annotated[bool | None, Meta(description="Of a boolean.")] = None
    min: Annotated[float | None, Meta(description="Of a float: at least this.")] = None
    max: Annotated[float | None, Meta(description="Of a float: at most this.")] = None


class Selection(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """A choice of inferences. A filter that is left out lets all pass."""

    since: Annotated[_Time | None, Meta(description="Received from then on.")] = None
    until: Annotated[_Time | None, Meta(description="Received before then; null: until the version is created.")] = None
    team: Annotated[_Name | None, Meta(description="Of the team with this name; of a dataset of a team, that one.")] = None
    model: Annotated[_Name | None, Meta(description="Of requests for this model.")] = None
    function: Annotated[_Name | None, Meta(description="Of requests for this function.")] = None
    variant: Annotated[_Name | None, Meta(description="Assigned to this variant or arm.")] = None
    experiment: Annotated[_Name | None, Meta(description="Assigned by this experiment.")] = None
    provider: Annotated[_Name | None, Meta(description="Served by this provider.")] = None
    served_model: Annotated[_Name | None, Meta(description="Served by this model of a provider.")] = None
    route: Annotated[_Name | None, Meta(description="Of this API, such as openai_chat.")] = None
    tags: Annotated[dict[_Name, Annotated[str, Meta(max_length=2048)]], Meta(max_length=10, description="With all of these tags.")] = {}
    outcome: Annotated[Outcome | None, Meta(description="How the request ended; null: any, which takes a demonstration.")] = "answered"
    feedback: Annotated[tuple[FeedbackCondition, ...], Meta(max_length=MAX_CONDITIONS, description="All must hold.")] = ()
    output: Annotated[
        Chosen,
        Meta(
            description="What is to be learned: the response; the newest demonstration that counts, and inferences without one are left"
            " out; or the demonstration where there is one, else the response."
        ),
    ] = "response"
    sample: Annotated[float, Meta(gt=0, le=1, description="The share of what matches that is taken, by a hash of the id.")] | None = None
    seed: Annotated[int, Meta(ge=0, le=2**31 - 1, description="Of the sample: the same seed takes the same inferences.")] = 0
    max_rows: Annotated[int, Meta(ge=1, le=MAX_ROWS, description="Most rows; the newest inferences come first.")] = DEFAULT_ROWS
    validation: Annotated[
        float,
        Meta(ge=0, lt=1, description="The share of episodes whose rows are in the split `validation`; the others are in `train`."),
    ] = 0.0

    def filter(self, team_id: str | None) -> InferenceFilter:
        """The filter for what is selected. `team_id` is that of the dataset's team; None means that it has none."""
        return InferenceFilter(
            model=self.model,
            team_id=team_id,
            team=self.team if team_id is None else None,
            outcome=self.outcome,
            since_ms=_to_ms(self.since),
            until_ms=_to_ms(self.until),
            tag=next(iter(self.tags.items()), None),
            provider=self.provider,
            served_model=self.served_model,
            route=self.route,
            function=self.function,
            variant=self.variant,
            experiment=self.experiment,
            origin="caller",  # not what the gateway itself made of callers' requests
        )

    def takes(self, row: Mapping[str, Any]) -> bool:
        """Whether an inference that the filter matches has the other tags, and is of the sample."""
        tags: Mapping[str, str] = row["tags"] or {}
        if any(tags.get(name) != value for name, value in self.tags.items()):
            return False
        return self.sample is None or share_of(f"sample:{self.seed}", row["id"]) < self.sample

    def split(self, dataset_id: str, episode_id: str) -> str | None:
        """Returns the split that rows of an episode are in; None if there are no splits.

        It depends on the episode, so that no conversation is in both, and is the same in every version of a
        dataset.
        """
        if not self.validation:
            return None
        return "validation" if share_of(f"split:{dataset_id}", episode_id) < self.validation else "train"


class CheckedCondition(NamedTuple):
    condition: FeedbackCondition
    metric: MetricConfig

    def holds(self, number: float | None) -> bool:
        """Whether `number` meets the condition. It is the mean of what counts, 0 for a comment; None means that there is nothing that
        counts.
        """
        if number is None:
            return False
        wanted = self.condition
        if self.metric.kind == "boolean":
            return number == (1 if wanted.value else 0)
        return (wanted.min is None or number >= wanted.min) and (wanted.max is None or number <= wanted.max)


def share_of(salt: str, id: str) -> float:
    """A number from 0 to below 1 that looks random and is always the same."""
    return int.from_bytes(hashlib.blake2b(f"{salt}:{id.lower()}".encode(), digest_size=6).digest()) / 2**48


async def check_conditions(connection: AsyncConnection, conditions: Sequence[FeedbackCondition]) -> list[CheckedCondition]:
    """Returns the conditions with their metrics, as they are configured. Raises InvalidKeyField."""
    if not conditions:
        return []
    rows = await connection.execute(tables.metrics.select())
    metrics = {**BUILT_IN_METRICS, **{row.name: msgspec.convert(row.config, MetricConfig) for row in rows}}
    checked: list[CheckedCondition] = []
    for at, each in enumerate(conditions):
        field = f"feedback[{at}]"
        metric = metrics.get(each.metric)
        if metric is None:
            known = ", ".join(sorted(metrics)[:50])
            raise InvalidKeyField(f"{field}.metric", f"There is no metric {each.metric!r:.100}. The metrics are: {known}.")
        bounds = each.min is not None or each.max is not None
        match metric.kind:
            case "boolean" if each.value is None or bounds:
                raise InvalidKeyField(f"{field}.value", f"{each.metric} is a boolean: give `value`, true or false, and no bounds.")
            case "float" if each.value is not None or not bounds:
                raise InvalidKeyField(f"{field}.min", f"{each.metric} is a float: give `min`, `max` or both, and no `value`.")
            case "comment" | "demonstration" if each.value is not None or bounds:
                raise InvalidKeyField(f"{field}.metric", f"{each.metric} is a {metric.kind}: it is there or not, without value and bounds.")
            case _:
                checked.append(CheckedCondition(each, metric))
    return checked


# Feedback comes after its inference has begun, but for clocks that differ; on an episode, at any time.
_MEANS = text("""
    SELECT team_id::text, target_id::text, metric, coalesce(avg(number), 0)::float8 AS mean FROM feedback
    WHERE level = :level AND target_id = any(CAST(:targets AS uuid[])) AND metric = any(CAST(:metrics AS text[])) AND is_current
        AND content <> 'erased' AND id >= CAST(:first AS uuid)
    GROUP BY 1, 2, 3
""")


async def matching_feedback(
    connection: AsyncConnection, conditions: Sequence[CheckedCondition], rows: Sequence[Mapping[str, Any]]
) -> list[Mapping[str, Any]]:
    """Those of these inferences for which all conditions hold."""
    left = list(rows)
    for level, column in (("inference", "id"), ("episode", "episode_id")):
        of_level = [each for each in conditions if each.metric.level == level]
        if not of_level or not left:
            continue
        oldest_ms = min(uuid7.created_ms(row["id"]) for row in left) - _DAY_MS if level == "inference" else 0
        values = {
            "level": level,
            "targets": list({str(row[column]) for row in left}),
            "metrics": list({each.condition.metric for each in of_level}),
            "first": uuid7.lowest_at(oldest_ms),
        }
        means = {(team, target, metric): mean for team, target, metric, mean in await connection.execute(_MEANS, values)}
        left = [
            row
            for row in left
            if all(each.holds(means.get((str(row["team_id"]), str(row[column]), each.condition.metric))) for each in of_level)
        ]
    return left


def _to_ms(at: str | None) -> int | None:
    return None if at is None else int(datetime.fromisoformat(at).timestamp() * 1000)
