"""Limits: what they count, over which period, and amounts that replace theirs for a time."""

from collections.abc import Mapping
from typing import Annotated, Literal

from msgspec import Meta, Struct

Resource = Literal["requests", "input_tokens", "output_tokens", "tokens", "cost_usd", "concurrency"]


Period = Literal["second", "minute", "hour", "day", "week", "month"]


AfterLoss = Literal["rebuild", "spent", "empty"]


class Limit(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, gc=False):
    """An entry of `[[limits]]`: at most `amount` of a resource, for each subject of a scope, in any second, minute or hour, or calendar
    day, week (from Monday) or month.
    """

    name: str
    scope: Annotated[
        Mapping[str, str],
        Meta(
            description="What it applies to: key (by its public part), team, model, function, tag:NAME or all, each with a name or"
            ' "each"; all must match.'
        ),
    ]
    resource: Annotated[Resource, Meta(description="What is counted. A budget is a limit of cost_usd.")]
    amount: Annotated[float, Meta(description="The most of it in any period.")]
    per: Annotated[Period | None, Meta(description="Null for concurrency only. From days on, by the calendar; weeks from Monday.")] = None
    on_outage: Annotated[
        Literal["local", "refuse"],
        Meta(description="While Redis is unavailable each worker enforces its share (local), or requests are refused."),
    ] = "local"
    after_loss: Annotated[
        AfterLoss,
        Meta(
            description="Once Redis has lost its memory, what was used is read from the records (rebuild), or counts as all of the amount"
            " until the window or period has passed (spent), or as nothing (empty)."
        ),
    ] = "rebuild"
    dry_run: Annotated[bool, Meta(description="Counted and reported, never refused.")] = False
    time_zone: Annotated[str, Meta(description="Of days, weeks and months.")] = "UTC"


class LimitOverride(Struct, frozen=True):
    """Another amount of a limit for one subject, until a time."""

    id: str
    limit: str
    subject: Mapping[str, str]  # values of the dimensions that are "each"
    amount: float
    until_ms: int  # Unix time
    counts: tuple[Resource, Period | None]  # the resource and period of the limit when it was made; it is of no effect on a limit of others


class CountedAs(Struct, frozen=True):
    """The names under which keys and limits are counted, where these are not their own.

    `keys` maps the public part of a key in a scope to that of the first of the keys that it replaces.
    `limits` maps the name of a limit to the name that it had before it was renamed. What has no entry is
    counted under its own name.
    """

    keys: Mapping[str, str] = {}
    limits: Mapping[str, str] = {}
