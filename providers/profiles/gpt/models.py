"""The rules of OpenAI's GPT and o models, by their names, whoever hosts them.

Sources, all read 2026-11: pydantic-ai 2.68 (profiles/openai.py, whose cells were verified at the live API in 2026-07 and later: which
models reason by default, which can be told not to, sampling while they reason), litellm 1.110.2 (responses/bridge_check.py: tools on
Chat), openai-python 3.57 (the values of an effort), and OpenAI's pages of each model at developers.openai.com/api/docs/models.
Models that Chat does not have: langchain-ai/langchain#35594, aaif-goose/goose#2564, egoist/chatwise-releases#1256, alvinunreal/tmuxai#82.
"""

import functools
import re
from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from providers.canonical.chat import Effort
from providers.profiles.rules_by_version import Version, rules_for_version


class GptRules(Struct, frozen=True, kw_only=True):
    """The rules of one model."""

    # The efforts of the Responses API, lowest first; empty: the model does not reason, and has no effort.
    efforts: tuple[Effort, ...] = ()
    # Whether it reasons where a request has no effort.
    reasons_by_default: bool = False
    # False: Chat takes its function tools only with the effort `none`.
    has_tools_on_chat: bool = True
    # False: it is served at the Responses API only.
    is_on_chat: bool = True

    @property
    def chat_efforts(self) -> tuple[Effort, ...]:
        """Chat refuses `max` for every model."""
        return tuple(effort for effort in self.efforts if effort != "max")

    def reasons_with(self, effort: str | None) -> bool:
        """Whether it reasons in a request with this effort; None: the request has none."""
        if not self.efforts:
            return False
        if effort is None or effort not in self.efforts:
            return self.reasons_by_default
        return effort != "none"


# What follows the version in a name -> the rules of that line of models; the first that matches counts.
_Lines = Sequence[tuple[re.Pattern[str], GptRules]]

_UP_TO_HIGH: tuple[Effort, ...] = ("low", "medium", "high")
_UP_TO_XHIGH: tuple[Effort, ...] = (*_UP_TO_HIGH, "xhigh")
_UP_TO_MAX: tuple[Effort, ...] = (*_UP_TO_XHIGH, "max")
_NO_REASONING = GptRules()
_ALWAYS = GptRules(efforts=_UP_TO_HIGH, reasons_by_default=True)
_RESPONSES_ONLY = replace(_ALWAYS, is_on_chat=False)
_PRO = replace(_RESPONSES_ONLY, efforts=("medium", "high", "xhigh"))
_FIXED_EFFORT = replace(_ALWAYS, efforts=("medium",))  # the chat variants from 5.1 on
_OPT_IN = GptRules(efforts=("none", *_UP_TO_XHIGH))  # it reasons only when it is told to
_BY_DEFAULT = replace(_OPT_IN, reasons_by_default=True)
_BY_DEFAULT_TO_MAX = replace(_BY_DEFAULT, efforts=("none", *_UP_TO_MAX))
_ALWAYS_TO_MAX = replace(_ALWAYS, efforts=_UP_TO_MAX)


def _lines(rest: GptRules, **rules: GptRules) -> _Lines:
    """The rows of a table: first `rules` by words in the name, in order, then `rest` for all other names."""
    named = [(re.compile(rf".*-{word.replace('_', '-')}(?![a-z0-9])"), line) for word, line in rules.items()]
    return (*named, (re.compile(""), rest))


def _newer_lines(rest: GptRules, **rules: GptRules) -> _Lines:
    """Returns the lines of a version from 5.4 on, as _lines() does for earlier ones.

    Chat refuses function tools of models that reason, and has neither the pro nor the codex models.
    """
    further = {"chat": _FIXED_EFFORT, "pro": _PRO, "codex": replace(rest, is_on_chat=False)}
    return tuple((pattern, replace(line, has_tools_on_chat=False)) for pattern, line in _lines(rest, **rules, **further))


