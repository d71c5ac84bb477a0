"""Claude: what each of its hosts demands of a body in Anthropic's dialect, and what clouds want said there rather than elsewhere."""

from collections.abc import Iterable, Mapping
from typing import Any, cast

from msgspec import Struct

from providers.adapters.provider import InvalidOption
from providers.canonical.raw_json import Body
from providers.profiles.claude.messages import limit_cache_breakpoints

# What its older models could write at most, which every newer one can too.
_DEFAULT_MAX_TOKENS = 8192

# Of every adapter that reaches it.
CLAUDE_OPTIONS: Mapping[str, str] = {
    "max_tokens": f"the most tokens of an answer of Claude whose caller has not said it, as it must be said ({_DEFAULT_MAX_TOKENS})",
    "anthropic_beta": "a list of beta features to ask Claude for",
}


class RequestDefaults(Struct, frozen=True):
    """What is said where a caller has not: the most tokens of an answer. `betas`: those that the configuration asks for."""

    max_tokens: int = _DEFAULT_MAX_TOKENS
    betas: tuple[str, ...] = ()

    def fill_in(self, body: Body) -> None:
        """What Claude's hosts refuse a request without, and callers of other dialects need not say: more than a budget for reasoning."""
        if not body.has_value("max_tokens"):
            thinking = body.value("thinking") if "thinking" in body else None
            budget = cast("dict[str, Any]", thinking).get("budget_tokens") if isinstance(thinking, dict) else None
            body["max_tokens"] = self.max_tokens + (budget if isinstance(budget, int) else 0)


def adapt_body(body: Body, defaults: RequestDefaults) -> list[str]:
    """Makes a body in Messages one that Claude's hosts take: what had to go of it, which are hints."""
    defaults.fill_in(body)
    return ["cache_control"] if limit_cache_breakpoints(body) else []


def read_defaults(configured_as: str, options: Mapping[str, Any]) -> RequestDefaults:
    """Raises BadOption."""
    max_tokens = options.get("max_tokens", _DEFAULT_MAX_TOKENS)
    if not isinstance(max_tokens, int) or isinstance(max_tokens, bool) or max_tokens < 1:
        raise InvalidOption(f"Option max_tokens of provider {configured_as!r} must be a number of tokens, at least 1.")
    betas = options.get("anthropic_beta", [])
    if not isinstance(betas, list) or not all(isinstance(beta, str) for beta in betas):  # pyright: ignore[reportUnknownVariableType]
        raise InvalidOption(f"Option anthropic_beta of provider {configured_as!r} must be a list of names.")
    return RequestDefaults(max_tokens, tuple(betas))  # pyright: ignore[reportUnknownArgumentType]


def adapt_for_cloud(body: Body, version: str, *, keeps_stream: bool) -> None:
    """Makes a body one for a cloud, whose addresses name the model: it does not, and says the version of the API, which is the cloud's own.

    `says_stream`: the cloud wants `stream` there too, although its addresses tell that as well.
    Source: _prepare_options in lib/vertex/_client.py and lib/bedrock/_client.py of Anthropic's SDK 2.11, read 2026-11.
    """
    body.pop("model", None)
    if not keeps_stream:
        body.pop("stream", None)
    body["anthropic_version"] = version
    _drop_false_strict(body.get("tools"))


def _drop_false_strict(tools: Any) -> None:
    """Of tools that a dialect wrote: older models of clouds refuse `strict` as a field that they do not know, and false asks for nothing.

    Source: https://github.com/BerriAI/litellm/issues/18625 (the same of output_format), read 2026-11.
    """
    for tool in cast("list[dict[str, Any]]", tools) if isinstance(tools, list) else ():
        if isinstance(tool, dict) and tool.get("strict") is False:  # pyright: ignore[reportUnnecessaryIsInstance]
            del tool["strict"]


def add_betas(body: Body, betas: Iterable[str]) -> None:
    """Beta features, for a cloud that reads them in the body and not in a header: those that are there already, and these."""
    present = body.value("anthropic_beta")
    known = [*present] if isinstance(present, list) else []  # pyright: ignore[reportUnknownVariableType]
    combined = [*dict.fromkeys([*known, *(name for beta in betas if (name := beta.strip()))])]  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    if combined:
        body["anthropic_beta"] = combined
