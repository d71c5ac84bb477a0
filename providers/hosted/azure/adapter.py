"""Azure OpenAI and Azure AI Foundry: OpenAI's dialects at Azure's URLs.

Recorded: azure_openai/*. Source: https://learn.microsoft.com/azure/ai-foundry/openai/api-version-lifecycle, read 2026-11.
"""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar
from urllib.parse import quote

import httpx

from providers.adapters.openai_compatible import OpenAICompatible
from providers.adapters.provider import Adapted, InvalidOption, Provider
from providers.adapters.urls import DIALECT_PATHS
from providers.canonical.raw_json import NULL, Body
from providers.dialects.openai_responses import remove_encrypted_reasoning
from providers.fields import restricted_fields
from providers.profiles.gpt import is_reasoning_model, may_reason, rename_max_tokens
from providers.structured_output import Constraint

# Versions of the API whose URLs do not name the deployment.
_V1_API_VERSIONS = ("v1", "preview", "latest")
_FOUNDRY_API_VERSION = "2024-05-01-preview"
# Paths of base URLs as people copy them from the portal.
_PORTAL_SUFFIXES = ("/openai/v1", "/openai", "/models")
_BASE_URLS = {"openai": "https://RESOURCE.openai.azure.com", "models": "https://RESOURCE.services.ai.azure.com"}


class Azure(OpenAICompatible):
    """The target's model is the name of a deployment. The option `api = "models"` selects Foundry, with models of all makers."""

    name: ClassVar[str] = "azure"
    restricted_fields: Mapping[str, str] = restricted_fields(("data_sources",))
    default_base_url: ClassVar[str | None] = _BASE_URLS["openai"]
    model_in_url: ClassVar[bool] = True
    reports_rate_limits: ClassVar[bool] = True
    known_options: ClassVar[Mapping[str, str]] = {
        **Provider.known_options,
        "resource": "the resource's name: the default of base_url is made from it",
        "api": '"openai" (default), or "models": Foundry\'s API, for models of all makers',
        "api_version": "a dated API version, for URLs that name the deployment; default: /openai/v1, which needs no version",
    }

    def __init__(
        self, configured_as: str, options: Mapping[str, Any], version: tuple[int, ...] | None = None, base_url: str | None = None
    ) -> None:
        """Raises InvalidOption."""
        super().__init__(configured_as, options, version, base_url)
        for option in ("resource", "api_version"):
            value = options.get(option, "x")
            if not isinstance(value, str) or not value or quote(value, safe="") != value:
                raise InvalidOption(f"Option {option} must be a name without characters that a URL escapes.")
        if options.get("api", "openai") not in _BASE_URLS:
            raise InvalidOption('Option api must be "openai" or "models".')
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
        """Only the v1 API has Responses; Foundry has chat and embeddings."""
        if self._dialects:
            return self._dialects
        if not self.is_openai_host:
            return ("openai_chat", "openai_embeddings")
        return super().spoken_dialects if self._uses_v1_api else self.dialects

    @property
    def _uses_v1_api(self) -> bool:
        return self._api_version is None or self._api_version in _V1_API_VERSIONS

    def url(self, base_url: str, dialect: str, model: str = "", stream: bool = False) -> httpx.URL:
        path = DIALECT_PATHS.get(dialect)
        root = self._resource_root(base_url)
        if path is None:
            return super().url(f"{root}/openai/v1", dialect, model, stream)
        version = self._api_version
        if not self.is_openai_host:
            return httpx.URL(f"{root}/models{path}", params={"api-version": version or _FOUNDRY_API_VERSION})
        if self._uses_v1_api or dialect == "openai_responses":
            version_param = version if version in ("preview", "latest") else None
            return httpx.URL(f"{root}/openai/v1{path}", params={"api-version": version_param} if version_param else None)
        return httpx.URL(f"{root}/openai/deployments/{quote(model, safe='')}{path}", params={"api-version": version})

    def display_url(self, base_url: str) -> str:
        if base_url != self.default_base_url:
            return base_url
        return _BASE_URLS[self.options.get("api", "openai")].replace("RESOURCE", self.options.get("resource", "RESOURCE"))

    def _resource_root(self, base_url: str) -> str:
        root = self.display_url(base_url.rstrip("/"))
        return next((root.removesuffix(suffix) for suffix in _PORTAL_SUFFIXES if root.endswith(suffix)), root)

    def headers(self, credential: str | None, dialect: str = "") -> list[tuple[str, str]]:
        """An Entra token is a JWT and goes into `authorization`; a key is never one and goes into `api-key`."""
        if not credential:
            return []
        is_token = credential.startswith("eyJ") and credential.count(".") == 2
        return [("authorization", f"Bearer {credential}") if is_token else ("api-key", credential)]

    def set_model(self, body: Body, dialect: str, model: str, stream: bool) -> None:
        super().set_model(body, dialect, model, stream)
        # A deployment whose name does not tell its model is asked for encrypted reasoning, which it may refuse: body_after_refusal().
        if dialect == "openai_responses" and not may_reason(model):
            remove_encrypted_reasoning(body)

    def adapt_request(self, body: Body, dialect: str, may_drop: Callable[[str], bool], constraint: Constraint | None = None) -> Adapted:
        adapted = super().adapt_request(body, dialect, may_drop, constraint)
        if dialect != "openai_chat":
            return adapted
        if self.is_openai_host:
            rename_max_tokens(body)
        elif not is_reasoning_model(body.value("model")):
            _rename_max_completion_tokens(body)
        return adapted


def _rename_max_completion_tokens(body: Body) -> None:
    """Foundry has only `max_tokens`: `max_completion_tokens` is renamed to it.

    Source: https://learn.microsoft.com/rest/api/aifoundry/model-inference/get-chat-completions, read 2026-11.
    """
    max_completion_tokens = body.pop("max_completion_tokens", NULL)
    if max_completion_tokens != NULL:
        body["max_tokens"] = max_completion_tokens
