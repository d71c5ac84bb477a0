"""Hosts of Claude besides Anthropic, and which beta features and hints each takes. Anthropic takes all.

Sources: `anthropic_beta_headers_config.json` and llms/bedrock of litellm 1.110.2; models/anthropic of pydantic-ai 2.68 (measured at each
host: per-message effort, cache diagnostics); https://docs.aws.amazon.com/bedrock/latest/userguide
/model-parameters-anthropic-claude-messages-request-response.html; "invalid beta flag": anthropics/claude-code#49370, #56595, #82549,
router-for-me/CLIProxyAPI#4750; of Foundry: docs/sources.md#claude-on-foundry; read 2026-11.
"""

import re

from msgspec.structs import replace

from providers.profiles.claude.host import ClaudeHost

# Known to every host.
_COMMON = frozenset(
    {
        *("computer-use-2025-01-24", "computer-use-2025-11-24", "context-1m-2025-08-07", "context-management-2025-06-27"),
        *("dangerous-tool-use-2026-09-03", "effort-2025-11-24", "fine-grained-tool-streaming-2025-05-14", "compact-2026-01-12"),
        *("interleaved-thinking-2025-05-14", "thinking-binding-controls-2026-08-01", "thinking-display-updates-2026-08-18"),
    }
)
_MESSAGE_EFFORT = "mid-conversation-output-config-2026-07-01"
_MIDWAY = frozenset({_MESSAGE_EFFORT, "mid-conversation-tool-changes-2026-07-01"})
_TOOL_SEARCH = "tool-search-tool-2025-10-19"
# Anthropic's name for what comprises the search for tools, which clouds name by itself.
_RENAMED = {"advanced-tool-use-2025-11-20": _TOOL_SEARCH}
# Fields of Anthropic's own API that no cloud has. What Claude Code's `safeguards` checks is asked for, so it is refused by name.
_ANTHROPIC_HINTS = frozenset({"speed", "diagnostics"})
_ANTHROPIC_FIELDS = frozenset({"safeguards", "mcp_servers", "container", "inference_geo"})

BEDROCK_INVOKE = ClaudeHost(
    betas=_COMMON | _MIDWAY | {_TOOL_SEARCH, "compact-2026-09-04"},
    # Claude Code's name for an effort of a message, which InvokeModel knows by the documented name alone.
    renamed_betas={**_RENAMED, "per-turn-control-2026-07-01": _MESSAGE_EFFORT},
    refused_tool_hints=frozenset({"eager_input_streaming", "allowed_callers", "input_examples"}),
    refused_hints=_ANTHROPIC_HINTS,
    refused_fields=_ANTHROPIC_FIELDS,
    message_config_models=re.compile(r"claude-(fable-5-1|opus-5-5)"),
)
BEDROCK_MANTLE = ClaudeHost(
    betas=_COMMON
    | {
        *(_TOOL_SEARCH, "claude-code-20250219", "output-128k-2025-02-19", "per-turn-control-2026-07-01", "structured-outputs-2025-11-13"),
        *("token-efficient-tools-2025-02-19", "tool-examples-2025-10-29", "web-search-2025-03-05"),
        _MESSAGE_EFFORT,
    },
    renamed_betas=_RENAMED,
    refused_hints=_ANTHROPIC_HINTS,
    refused_fields=_ANTHROPIC_FIELDS,
    message_config_models=re.compile(r"claude-(fable-5-1|opus-5-5)"),
)
VERTEX = ClaudeHost(
    betas=_COMMON
    | _MIDWAY
    | {
        *(_TOOL_SEARCH, "afk-mode-2026-01-31", "claude-code-20250219", "compact-2026-09-04", "extended-cache-ttl-2025-04-11"),
        *("fallback-credit-2026-06-01", "fallback-credit-2026-07-01", "inline-tools-2026-09-15", "output-128k-2025-02-19"),
        *("mid-conversation-system-clear-at-2026-08-21", "model-context-window-exceeded-2025-08-26", "pdfs-2024-09-25"),
        *("per-turn-control-2026-07-01", "prompt-caching-2024-07-31", "prompt-caching-scope-2026-01-05", "redact-thinking-2026-02-12"),
        *("server-side-fallback-2026-06-01", "structured-outputs-2025-11-13", "structured-outputs-2025-12-15"),
        *("task-budgets-2026-03-13", "thinking-token-count-2026-05-13", "token-counting-2024-11-01"),
        *("token-efficient-tools-2025-02-19", "tool-examples-2025-10-29", "web-search-2025-03-05"),
    },
    renamed_betas=_RENAMED,
    refused_hints=_ANTHROPIC_HINTS,
    refused_fields=_ANTHROPIC_FIELDS,
    message_config_models=re.compile("claude"),
)
# Features that Microsoft Foundry has only where Anthropic runs the deployment.
_HOSTED_ON_ANTHROPIC = frozenset({"code-execution-2025-08-25", "files-api-2025-04-14", "skills-2025-10-02"})
# No deployment on Foundry has these, however it is hosted.
_NOT_ON_FOUNDRY = r"advisor_|(?:computer|browser)_toolset_"
FOUNDRY = ClaudeHost(
    betas=frozenset(
        {
            *("advanced-tool-use-2025-11-20", "compact-2026-01-12", "computer-use-2025-01-24", "computer-use-2025-11-24"),
            *("context-1m-2025-08-07", "context-management-2025-06-27", "dangerous-tool-use-2026-09-03", "effort-2025-11-24"),
            *("interleaved-thinking-2025-05-14", "mcp-client-2025-04-04", "mcp-client-2025-11-20", "prompt-caching-scope-2026-01-05"),
            *("structured-outputs-2025-11-13", "thinking-display-updates-2026-08-18", "web-fetch-2025-09-10", "web-search-2025-03-05"),
        }
    )
    | _HOSTED_ON_ANTHROPIC,
    refused_tools=re.compile(_NOT_ON_FOUNDRY),
    refused_hints=_ANTHROPIC_HINTS,
    refused_fields=(_ANTHROPIC_FIELDS - {"mcp_servers", "container"}) | {"fallbacks"},
    takes_mid_system=False,
)
# "Hosted on Azure". Its searches and fetches are the basic ones; calls from code go with the execution of code.
FOUNDRY_ON_AZURE = replace(
    FOUNDRY,
    betas=FOUNDRY.betas - _HOSTED_ON_ANTHROPIC,
    refused_tools=re.compile(rf"{_NOT_ON_FOUNDRY}|code_execution_|web_search_(?!20250305$)|web_fetch_(?!20250910$)"),
    refused_tool_hints=frozenset({"allowed_callers"}),
    refused_fields=FOUNDRY.refused_fields | {"container"},
)
