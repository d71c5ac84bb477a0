"""Errors that name a rule of a model, as rows: how the whole message reads, and which rule follows.

A message counts only as a whole (`fullmatch`), and what it fills in is a name without spaces or quotes: text of a caller that a host
repeats in an error matches no row. Each has where it was read.
"""

import re
from collections.abc import Sequence

from msgspec import Struct

from providers.canonical.template_errors import TEMPLATE_ERRORS, TEMPLATE_SOURCES
from providers.learned_rules.rule import RuleKind

_NAME = r"[A-Za-z_][\w.]{0,80}"
_MODEL = r"[\w.:/@-]{1,120}"
_LIST = r"(?P<values>['\w][\w', -]{0,200}?)"
_FEATURE = r"[a-z][a-z0-9_]{0,40}"
# The rest of a sentence of the host's own, which only advises.
_ADVICE = r"(?: [\w .,;:'\"`/()-]{0,240})?"

MESSAGES = "anthropic_messages"
CHAT = "openai_chat"
RESPONSES = "openai_responses"


class ErrorRow(Struct, frozen=True):
    """A message of a host, and the rule that it teaches."""

    kind: RuleKind
    pattern: re.Pattern[str]  # of the whole message; its groups `field` and `values` fill in the rule
    source: str  # where the error was read
    field: str = ""  # where `pattern` has no such group
    values: tuple[str, ...] = ()  # where `pattern` has no such group
    dialects: tuple[str, ...] = ()  # in which it counts; empty: in all
    params: tuple[str, ...] = ()  # the host's own `param` must be one of these, which is then the field


def _row(
    kind: RuleKind,
    pattern: str,
    source: str,
    *,
    field: str = "",
    values: tuple[str, ...] = (),
    dialects: tuple[str, ...] = (),
    params: tuple[str, ...] = (),
) -> ErrorRow:
    return ErrorRow(kind, re.compile(pattern), source, field, values, dialects, params)


_EFFORT_FIELDS = ("reasoning_effort", "reasoning.effort")
_OPENAI = "https://platform.openai.com/docs/guides/reasoning and its API's 400s as widely quoted, read 2026-11"
_ANTHROPIC = "https://platform.claude.com/docs/en/about-claude/models/migration-guide and its API's 400s as widely quoted, read 2026-11"