_ROWS: Sequence[tuple[Version, _Lines]] = (
    *((version, _lines(_NO_REASONING)) for version in ((3,), (3, 5), (4,), (4, 1), (4, 5))),
    (
        (5,),
        _lines(
            replace(_ALWAYS, efforts=("minimal", *_UP_TO_HIGH)),  # gpt-5, -mini, -nano: no other model has `minimal`
            chat=_NO_REASONING,
            pro=replace(_RESPONSES_ONLY, efforts=("high",)),
            codex=_RESPONSES_ONLY,
        ),
    ),
    (
        (5, 1),
        _lines(
            replace(_OPT_IN, efforts=("none", *_UP_TO_HIGH)),
            chat=_FIXED_EFFORT,
            codex_max=replace(_RESPONSES_ONLY, efforts=_UP_TO_XHIGH),
            codex=_RESPONSES_ONLY,
        ),
    ),
    ((5, 2), _lines(_OPT_IN, chat=_FIXED_EFFORT, pro=_PRO, codex=replace(_OPT_IN, is_on_chat=False))),
    ((5, 4), _newer_lines(_OPT_IN)),
    ((5, 5), _newer_lines(_BY_DEFAULT)),
    # The catalogue of Codex 0.171 has `max` for 5.6, litellm has not.
    ((5, 6), _newer_lines(_BY_DEFAULT_TO_MAX)),
    ((6,), _newer_lines(_BY_DEFAULT_TO_MAX, astra=_ALWAYS_TO_MAX)),  # gpt-6-sol, -luna; -astra
    ((6, 1), _newer_lines(_ALWAYS_TO_MAX, terra=_BY_DEFAULT_TO_MAX)),  # gpt-6.1-sol; -terra
    # gpt-6.2-astra, -sol. That Chat refuses their tools is inferred from 6.1.
    ((6, 2), _newer_lines(_ALWAYS_TO_MAX)),
)

# Azure's deployments and resellers put something before the name: `openai/gpt-5.6-sol`, `prod-gpt-5.6`. A name that goes on with another
# letter or digit is another one (`gpt-5x`). Azure writes 3.5 as 35.
_GPT_NAME = re.compile(r"(?:^|[^a-z0-9])(?:chat)?gpt-(?P<major>35|\d{1,2})(?:[.-](?P<minor>\d{1,2})(?!\d))?(?P<line>(?:o|(?![a-z0-9.])).*)")
_O_NAME = re.compile(r"(?:^|[/:.])o(?P<number>\d)(?P<line>(?![a-z0-9]).*)")
_O_LINES = _lines(_ALWAYS, pro=_RESPONSES_ONLY, deep_research=_RESPONSES_ONLY)
_O_VERSIONS = (1, 3, 4)
_CODEX_MINI = re.compile(r"(?:^|[/:.])codex-mini")


@functools.lru_cache(maxsize=1024)
def find_rules(model: str) -> GptRules | None:
    """The rules of the model that is named, or of a deployment that has its name. None: the name is none of OpenAI's."""
    name = model.lower()
    matched = _GPT_NAME.search(name)
    if matched is not None:
        return _of_line(rules_for_version(_ROWS, _read_gpt_version(matched)), matched["line"])
    o_matched = _O_NAME.search(name)
    if o_matched is not None:
        return _of_line(_O_LINES, o_matched["line"])
    return _RESPONSES_ONLY if _CODEX_MINI.search(name) else None


def read_version(model: str) -> tuple[Version, bool] | None:
    """The version that an OpenAI model's name states, and whether a row names it. None: the name is none of OpenAI's, or states none."""
    name = model.lower()
    if (matched := _GPT_NAME.search(name)) is not None:
        version = _read_gpt_version(matched)
        return version, any(version == row for row, _ in _ROWS)
    if (matched := _O_NAME.search(name)) is not None:
        number = int(matched["number"])
        return (number,), number in _O_VERSIONS
    return None


def _read_gpt_version(matched: re.Match[str]) -> Version:
    return (3, 5) if matched["major"] == "35" else (int(matched["major"]), *([int(matched["minor"])] if matched["minor"] else []))


def _of_line(lines: _Lines, line: str) -> GptRules:
    return next(rules for pattern, rules in lines if pattern.match(line))
