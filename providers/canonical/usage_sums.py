"""The usage of several responses, or of several runs of a model, together."""

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from providers.canonical.chat import Iteration, Usage

_UNSUMMED = ("tier", "region", "estimated", "requests", "tool_uses", "iterations")


def sum_usage(usages: Sequence[Usage]) -> Usage:
    """Adds up usages, of which there must be at least one.

    A count that none of them reports stays None. `tier` and `region` are those of the first usage.
    """

    def total(field: str) -> Any:
        counts = [count for each in usages if (count := getattr(each, field)) is not None]
        return sum(counts) if counts else None

    summed = {field: total(field) for field in Usage.__struct_fields__ if field not in _UNSUMMED}
    estimated, requests = any(each.estimated for each in usages), sum(each.requests or 1 for each in usages)
    tool_uses: dict[str, int] = {}
    for each in usages:
        for name, count in (each.tool_uses or {}).items():
            tool_uses[name] = tool_uses.get(name, 0) + count
    return Usage(
        **summed,
        tier=usages[0].tier,
        region=usages[0].region,
        estimated=estimated,
        requests=requests if requests > 1 else None,
        tool_uses=tool_uses or None,
        iterations=_all_iterations(usages) if any(each.iterations for each in usages) else (),
    )


def _all_iterations(usages: Sequence[Usage]) -> tuple[Iteration, ...]:
    """A response without iterations of its own is one."""
    without_tools = (replace(each, tool_uses=None) for each in usages)
    return tuple(iteration for each in without_tools for iteration in each.iterations or (Iteration(None, each),))