ROWS: Sequence[ErrorRow] = (
    # Names of fields, and fields that a model does not have.
    _row(
        "renamed_field",
        r"Unsupported parameter: '(?P<field>max_tokens)' is not supported with this model\."
        r" Use '(?P<values>max_completion_tokens)' instead\.",
        _OPENAI,
        dialects=(CHAT,),
    ),
    _row("refused_field", rf"Unsupported parameter: '(?P<field>{_NAME})' is not supported with this model\.{_ADVICE}", _OPENAI),
    _row(
        "refused_field",
        rf"Unsupported value: '(?P<field>{_NAME})' does not support [\w.-]{{1,40}} with this model\."
        r" Only the default \([\w.]{1,20}\) value is supported\.",
        _OPENAI,
    ),
    _row("refused_field", r"`(?P<field>temperature|top_p|top_k)` is deprecated for this model\.?", _ANTHROPIC, dialects=(MESSAGES,)),
    _row(
        "refused_field",
        r"invalid (?P<field>temperature|top_p|n|presence_penalty|frequency_penalty): only [\d.]{1,8} is allowed for this model",
        "https://github.com/Warma10032/VideoAdGuard/issues/34 and MoonshotAI/Kimi-K2#124, read 2026-11",
        dialects=(CHAT,),
    ),
    _row(
        "one_sampling_field",
        r"`temperature` and `top_p` cannot both be specified for this model\. Please use only one\.",
        _ANTHROPIC,
        dialects=(MESSAGES,),
    ),
    _row("refused_field", r"(?P<field>[A-Za-z_][\w.-]{0,280}): Extra inputs are not permitted", _ANTHROPIC, dialects=(MESSAGES,)),
    # Efforts.
    _row(
        "accepted_values",
        rf"Unsupported value: '(?P<field>reasoning_effort|reasoning\.effort)' does not support '\w{{1,20}}' with this model\."
        rf" Supported values are: {_LIST}\.",
        _OPENAI,
    ),
    _row(
        "accepted_values",
        rf"Unsupported value: '\w{{1,20}}' is not supported with the '{_MODEL}' model\. Supported values are: {_LIST}\.",
        _OPENAI,
        params=(*_EFFORT_FIELDS, "verbosity", "text.verbosity"),
    ),
    _row(
        "accepted_values",
        rf"This model does not support effort level '\w{{1,20}}'\. Supported levels: {_LIST}\.?",
        _ANTHROPIC,
        field="output_config.effort",
        dialects=(MESSAGES,),
    ),
    _row(
        "accepted_values",
        rf"(?P<field>output_config\.effort): Input should be {_LIST}",
        _ANTHROPIC,
        dialects=(MESSAGES,),
    ),
    _row(
        "accepted_values",
        rf"Input should be {_LIST}",
        "https://github.com/router-for-me/CLIProxyAPI/issues/1572 (SGLang), read 2026-11",
        params=("reasoning_effort",),
        dialects=(CHAT,),
    ),
    # Thinking.
    _row(
        "refused_thinking",
        rf"\"thinking\.type\.(?P<field>disabled|enabled|adaptive)\" is not supported for this model\.{_ADVICE}",
        _ANTHROPIC,
        dialects=(MESSAGES,),
    ),
    _row(
        "refused_thinking",
        r"adaptive thinking is not supported on this model\.?",
        "BerriAI/litellm, its tests for Claude 4.5, read 2026-11",
        field="adaptive",
        dialects=(MESSAGES,),
    ),
    # Tools.
    _row(
        "no_forced_tools",
        rf"Thinking may not be enabled when tool_choice forces tool use\.{_ADVICE}",
        "https://github.com/can1357/oh-my-pi/issues/341, read 2026-11",
        dialects=(MESSAGES,),
    ),
    _row(
        "no_forced_tools",
        r"`?tool_choice`?(?:\.type)?[:,]? [\w .,'\"`:-]{0,100}(?:forces? tool use|forced tool use|'any'|\"any\")[\w .,'\"`:-]{0,60}"
        r"(?:not|un)[ -]?supported[\w .,'\"`:-]{0,80}",
        _ANTHROPIC,
        dialects=(MESSAGES,),
    ),
    _row(
        "no_forced_tools",
        r"[Ff]orced tool use is not supported[\w .,'\"`:-]{0,120}",
        _ANTHROPIC,
        dialects=(MESSAGES,),
    ),
    _row(
        "no_forced_tools",
        r"Thinking mode does not support this tool_choice\.?",
        "https://github.com/tickernelz/opencode-mem/issues/253 (DeepSeek), read 2026-11",
    ),
    _row(
        "no_forced_tools",
        r"tool_choice '?(?:specified|required)'? is incompatible with thinking enabled",
        "https://github.com/can1357/oh-my-pi/issues/1077 (Kimi), read 2026-11",
    ),
    _row(
        "no_forced_tools",
        r"The tool_choice parameter does not support being set to required or object in thinking mode",
        "https://github.com/cloudwego/eino/issues/994 (Qwen), read 2026-11",
    ),
    _row(
        "no_tools",
        rf"Function tools with reasoning_effort are not supported for {_MODEL} in /v1/chat/completions\.{_ADVICE}",
        "https://github.com/BerriAI/litellm (responses/bridge_check.py 1.110.2), read 2026-11",
        dialects=(CHAT,),
    ),
    # Schemas, of answers and of strict tools. Others that the same sentence may name are for the caller to mend.
    _row(
        "no_schemas",
        rf"(?:{_FEATURE}, ){{0,5}}structured_outputs(?:, {_FEATURE}){{0,5}} not supported in your workspace\.?",
        "https://github.com/can1357/oh-my-pi/issues/4679 (Claude on Foundry), read 2026-11",
        dialects=(MESSAGES, CHAT),
    ),
    _row(
        "no_schemas",
        r"(?:[\w ]{1,40} )?features are not available for Azure AI Foundry workspaces?: "
        rf"(?:{_FEATURE}(?:, | and |, and )){{0,5}}structured_outputs(?:(?:, | and |, and ){_FEATURE}){{0,5}}\.?",
        "https://code.claude.com/docs/en/microsoft-foundry and Claude Code 2.1, which reads this message, read 2026-11",
        dialects=(MESSAGES, CHAT),
    ),
    # Messages.
    _row(
        "no_prefill",
        rf"This model does not support assistant message prefill\.{_ADVICE}",
        "https://github.com/langchain-ai/deepagents/issues/1585, read 2026-11",
    ),
    _row(
        "no_system_role",
        r"(?:messages\.\d{1,6}(?:\.role)?: )?role 'system' is not supported on this model\.?",
        _ANTHROPIC,
        dialects=(MESSAGES,),
    ),
    # Chat templates, in all dialects: an engine renders each of them with the same one.
    *(ErrorRow(rule, pattern, TEMPLATE_SOURCES) for rule, pattern in TEMPLATE_ERRORS),
    # Betas.
    _row(
        "refused_beta",
        rf"Unexpected value\(s\) (?P<values>`[\w-]{{1,80}}`(?:, ?`[\w-]{{1,80}}`){{0,30}}) for the `anthropic-beta` header\.{_ADVICE}",
        "https://github.com/anthropics/claude-code/issues/11672, read 2026-11",
        dialects=(MESSAGES,),
    ),
    # Bedrock does not say which one: see match.py.
    _row(
        "refused_beta", r"invalid beta flag", "https://github.com/anthropics/claude-code/issues/49370, read 2026-11", dialects=(MESSAGES,)
    ),
)
"""The first row that matches counts."""
