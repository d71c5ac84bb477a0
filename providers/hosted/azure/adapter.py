"""Azure OpenAI and Azure AI Foundry: OpenAI's dialects at Azure's URLs.

Recorded: azure_openai/*. Source: https://learn.microsoft.com/azure/ai-foundry/openai/api-version-lifecycle, read 2026-11.
"""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar
from urllib.parse import quote

import httpx2

from providers.adapters.options import InvalidOption
from providers.adapters.provider import Adapted
from providers.adapters.urls import DIALECT_PATHS
from providers.canonical.raw_json import NULL, Body
from providers.dialects.openai_responses import remove_encrypted_reasoning
from providers.fields import restricted_fields
from providers.hosted.azure.claude import FOUNDRY_OPTIONS
from providers.hosted.azure.resource import RESOURCE_OPTION, authorization, check_url_option, resource_root
from providers.hosted.rules.claude_options import CLAUDE_OPTIONS
from providers.hosted.rules.foreign_members import drop_foreign_members
from providers.hosted.rules.model_rules import ModelHosting, adapt_to_model
from providers.hosted.rules.openai_models import OpenAIModels
from providers.profiles.gpt.adapt_request import adapt_request
from providers.profiles.gpt.models import find_rules
from providers.profiles.gpt.token_limit import is_reasoning_model, may_reason, rename_max_tokens
from providers.structured_output import Constraint

# Versions of the API whose URLs do not name the deployment.
_V1_API_VERSIONS = ("v1", "preview", "latest")
_FOUNDRY_API_VERSION = "2024-05-01-preview"
# How its models of other makers are told not to think is not documented.
_FOUNDRY_MODELS = ModelHosting()
_BASE_URLS = {"openai": "https://RESOURCE.openai.azure.com", "models": "https://RESOURCE.services.ai.azure.com"}


class Azure(OpenAIModels):
    """The target's model is the name of a deployment. The option `api = "models"` selects Foundry, with models of all makers.

    With `api = "anthropic"` the provider is an AzureClaude: see catalogue.py.
    """

    name: ClassVar[str] = "azure"
    restricted_fields: Mapping[str, str] = restricted_fields(("data_sources",))
    default_base_url: ClassVar[str | None] = _BASE_URLS["openai"]
    model_in_url: ClassVar[bool] = True
    reports_rate_limits: ClassVar[bool] = True
    known_options: ClassVar[Mapping[str, str]] = {
        **OpenAIModels.known_options,
        **RESOURCE_OPTION,
        "api": '"openai" (default), "models": Foundry\'s API, for models of all makers, or "anthropic": Claude on Foundry',
        "api_version": "a dated API version, for URLs that name the deployment; default: /openai/v1, which needs no version",
        **CLAUDE_OPTIONS,
        **FOUNDRY_OPTIONS,
    }

    def __init__(
        self, configured_as: str, options: Mapping[str, Any], version: tuple[int, ...] | None = None, base_url: str | None = None
    ) -> None:
        """Raises InvalidOption."""
        super().__init__(configured_as, options, version, base_url)
        self.thinking_fields = frozenset[str]() if self.is_openai_host else None
        for option in ("resource", "api_version"):
            check_url_option(options, option)
        if options.get("api", "openai") not in _BASE_URLS:
            raise InvalidOption('Option api must be "openai", "models" or "anthropic".')
        if claude_options := (CLAUDE_OPTIONS.keys() | FOUNDRY_OPTIONS.keys()) & options.keys():
            raise InvalidOption(f'Option {min(claude_options)} is about Claude, and needs api = "anthropic".')
        self._api_version: str | None = options.get("api_version")

    @property
    def base_url_required_reason(self) -> str | None:
        return None if "resource" in self.options else "its URL contains the name of a resource, and the option `resource` is not set."

    @property
    def is_openai_host(self) -> bool:
        """True for Azure OpenAI, whose deployments are taken for OpenAI's models; False for Foundry."""
        return self.options.get("api", "openai") == "openai"

    @property
    def spoken_dialects(self) -> tuple[str, ...]:
        """Its dialects, best first. Only the v1 API has Responses; Foundry has chat and embeddings."""
        if self._dialects:
            return self._dialects
        if not self.is_openai_host:
            return ("openai_chat", "openai_embeddings")
        return super().spoken_dialects if self._uses_v1_api else self.dialects

    @property
    def _uses_v1_api(self) -> bool:
        return self._api_version is None or self._api_version in _V1_API_VERSIONS

    def url(self, base_url: str, dialect: str, model: str = "", stream: bool = False) -> httpx2.URL:
        path = DIALECT_PATHS.get(dialect)
        root = resource_root(self.display_url(base_url.rstrip("/")))
        if path is None:
            return super().url(f"{root}/openai/v1", dialect, model, stream)
        version = self._api_version
        if not self.is_openai_host and dialect != "openai_responses":
            return httpx2.URL(f"{root}/models{path}", params={"api-version": version or _FOUNDRY_API_VERSION})
        if self._uses_v1_api or dialect == "openai_responses":
            version_param = version if version in ("preview", "latest") else None
            return httpx2.URL(f"{root}/openai/v1{path}", params={"api-version": version_param} if version_param else None)
        return httpx2.URL(f"{root}/openai/deployments/{quote(model, safe='')}{path}", params={"api-version": version})

    def display_url(self, base_url: str) -> str:
        if base_url != self.default_base_url:
            return base_url
        return _BASE_URLS[self.options.get("api", "openai")].replace("RESOURCE", self.options.get("resource", "RESOURCE"))

    def headers(self, credential: str | None, dialect: str = "") -> list[tuple[str, str]]:
        return authorization(credential)

    def set_model(self, body: Body, dialect: str, model: str, stream: bool) -> None:
        super().set_model(body, dialect, model, stream)
        # A deployment whose name does not tell its model is asked for encrypted reasoning, which it may refuse: body_after_refusal().
        if dialect == "openai_responses" and not may_reason(model):
            remove_encrypted_reasoning(body)

    def adapt_request(self, body: Body, dialect: str, may_drop: Callable[[str], bool], constraint: Constraint | None = None) -> Adapted:
        adapted = super().adapt_request(body, dialect, may_drop, constraint)
        if dialect != "openai_chat":
            return adapted
        drop_policy = self.drop_policy(body, may_drop)
        drop_foreign_members(body, drop_policy)
        adapted.dropped += drop_policy.dropped
        if self.is_openai_host:
            rename_max_tokens(body)
        elif (rules := find_rules(str(body.value("model") or ""))) is not None and (
            rules.efforts or is_reasoning_model(body.value("model"))
        ):
            drop_policy = self.drop_policy(body, may_drop)
            adapt_request(body, dialect, rules, drop_policy)
            adapted.dropped += drop_policy.dropped
        else:
            _rename_max_completion_tokens(body)
            drop_policy = self.drop_policy(body, may_drop)
            adapt_to_model(body, dialect, _FOUNDRY_MODELS, drop_policy)
            adapted.dropped += drop_policy.dropped
        return adapted


def _rename_max_completion_tokens(body: Body) -> None:
    """Foundry has only `max_tokens`: `max_completion_tokens` is renamed to it.

    Source: https://learn.microsoft.com/rest/api/aifoundry/model-inference/get-chat-completions, read 2026-11.
    """
    max_completion_tokens = body.pop("max_completion_tokens", NULL)
    if max_completion_tokens != NULL:
        body["max_tokens"] = max_completion_tokens
