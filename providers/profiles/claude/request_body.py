"""The body of a Messages request to Claude: what every host requires of it, and what clouds want in it instead of in URL or headers."""

from collections.abc import Iterable, Iterator
from typing import Any, cast

from msgspec import Struct
from msgspec.structs import replace

from providers.canonical.raw_json import Body
from providers.structured_output import ConstraintPlan

DEFAULT_MAX_TOKENS = 8192
"""The output limit of the older models, which every newer one can write too."""

_CACHE_CONTROL = "cache_control"
# Source: https://platform.claude.com/docs/en/build-with-claude/prompt-caching, and its 400 "A maximum of 4 blocks with cache_control may be
# provided"; read 2026-11.
_MAX_CACHE_BREAKPOINTS = 4


class RequestDefaults(Struct, frozen=True):
    """Values for requests that do not set them."""

    max_tokens: int = DEFAULT_MAX_TOKENS  # for requests without it
    betas: tuple[str, ...] = ()  # the beta features of the configuration

    def fill_in(self, body: Body) -> None:
        """Sets a missing `max_tokens`, which Claude requires and other dialects do not, above the thinking budget if there is one."""
        if not body.has_value("max_tokens"):
            thinking = body.value("thinking") if "thinking" in body else None
            budget = cast("dict[str, Any]", thinking).get("budget_tokens") if isinstance(thinking, dict) else None
            body["max_tokens"] = self.max_tokens + (budget if isinstance(budget, int) else 0)


def adapt_body(body: Body, defaults: RequestDefaults) -> list[str]:
    """Adapts a Messages body to what every host of Claude accepts; returns the dropped fields, which are hints."""
    defaults.fill_in(body)
    return ["cache_control"] if limit_cache_breakpoints(body) else []


def plan_for_body(plan: ConstraintPlan | None, body: Body) -> ConstraintPlan | None:
    """The plan for what the body demands: a model that compiles no schemas got an instruction in place of the format."""
    if plan is None or plan.enforcement != "enforced" or "output_format" in body:
        return plan
    output_config = body.value("output_config") if "output_config" in body else None
    is_sent = isinstance(output_config, dict) and "format" in output_config
    return plan if is_sent else replace(plan, enforcement="validated")


def limit_cache_breakpoints(body: Body) -> bool:
    """Keeps the last four cache breakpoints, which cover the longest prefixes, in a body that a dialect wrote; returns whether any went."""
    marked = [block for key in ("tools", "system", "messages") for block in _iter_blocks(body.get(key)) if _CACHE_CONTROL in block]
    for block in marked[:-_MAX_CACHE_BREAKPOINTS]:
        del block[_CACHE_CONTROL]
    return len(marked) > _MAX_CACHE_BREAKPOINTS


def _iter_blocks(content: Any) -> Iterator[dict[str, Any]]:
    """Blocks in prompt order, the content of a block before itself. Content that is still the caller's bytes (Raw) is skipped."""
    for each in cast("list[Any]", content) if isinstance(content, list) else ():
        if isinstance(each, dict):
            block = cast("dict[str, Any]", each)
            yield from _iter_blocks(block.get("content"))
            yield block


def adapt_for_cloud(body: Body, version: str, *, keeps_stream: bool) -> None:
    """Adapts a body to a cloud: without `model`, which the URL names, and with the cloud's own `anthropic_version`.

    `keeps_stream` says that the cloud wants `stream` in the body, although the URL says it too. Source: _prepare_options in
    lib/vertex/_client.py and lib/bedrock/_client.py of Anthropic's SDK 2.11, read 2026-11.
    """
    body.pop("model", None)
    if not keeps_stream:
        body.pop("stream", None)
    body["anthropic_version"] = version
    drop_false_strict(body.get("tools"))


def drop_false_strict(tools: Any) -> None:
    """Removes `strict: false` from tools that a dialect wrote: it is the default, and older models on clouds refuse the field.

    Source: https://github.com/BerriAI/litellm/issues/18625 (the same of output_format), read 2026-11.
    """
    for tool in cast("list[dict[str, Any]]", tools) if isinstance(tools, list) else ():
        if isinstance(tool, dict) and tool.get("strict") is False:  # pyright: ignore[reportUnnecessaryIsInstance]
            del tool["strict"]


def add_betas(body: Body, betas: Iterable[str]) -> None:
    """Adds beta features to those in the body, for a cloud that reads them there and not in a header."""
    present = body.value("anthropic_beta")
    known = [*present] if isinstance(present, list) else []  # pyright: ignore[reportUnknownVariableType]
    combined = [*dict.fromkeys([*known, *(name for beta in betas if (name := beta.strip()))])]  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    if combined:
        body["anthropic_beta"] = combined
