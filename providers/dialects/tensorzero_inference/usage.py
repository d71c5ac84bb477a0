"""Token counts of TensorZero's responses."""

from msgspec import Struct

from providers.canonical.chat import Usage
from providers.canonical.token_counts import is_uncounted, plausible_count


class WireUsage(Struct, omit_defaults=True):
    """Tokens read from a provider's cache are part of the input. None: not reported."""

    input_tokens: int | None
    output_tokens: int | None
    provider_cache_read_input_tokens: int | None = None
    provider_cache_write_input_tokens: int | None = None


def write_usage(usage: Usage) -> WireUsage:
    return WireUsage(usage.input, usage.output, usage.cached, usage.cache_written)


def read_usage(usage: WireUsage | None) -> Usage | None:
    """Returns None if nothing is reported."""
    if usage is None:
        return None
    counted = Usage(
        plausible_count(usage.input_tokens),
        plausible_count(usage.output_tokens),
        cached=plausible_count(usage.provider_cache_read_input_tokens),
        cache_written=plausible_count(usage.provider_cache_write_input_tokens),
    )
    return None if is_uncounted(counted) else counted
