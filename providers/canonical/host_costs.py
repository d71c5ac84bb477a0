"""The cost that a host reports in its usage, beside the tokens."""

import msgspec
from msgspec import Raw, Struct

from providers.canonical.raw_json import DECODE_ERRORS, NULL

_MICROUSD_PER_USD = 1_000_000
_TICKS_PER_MICROUSD = 10_000
_MAX_USD = 1_000_000.0  # of one request; more is no cost


class _CostDetails(Struct):
    """OpenRouter's `cost_details`, which say what the host behind it asks."""

    upstream_inference_cost: float | None = None


class _TotalCost(Struct):
    """Perplexity's `cost`."""

    total_cost: float


_cost_decoder = msgspec.json.Decoder(float | _TotalCost | None)
_details_decoder = msgspec.json.Decoder(_CostDetails | None)
_ticks_decoder = msgspec.json.Decoder(int | None)


def read_host_cost(cost: Raw, ticks: Raw = NULL, details: Raw = NULL, *, is_byok: bool | None = None) -> int | None:
    """The cost in millionths of a US dollar, rounded half up; None: none was reported, or in another form.

    `cost` is OpenRouter's number or Perplexity's object, and `ticks` is xAI's `cost_in_usd_ticks`, of which a dollar has ten billion.
    `is_byok` says that OpenRouter called the host with the company's own key there; then `cost` is its fee, and `details` has what the host
    asks as well. Sources: https://openrouter.ai/docs/use-cases/usage-accounting and docs.x.ai/developers/rest-api-reference, read 2026-11;
    recordings.
    """
    try:
        if cost != NULL:
            reported = _cost_decoder.decode(cost)
            usd = reported.total_cost if isinstance(reported, _TotalCost) else reported
            if usd is not None and is_byok:
                upstream = None if details == NULL else _details_decoder.decode(details)
                usd += (upstream and upstream.upstream_inference_cost) or 0.0
            return None if usd is None or not 0 <= usd <= _MAX_USD else int(usd * _MICROUSD_PER_USD + 0.5)
        if ticks != NULL:
            count = _ticks_decoder.decode(ticks)
            is_plausible = count is not None and 0 <= count <= _MAX_USD * _MICROUSD_PER_USD * _TICKS_PER_MICROUSD
            return (count + _TICKS_PER_MICROUSD // 2) // _TICKS_PER_MICROUSD if count is not None and is_plausible else None
    except DECODE_ERRORS:
        pass
    return None
