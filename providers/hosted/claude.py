"""Claude: what each of its hosts demands of a body in Anthropic's dialect, and what clouds want said there rather than elsewhere."""

from collections.abc import Iterable, Mapping
from typing import Any, cast

from msgspec import Struct

from providers.hosted.claude_texts import hold_breakpoints
from providers.provider import BadOption
from providers.wire import Body

# What its older models could write at most, which every newer one can too.
_MAX_TOKENS = 8192

# Of every adapter that reaches it.
OPTIONS: Mapping[str, str] = {
    "max_tokens": f"the most tokens of an answer of Claude whose caller has not said it, as it must be said ({_MAX_TOKENS})",
    "anthropic_beta": "a list of beta features to ask Claude for",
}


class Demands(Struct, frozen=True):
    """What is said where a caller has not: the most tokens of an answer. `betas`: those that the configuration asks for."""

    max_tokens: int = _MAX_TOKENS
    betas: tuple[str, ...] = ()

    def fill(self, body: Body) -> None:
        """What Claude's hosts refuse a request without, and callers of other dialects need not say: more than a budget for reasoning."""
        if not body.said("max_tokens"):
            thinking = body.value("thinking") if "thinking" in body else None
            budget = cast("dict[str, Any]", thinking).get("budget_tokens") if isinstance(thinking, dict) else None
            body["max_tokens"] = self.max_tokens + (budget if isinstance(budget, int) else 0)


def hold(body: Body, demands: Demands) -> list[str]:
    """Makes a body in Messages one that Claude's hosts take: what had to go of it, which are hints."""
    demands.fill(body)
    return ["cache_control"] if hold_breakpoints(body) else []


def read_demands(configured_as: str, options: Mapping[str, Any]) -> Demands:
    """Raises BadOption."""
    most = options.get("max_tokens", _MAX_TOKENS)
    if not isinstance(most, int) or isinstance(most, bool) or most < 1:
        raise BadOption(f"Option max_tokens of provider {configured_as!r} must be a number of tokens, at least 1.")
    betas = options.get("anthropic_beta", [])
    if not isinstance(betas, list) or not all(isinstance(beta, str) for beta in betas):  # pyright: ignore[reportUnknownVariableType]
        raise BadOption(f"Option anthropic_beta of provider {configured_as!r} must be a list of names.")
    return Demands(most, tuple(betas))  # pyright: ignore[reportUnknownArgumentType]


def fit(body: Body, version: str, *, says_stream: bool) -> None:
    """Makes a body one for a cloud, whose addresses name the model: it does not, and says the version of the API, which is the cloud's own.

    `says_stream`: the cloud wants `stream` there too, although its addresses tell that as well.
    Source: _prepare_options in lib/vertex/_client.py and lib/bedrock/_client.py of Anthropic's SDK 2.11, read 2026-11.
    """
    body.pop("model", None)
    if not says_stream:
        body.pop("stream", None)
    body["anthropic_version"] = version
    _leave_out_false(body.get("tools"))


def _leave_out_false(tools: Any) -> None:
    """Of tools that a dialect wrote: older models of clouds refuse `strict` as a field that they do not know, and false asks for nothing.

    Source: https://github.com/BerriAI/litellm/issues/18625 (the same of output_format), read 2026-11.
    """
    for tool in cast("list[dict[str, Any]]", tools) if isinstance(tools, list) else ():
        if isinstance(tool, dict) and tool.get("strict") is False:  # pyright: ignore[reportUnnecessaryIsInstance]
            del tool["strict"]


def say_betas(body: Body, betas: Iterable[str]) -> None:
    """Beta features, for a cloud that reads them in the body and not in a header: those that are there already, and these."""
    said = body.value("anthropic_beta")
    known = [*said] if isinstance(said, list) else []  # pyright: ignore[reportUnknownVariableType]
    together = [*dict.fromkeys([*known, *(name for beta in betas if (name := beta.strip()))])]  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    if together:
        body["anthropic_beta"] = together
