"""Claude on Microsoft Foundry: Anthropic's API at a resource on Azure, with what Foundry lacks of it.

Sources: docs/sources.md#claude-on-foundry; src/anthropic/lib/foundry.py of anthropics/anthropic-sdk-python; read 2026-11.
"""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import httpx2
from msgspec.structs import replace

from providers.adapters.options import InvalidOption
from providers.adapters.provider import Adapted, Provider
from providers.adapters.urls import DIALECT_PATHS
from providers.canonical.chat import ChatRequest
from providers.canonical.raw_json import Body
from providers.drop_policy import DropPolicy
from providers.hosted.anthropic.adapter import Anthropic
from providers.hosted.azure.resource import RESOURCE_OPTION, authorization, check_url_option, resource_root
from providers.hosted.rules.claude_hosts import FOUNDRY, FOUNDRY_ON_AZURE
from providers.hosted.rules.claude_options import CLAUDE_OPTIONS
from providers.profiles.claude import request_body
from providers.profiles.claude.adapt_chat import adapt_claude_chat
from providers.profiles.claude.host import ClaudeHost
from providers.profiles.claude.models import ClaudeProfile, find_deployment_profile
from providers.profiles.claude.own_rules import breaks_rules
from providers.structured_output import Constraint

FOUNDRY_OPTIONS: Mapping[str, str] = {
    "hosting": 'for api = "anthropic": how Claude\'s deployments are hosted, "azure" or "anthropic"; default: not known',
    "structured_outputs": 'for api = "anthropic": false: its deployments take no schemas, which are asked for in the prompt, and checked',
    "deployments": 'for api = "anthropic": the models of deployments whose names do not tell them: { "our-chat" = "claude-opus-5" }',
}
_BASE_URL = "https://RESOURCE.services.ai.azure.com"
_HOSTS: Mapping[str | None, ClaudeHost] = {None: FOUNDRY, "anthropic": FOUNDRY, "azure": FOUNDRY_ON_AZURE}
_MESSAGES = "anthropic_messages"


class ClaudeOnFoundry(Anthropic):
    """The adapter `anthropic` at the address of a resource. The target's model is the name of a deployment.

    Foundry has no list of models and no headers for rate limits, and does not drop thinking blocks that are bound elsewhere.
    """

    reports_rate_limits: ClassVar[bool] = False
    model_list_path: ClassVar[str | None] = None
    binding_controls_beta: ClassVar[str | None] = None

    def __init__(
        self, configured_as: str, options: Mapping[str, Any], version: tuple[int, ...] | None = None, base_url: str | None = None
    ) -> None:
        """Raises InvalidOption."""
        super().__init__(configured_as, options, version, base_url)
        hosting, schemas, deployments = (options.get(each) for each in FOUNDRY_OPTIONS)
        if hosting not in _HOSTS:
            raise InvalidOption('Option hosting must be "azure" or "anthropic".')
        if schemas not in (None, True, False):
            raise InvalidOption("Option structured_outputs must be true or false.")
        if deployments is not None and not _is_names(deployments):
            raise InvalidOption("Option deployments must be a table of names of deployments, with the name of a model for each.")
        self.claude_host = self._host = _HOSTS[hosting]
        self._takes_schemas = schemas is not False
        self._models: Mapping[str, str] = deployments or {}

    def headers(self, credential: str | None, dialect: str = "") -> list[tuple[str, str]]:
        return [*authorization(credential), *super().headers(None, dialect)]

    def _profile_of(self, deployment: str) -> ClaudeProfile:
        """The rules of its model at this host. Of a deployment whose name tells no model those of the newest."""
        profile = find_deployment_profile(self._models.get(deployment, deployment))
        changes: dict[str, Any] = {}
        if profile.mid_system == "yes" and not self._host.takes_mid_system:
            changes["mid_system"] = "refused"
        if not self._takes_schemas:
            changes["supports_schemas"] = False
        return replace(profile, **changes) if changes else profile

    def continues_text(self, dialect: str, model: str) -> bool:
        return dialect == _MESSAGES and self._profile_of(model).supports_prefill

    def adapt_chat(self, chat: ChatRequest, dialect: str, drop_policy: DropPolicy) -> ChatRequest:
        return adapt_claude_chat(chat, drop_policy, self._profile_of(chat.model), native="all") if dialect == _MESSAGES else chat

    def must_adapt_as_chat(self, body: Body, dialect: str, model: str) -> bool:
        return dialect == _MESSAGES and breaks_rules(body, self._profile_of(model))

    def adapt_request(self, body: Body, dialect: str, may_drop: Callable[[str], bool], constraint: Constraint | None = None) -> Adapted:
        adapted = super().adapt_request(body, dialect, may_drop, constraint)
        if dialect == _MESSAGES:
            drop_policy = self.drop_policy(body, may_drop)
            self._host.adapt_body(body, str(body.value("model") or ""), drop_policy)
            request_body.drop_false_strict(body.get("tools"))
            adapted.dropped += drop_policy.dropped
        return adapted


class AzureClaude(ClaudeOnFoundry):
    """The adapter `azure` with the option `api = "anthropic"`."""

    name: ClassVar[str] = "azure"
    default_base_url: ClassVar[str | None] = _BASE_URL
    known_options: ClassVar[Mapping[str, str]] = {
        **Provider.known_options,
        **RESOURCE_OPTION,
        **CLAUDE_OPTIONS,
        **FOUNDRY_OPTIONS,
        "api": '"anthropic"',
    }

    def __init__(
        self, configured_as: str, options: Mapping[str, Any], version: tuple[int, ...] | None = None, base_url: str | None = None
    ) -> None:
        """Raises InvalidOption."""
        super().__init__(configured_as, options, version, base_url)
        check_url_option(options, "resource")

    @property
    def base_url_required_reason(self) -> str | None:
        return None if "resource" in self.options else "its URL contains the name of a resource, and the option `resource` is not set."

    def display_url(self, base_url: str) -> str:
        return _BASE_URL.replace("RESOURCE", self.options.get("resource", "RESOURCE")) if base_url == _BASE_URL else base_url

    def url(self, base_url: str, dialect: str, model: str = "", stream: bool = False) -> httpx2.URL:
        root = f"{resource_root(self.display_url(base_url))}/anthropic/v1"
        path = DIALECT_PATHS.get(dialect)
        return super().url(root, dialect, model, stream) if path is None else httpx2.URL(root + path)


def _is_names(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(each, str) for each in value.values())  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
