"""Claude models: what each version of each line accepts, whoever hosts it, by the model's name in any host's spelling.

A version newer than all known ones has the rules of its line's newest; a line that is not known has the strictest, those of NEWEST.

Sources: https://platform.claude.com/docs/en/build-with-claude/effort, /thinking, /extended-thinking, /mid-conversation-system-messages and
/preserved-thinking/prefix-checks, .../about-claude/models/overview; profiles/anthropic.py of pydantic-ai 2.68 (pinned by live calls), the
model map of litellm 1.110 (limits), openrouter.ai/docs/cookbook/evaluate-and-optimize/model-migrations/claude-5-5 (bound to an account);
BerriAI/litellm#37510, langchain-ai/deepagents#1585, cloud-apim/otoroshi-llm-extension#140; read 2026-11.
"""

import functools
import re
from collections.abc import Mapping, Sequence
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from providers.canonical.chat import Effort
from providers.profiles.rules_by_version import Version, rules_for_version

_LEVELS: tuple[Effort, ...] = ("low", "medium", "high")
_LEVELS_WITH_MAX: tuple[Effort, ...] = (*_LEVELS, "max")
_ALL_LEVELS: tuple[Effort, ...] = (*_LEVELS, "xhigh", "max")


class ClaudeProfile(Struct, frozen=True, kw_only=True):
    """The rules of a Claude model. What it does not accept is a 400, unless it says otherwise here."""

    # How thinking is requested: by `adaptive` and an effort, by a budget of tokens, by either, or not at all.
    thinking_mode: Literal["adaptive", "budget", "either", "never"] = "either"
    # The `thinking.type` that switches thinking off; "never": nothing does.
    thinking_off: Literal["disabled", "between_tools", "never"] = "disabled"
    # The efforts that it knows, lowest first; None: not known.
    efforts: tuple[Effort, ...] | None = None
    # The highest effort while thinking is switched off; None: any.
    max_effort_while_off: Effort | None = None
    # Whether temperature, top_p and top_k may be set; "one": not both of the first two.
    sampling: Literal["freely", "one", "never"] = "freely"
    # Whether `tool_choice` may be `any` or `tool`. No model takes them beside a budget for thinking.
    can_force_tool_call: bool = True
    # Whether it goes on after a final assistant message.
    supports_prefill: bool = True
    # Whether it compiles JSON schemas: `output_config.format`, and `strict` of tools.
    supports_schemas: bool = True
    # System messages among the others; "ignored": a 200, and the model does not heed them.
    mid_system: Literal["yes", "refused", "ignored"] = "yes"
    # Whether it takes a system message right after a result of a tool for part of that result, unless a text stands between.
    separates_system_from_results: bool = False
    # Which accounts' thinking blocks are valid only behind the same `system`, `tools` and messages; "new": those made from 2026-08-31 on.
    binds_thinking: Literal["no", "new", "every"] = "no"
    # Whether thinking blocks are valid only for the account that they were made for.
    binds_account: bool = False
    # The most tokens of one response, thinking included; None: not known.
    max_output_tokens: int | None = None


Rows = Sequence[tuple[Version, ClaudeProfile]]

# Models that are not known to be Claude, at hosts that imitate Anthropic's API: nothing is known of them.
NOT_CLAUDE = ClaudeProfile()

_CLAUDE_3 = ClaudeProfile(thinking_mode="never", efforts=(), supports_schemas=False, mid_system="refused", max_output_tokens=8192)
_CLAUDE_3_7 = replace(_CLAUDE_3, thinking_mode="budget", max_output_tokens=64_000)
_CLAUDE_4 = _CLAUDE_3_7
_SONNET_4_5 = replace(_CLAUDE_4, sampling="one", supports_schemas=True)
_CLAUDE_4_6 = replace(_SONNET_4_5, thinking_mode="either", efforts=_LEVELS_WITH_MAX, supports_prefill=False, max_output_tokens=128_000)
_OPUS_4_7 = replace(_CLAUDE_4_6, thinking_mode="adaptive", efforts=_ALL_LEVELS, sampling="never")
_OPUS_4_8 = replace(_OPUS_4_7, mid_system="yes")
_OPUS_5 = replace(_OPUS_4_8, max_effort_while_off="high")
_OPUS_5_5 = replace(_OPUS_4_8, thinking_off="never", can_force_tool_call=False, binds_thinking="new")
_SONNET_5 = replace(_OPUS_4_7, mid_system="ignored")
_SONNET_5_5 = replace(_OPUS_5_5, thinking_off="between_tools", max_effort_while_off="high", binds_account=True)
_HAIKU_5_5 = replace(_OPUS_5, separates_system_from_results=True, binds_thinking="every", binds_account=True)
_FABLE_5 = replace(_OPUS_4_8, thinking_off="never")
_FABLE_5_1 = _OPUS_5_5
_FABLE_5_2 = replace(_FABLE_5_1, binds_thinking="every")

