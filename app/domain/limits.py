"""Limits: what they count, over which period, and amounts that replace theirs for a time."""

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct

Resource = Literal["requests", "input_tokens", "output_tokens", "tokens", "cost_usd", "concurrency"]


Period = Literal["second", "minute", "hour", "day", "week", "month"]


AfterLoss = Literal["rebuild", "spent", "empty"]


class Limit(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, gc=False):
    """An entry of `[[limits]]`: at most `amount` of a resource, for each subject of a scope, in any second, minute or hour, or calendar
    day, week (from Monday) or month.

    `scope`: dimension (key, team, model, function, tag:NAME, all) to "each" or one name (a key's public part); all of them must match.
    `on_outage`: while Redis is unavailable each worker enforces its share, or requests are refused. `after_loss`: once Redis has lost its
    memory, what was used is read from the records, or counts as all of the amount until the window or period has passed, or as nothing.
    `dry_run`: counted and reported, never refused. `time_zone`: of days, weeks and months.
    """

    name: str
    scope: Mapping[str, str]
    resource: Resource
    amount: float
    per: Period | None = None
    on_outage: Literal["local", "refuse"] = "local"
    after_loss: AfterLoss = "rebuild"
    dry_run: bool = False
    time_zone: str = "UTC"


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
