"""How each coding agent and editor is pointed at a gateway, in the form of its own configuration.

Sources, read 2026-11: the clients' own documentation, and what the unmodified clients sent to a recorder (docs/clients.md names their
versions). The key is never written: configurations name the environment variable KEY_VARIABLE, or say where to type it.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
import tomli_w
from msgspec import Struct

KEY_VARIABLE = "NARTHEX_API_KEY"
_DEFAULT_CONTEXT_TOKENS = 128_000  # Zed and opencode need a number where the gateway knows none
_OUTPUT_TOKENS = 32_000


class Model(Struct, frozen=True):
    """A model that a key may use. `context_tokens` and `capabilities` are None where they are not known."""

    id: str
    context_tokens: int | None = None
    capabilities: tuple[str, ...] | None = None

    def can(self, capability: str) -> bool:
        """Whether it has a capability, such as `tools`; True where that is not known: whoever configures it wants to use it."""
        return self.capabilities is None or capability in self.capabilities


class Target(Struct, frozen=True):
    """The gateway as a client reaches it: its address without /v1, the model to begin with, and all that the key may use."""

    url: str
    model: str
    models: Sequence[Model]


class Step(Struct, frozen=True):
    """A text to paste, and where: a file, a shell, or a page of settings."""

    place: str
    text: str


def _shell(**variables: str) -> Step:
    lines = [f"export {name}={value}" for name, value in variables.items()]
    return Step("in the shell (or your shell's profile)", "\n".join(lines))


def _json(place: str, document: Any) -> Step:
    return Step(place, msgspec.json.format(msgspec.json.encode(document), indent=2).decode())


def _codex(target: Target) -> list[Step]:
    """Codex replaces its own catalogue of models by that of the gateway, so that it can choose each of them."""
    provider = {
        "name": "Narthex",
        "base_url": f"{target.url}/v1",
        "env_key": KEY_VARIABLE,
        "wire_api": "responses",
        "model_catalog_url": f"{target.url}/v1/models",
    }
    document = {
        "model": target.model,
        "model_provider": "narthex",
        "model_providers": {"narthex": provider},
        "features": {"api_key_model_discovery": True},
    }
    return [Step("in ~/.codex/config.toml", tomli_w.dumps(document).rstrip())]


def _claude_code(target: Target) -> list[Step]:
    """Claude Code uses a small model for titles and summaries, by a name of Anthropic's unless it is given one."""
    return [
        _shell(
            ANTHROPIC_BASE_URL=target.url,
            ANTHROPIC_AUTH_TOKEN=f'"${KEY_VARIABLE}"',
            ANTHROPIC_MODEL=_quote(target.model),
            ANTHROPIC_DEFAULT_HAIKU_MODEL=_quote(target.model),
        )
    ]


def _gemini_cli(target: Target) -> list[Step]:
    return [
        _shell(GOOGLE_GEMINI_BASE_URL=target.url, GEMINI_API_KEY=f'"${KEY_VARIABLE}"', GEMINI_MODEL=_quote(target.model)),
        _json("in ~/.gemini/settings.json", {"security": {"auth": {"selectedType": "gemini-api-key"}}}),
    ]


def _opencode(target: Target) -> list[Step]:
    models = {
        each.id: {
            "name": each.id,
            "limit": {"context": each.context_tokens or _DEFAULT_CONTEXT_TOKENS, "output": _output_tokens(each)},
            "tool_call": each.can("tools"),
        }
        for each in target.models
    }
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "name": "Narthex",
        "options": {"baseURL": f"{target.url}/v1", "apiKey": f"{{env:{KEY_VARIABLE}}}"},
        "models": models,
    }
    document = {"$schema": "https://opencode.ai/config.json", "model": f"narthex/{target.model}", "provider": {"narthex": provider}}
    return [_json("in ~/.config/opencode/opencode.json", document)]


def _zed(target: Target) -> list[Step]:
    models = [
        {
            "name": each.id,
            "display_name": each.id,
            "max_tokens": each.context_tokens or _DEFAULT_CONTEXT_TOKENS,
            "max_output_tokens": _output_tokens(each),
            "capabilities": {
                "tools": each.can("tools"),
                "images": each.can("vision"),
                "parallel_tool_calls": each.can("tools"),
                "prompt_cache_key": True,
            },
        }
        for each in target.models
    ]
    compatible = {"Narthex": {"api_url": f"{target.url}/v1", "available_models": models}}
    document = {
        "language_models": {"openai_compatible": compatible},
        "agent": {"default_model": {"provider": "Narthex", "model": target.model}},
    }
    return [
        _json("in Zed's settings.json", document),
        Step("in the environment that Zed starts in, or in its Agent settings", f"{KEY_VARIABLE}: your key"),
    ]


def _cursor(target: Target) -> list[Step]:
    """Cursor's own servers send the requests."""
    return [
        Step(
            "in Cursor's Settings, Models",
            f"OpenAI API Key: your key\nOverride OpenAI Base URL: {target.url}/v1\nAdd Custom Model: {_names(target)}",
        ),
        Step("before that", "Cursor's servers send the requests: the gateway must be reachable from the internet by https."),
    ]


def _jetbrains(target: Target) -> list[Step]:
    return [
        Step(
            "in Settings, Tools, AI Assistant, Models, Third-party AI providers",
            f"Provider: OpenAI-compatible\nURL: {target.url}/v1\nAPI key: your key\nModels: {_names(target)}",
        )
    ]


def _names(target: Target) -> str:
    return ", ".join(each.id for each in target.models)


def _output_tokens(model: Model) -> int:
    return min(_OUTPUT_TOKENS, (model.context_tokens or _DEFAULT_CONTEXT_TOKENS) // 2)


def _quote(value: str) -> str:
    return "'" + value.replace("'", "'\\''") + "'"


CONFIGURATIONS: Mapping[str, Callable[[Target], list[Step]]] = {
    "codex": _codex,
    "claude-code": _claude_code,
    "gemini-cli": _gemini_cli,
    "opencode": _opencode,
    "cursor": _cursor,
    "zed": _zed,
    "jetbrains": _jetbrains,
}
