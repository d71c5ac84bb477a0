"""The settings of a shadow, as [models.NAME.shadow] and [functions.NAME.shadow] of a configuration file."""

from typing import Annotated

from msgspec import Meta, Struct


class ShadowSettings(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A share of the requests is answered again by another variant or model, for comparison. No caller sees that."""

    to: Annotated[str, Meta(description="A variant of the function, or another model.")]
    team: Annotated[str, Meta(description="The team that wants to know, and pays.")]
    share: Annotated[float, Meta(description="The share of requests, from 0 to 1.")]
    max_concurrent: Annotated[int, Meta(description="Shadows at once, over all gateway processes.")] = 4
    per_minute: Annotated[int, Meta(description="Shadows in any minute.")] = 60
    usd_per_day: Annotated[float | None, Meta(description="What they may cost in a day of UTC; null: the team's limits bound it.")] = None
