"""The models as the Codex CLI reads its catalogue: GET /v1/models?client_version=VERSION.

Codex rejects a catalogue of which one entry cannot be decoded, so each entry has every field that releases since 0.140 demand, with values
that all of them know. Sources: requests of Codex 0.171; LiteLLM 1.110, proxy/common_utils/codex_model_translation.py; read 2026-11.
"""

from collections.abc import Mapping
from typing import Any

from app.gateway.routing.model_facts import ModelFacts

PARAMETER = "client_version"
# Codex demands a prompt for each model, and has none for those that it does not know.
INSTRUCTIONS = """\
You are a coding agent in the user's workspace. Work on what the user asks for until it is done, and say what you did.

- Look before you change: read the files that matter, and find out how the project builds and tests itself.
- Make the smallest change that solves the whole task, in the style of the code around it. Leave alone what you were not asked about.
- Check your work by running what the project has for that. Report failures as they are.
- Ask before anything that cannot be undone. Never discard changes that are not yours.
- Answer briefly, in plain text."""
# Of models that reason: what each of our targets takes or is given the nearest of.
_EFFORTS: Mapping[str, str] = {"low": "Thinks little", "medium": "Thinks as much as is usual", "high": "Thinks more, and takes longer"}


def serves_chats(facts: ModelFacts) -> bool:
    """Whether Codex can use a model, as far as is known."""
    return facts.capabilities is None or "chat" in facts.capabilities


def codex_model(name: str, facts: ModelFacts, priority: int) -> dict[str, Any]:
    """An entry of the catalogue. Models with a low `priority` come first."""
    capabilities = facts.capabilities
    reasons = capabilities is not None and "reasoning" in capabilities
    efforts = [{"effort": effort, "description": description} for effort, description in _EFFORTS.items()] if reasons else []
    return {
        "slug": name,
        "display_name": name,
        "description": None,
        **({"default_reasoning_level": "medium"} if reasons else {}),
        "supported_reasoning_levels": efforts,
        "shell_type": "unified_exec",
        "visibility": "list",
        "supported_in_api": True,
        "priority": priority,
        "service_tiers": [],
        "availability_nux": None,
        "upgrade": None,
        "support_verbosity": False,
        "default_verbosity": None,
        "supports_reasoning_summaries": reasons,
        "supports_parallel_tool_calls": capabilities is not None and "tools" in capabilities,
        "apply_patch_tool_type": None,
        "truncation_policy": {"mode": "tokens", "limit": 10_000},
        "experimental_supported_tools": [],
        "input_modalities": ["text", "image"] if capabilities is None or "vision" in capabilities else ["text"],
        "context_window": facts.context_length,
        "base_instructions": INSTRUCTIONS,
        "supports_search_tool": False,
        "use_responses_lite": False,
    }