NEWEST = replace(_FABLE_5_2, separates_system_from_results=True, binds_account=True)
"""The strictest rules of all of Claude's newest models together."""

# Oldest first. The lines with models of a third generation begin with that.
_ROWS: Mapping[str, Rows] = {
    "opus": (
        ((3,), replace(_CLAUDE_3, max_output_tokens=4096)),
        ((4,), replace(_CLAUDE_4, max_output_tokens=32_000)),
        ((4, 1), replace(_SONNET_4_5, max_output_tokens=32_000)),
        ((4, 5), replace(_SONNET_4_5, efforts=_LEVELS)),
        ((4, 6), _CLAUDE_4_6),
        ((4, 7), _OPUS_4_7),
        ((4, 8), _OPUS_4_8),
        ((5,), _OPUS_5),
        ((5, 5), _OPUS_5_5),
    ),
    "sonnet": (
        ((3,), replace(_CLAUDE_3, max_output_tokens=4096)),
        ((3, 5), _CLAUDE_3),
        ((3, 7), _CLAUDE_3_7),
        ((4,), _CLAUDE_4),
        ((4, 5), _SONNET_4_5),
        ((4, 6), _CLAUDE_4_6),
        ((5,), _SONNET_5),
        ((5, 5), _SONNET_5_5),
    ),
    "haiku": (
        ((3,), replace(_CLAUDE_3, max_output_tokens=4096)),
        ((3, 5), _CLAUDE_3),
        ((4, 5), _SONNET_4_5),
        ((5, 5), _HAIKU_5_5),
    ),
    "fable": (((5,), _FABLE_5), ((5, 1), _FABLE_5_1), ((5, 2), _FABLE_5_2)),
    "mythos": (((5,), _FABLE_5), ((5, 1), replace(_FABLE_5_1, binds_thinking="no")), ((5, 2), _FABLE_5_2)),
    # Claude 1 and 2, and Instant, had no lines.
    "": (((1,), replace(_CLAUDE_3, max_output_tokens=4096)), ((3,), NEWEST)),
}

# A date is no version: a part of one has at most two digits. The line stands before the version, or after it (up to 3.7).
_VERSION = r"(?P<major>\d{1,2})(?:[-.](?P<minor>\d{1,2}))?(?![\d.])"
_LINE_FIRST = re.compile(rf"claude[-. ]?(?P<line>[a-z]+)(?:[-.]{_VERSION})?", re.I)
_VERSION_FIRST = re.compile(rf"claude[-. ]?v?{_VERSION}(?:[-.](?P<line>[a-z]{{3,}}))?", re.I)
_ANY_LINE = re.compile(rf"(?<![a-z])(?:{'|'.join(line for line in _ROWS if line)})(?![a-z])", re.I)
_NO_LINES = frozenset({"instant", "v", "latest"})


def parse_name(model: str) -> tuple[str, Version | None] | None:
    """The line ("" for a model without one) and the version that a model's name states. None: it does not say that it is Claude."""
    match = _VERSION_FIRST.search(model) or _LINE_FIRST.search(model)
    if match is None:
        return ("", None) if "claude" in model.lower() else None
    line = (match["line"] or "").lower()
    major, minor = match["major"], match["minor"]
    version = None if major is None else (int(major),) if minor is None else (int(major), int(minor))
    return "" if line in _NO_LINES else line, (1,) if line == "instant" else version


def states_known_version(model: str) -> bool:
    """Whether there are rules for exactly the version that this name states, and not only for an older one."""
    line, version = parse_name(model) or ("", None)
    if version is None:
        return False
    known = [row_version for row_version, _ in _ROWS.get(line, ())]
    return version in known or (version[-1] == 0 and version[:-1] in known)


@functools.lru_cache(maxsize=1024)
def find_profile(model: str) -> ClaudeProfile:
    parsed = parse_name(model)
    if parsed is None:
        return NOT_CLAUDE
    line, version = parsed
    rows = _ROWS.get(line)
    return NEWEST if rows is None or (line == "" and version is None) else rules_for_version(rows, version)


@functools.lru_cache(maxsize=1024)
def find_deployment_profile(name: str) -> ClaudeProfile:
    """The rules of a deployment that is known to be Claude: by its name, or by the line in it, else the strictest."""
    profile = find_profile(name)
    if profile is not NOT_CLAUDE:
        return profile
    line = _ANY_LINE.search(name)
    return NEWEST if line is None else find_profile(f"claude-{name[line.start() :]}")


def is_claude(model: str) -> bool:
    return find_profile(model) is not NOT_CLAUDE


def continues_text(dialect: str, model: str) -> bool:
    """Whether a Claude model goes on after a final assistant message, in Messages."""
    return dialect == "anthropic_messages" and find_profile(model).supports_prefill
