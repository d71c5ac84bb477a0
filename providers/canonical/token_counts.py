"""Token counts as upstreams report them: an impossible count is treated as not reported."""

from providers.canonical.chat import Usage

# No engine has counted more, and the cost of this many tokens, at any price, fits into a database's 63 bits.
_MAX_TOKENS = 2**40


def plausible_count(count: float | None) -> int | None:
    """The count as an integer. None if it is not reported, negative or too large."""
    return int(count) if count is not None and 0 <= count <= _MAX_TOKENS else None


def is_uncounted(usage: Usage) -> bool:
    """Whether it holds neither tokens nor a cost: as good as no usage, for which the caller is shown an estimate."""
    return usage.input is None and usage.output is None and usage.host_cost_microusd is None
