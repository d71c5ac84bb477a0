"""Prices of providers and of GPU time."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, cast, get_args

from msgspec import NODEFAULT, Meta, Struct

# US dollars for a million tokens. None: what a token costs of which these are a part.
_PartPrice = Annotated[float | None, Meta(description="For a million tokens; null: the price of which it is a part.")]


_LongCachePrice = Annotated[
    float | None,
    Meta(description="As `cache_write`, of what is kept so long; null: as `input`, and not known where `cache_write` is set."),
]


class TokenPrices(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, gc=False, kw_only=True):
    """The prices of tokens by kind. Price and PriceStep have these fields."""

    input: float | None = None
    output: float | None = None
    cached_input: _PartPrice = None
    # of what is kept for as long as the host keeps it unless it is asked for longer (Anthropic: 5 minutes, OpenAI: 30)
    cache_write: _PartPrice = None
    cache_write_hour: _LongCachePrice = None
    cache_write_12_hours: _LongCachePrice = None
    audio_input: _PartPrice = None
    audio_output: _PartPrice = None
    image_input: _PartPrice = None


class PriceStep(TokenPrices, frozen=True, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """The prices of a whole request with more than `above` input tokens, instead of those of the row."""

    # Required here: an override without a default would be an error to the type checker.
    input: float = cast(Any, NODEFAULT)
    output: float = cast(Any, NODEFAULT)
    above: Annotated[int, Meta(description="Tokens of the input, cached ones included.")]


Weekday = Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"]


WEEKDAYS: tuple[Weekday, ...] = get_args(Weekday)


class PriceHours(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, gc=False):
    """Hours at which the prices of tokens are multiplied by `factor`, by when the request came."""

    factor: Annotated[float, Meta(description="Of all prices of tokens of the row, its steps included.")]
    start: Annotated[str, Meta(description="UTC, as 16:30.")] = "00:00"
    end: Annotated[str, Meta(description="UTC, later than `start`; 24:00 is the end of the day.")] = "24:00"
    days: Annotated[tuple[Weekday, ...], Meta(description="Days of the week in UTC: mon, tue, wed, thu, fri, sat, sun.")] = WEEKDAYS


class GpuPrice(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, gc=False):
    """The price of an engine that you run: each request costs its time, at its share of the GPUs."""

    usd_per_hour: Annotated[float, Meta(description="Of one GPU.")]
    gpus: Annotated[float, Meta(description="Of one endpoint.")] = 1.0
    concurrency: Annotated[float, Meta(description="Requests that an endpoint serves at once, on average while it serves any.")] = 1.0
    tokens_per_s: Annotated[
        float, Meta(description="That one request writes, at least; what limits reserve is by it, and nothing else.")
    ] = 20.0


class PriceFields(TokenPrices, frozen=True, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """The fields of a price that can be set, in US dollars for a million tokens.

    `input` and `output`, or `gpu`, are required.
    """

    tiers: Annotated[
        Mapping[str, float],
        Meta(description="Factors by how it was served: batch, flex, priority, fast, ultrafast. Others' price is unknown."),
    ] = {}
    source: Annotated[str | None, Meta(description="Where it was read.")] = None
    steps: Annotated[tuple[PriceStep, ...], Meta(description="Prices of long requests, by growing `above`.")] = ()
    gpu: GpuPrice | None = None
    hours: Annotated[
        tuple[PriceHours, ...], Meta(description="Factors by the time of the request; the first that matches. No match: 1.")
    ] = ()
    regions: Annotated[
        Mapping[str, float], Meta(description="Factors by where it was served, as the host names it (Anthropic: us). Others: 1.")
    ] = {}
    tool_uses: Annotated[
        Mapping[str, float],
        Meta(description="US dollars for 1,000 uses of what the host bills by the use, as web_search. Others: 0."),
    ] = {}


class Price(PriceFields, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The price of a provider's model: an entry of `[[prices]]`."""

    provider: str
    model: str
    since: str | None = None  # the first day (UTC, ISO 8601) on which it holds; None: always
