"""Azure OpenAI, and the models of Azure's Foundry: OpenAI's dialects at addresses of Azure's own.

Recorded: azure_openai/*. Source: https://learn.microsoft.com/azure/ai-foundry/openai/api-version-lifecycle, read 2026-11.
"""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar
from urllib.parse import quote

import httpx

from providers.guided import Constraint
from providers.hosted.openai import name_max_tokens, reasons
from providers.provider import PATHS, BadOption, Bent, Provider
from providers.wire import NULL, Body

# Versions of the API whose addresses name no deployment.
_NEW = ("v1", "preview", "latest")
_FOUNDRYS_VERSION = "2024-05-01-preview"
# What people copy out of the portal behind the resource's address.
_TAILS = ("/openai/v1", "/openai", "/models")
_ADDRESSES = {"openai": "https://RESOURCE.openai.azure.com", "models": "https://RESOURCE.services.ai.azure.com"}


class Azure(Provider):
    """A target's model is the deployment's name. `api = "models"`: Foundry's, of models that are not OpenAI's too."""

    name: ClassVar[str] = "azure"
    default_base_url: ClassVar[str | None] = _ADDRESSES["openai"]
    addresses_models: ClassVar[bool] = True
    tells_allowance: ClassVar[bool] = True
    known_options: ClassVar[Mapping[str, str]] = {
        **Provider.known_options,
        "resource": "the resource's name, of which its address is made where base_url is not said",
        "api": 'which of its APIs: "openai" (default) or "models", Foundry\'s of all its models',
        "api_version": "a dated version, whose addresses name the deployment; absent: /openai/v1, which needs none",
    }

    def __init__(
        self, configured_as: str, options: Mapping[str, Any], version: tuple[int, ...] | None = None, base_url: str | None = None
    ) -> None:
        """Raises BadOption."""
        super().__init__(configured_as, options, version, base_url)
        for option in ("resource", "api_version"):
            said = options.get(option, "x")
            if not isinstance(said, str) or not said or quote(said, safe="") != said:
                raise BadOption(f"Option {option} of provider {configured_as!r} must be a name as it stands in an address.")
        if options.get("api", "openai") not in _ADDRESSES:
            raise BadOption(f'Option api of provider {configured_as!r} may be "openai" or "models".')
        self._api_version: str | None = options.get("api_version")

    @property
    def wants_address(self) -> str | None:
        return None if "resource" in self.options else 'its address is its resource\'s, which no option names (resource = "...") either.'

    @property
    def at_openai(self) -> bool:
        """Its models are OpenAI's own, as far as can be known."""
        return self.options.get("api", "openai") == "openai"

    @property
    def spoken(self) -> tuple[str, ...]:
        """Responses are at its newest addresses alone, and Foundry has chat and embeddings."""
        if self._dialects:
            return self._dialects
        if not self.at_openai:
            return ("openai_chat", "openai_embeddings")
        return super().spoken if self._is_new else self.dialects

    @property
    def _is_new(self) -> bool:
        return self._api_version is None or self._api_version in _NEW

    def url(self, base_url: str, dialect: str, model: str = "", stream: bool = False) -> httpx.URL:
        path = PATHS.get(dialect)
        root = self._root(base_url)
        if path is None:
            return super().url(f"{root}/openai/v1", dialect, model, stream)
        version = self._api_version
        if not self.at_openai:
            return httpx.URL(f"{root}/models{path}", params={"api-version": version or _FOUNDRYS_VERSION})
        if self._is_new or dialect == "openai_responses":
            asked = version if version in ("preview", "latest") else None
            return httpx.URL(f"{root}/openai/v1{path}", params={"api-version": asked} if asked else None)
        return httpx.URL(f"{root}/openai/deployments/{quote(model, safe='')}{path}", params={"api-version": version})

    def place(self, base_url: str) -> str:
        if base_url != self.default_base_url:
            return base_url
        return _ADDRESSES[self.options.get("api", "openai")].replace("RESOURCE", self.options.get("resource", "RESOURCE"))

    def _root(self, base_url: str) -> str:
        root = self.place(base_url.rstrip("/"))
        return next((root.removesuffix(tail) for tail in _TAILS if root.endswith(tail)), root)

    def headers(self, credential: str | None, dialect: str = "") -> list[tuple[str, str]]:
        """A token of Entra's is a JWT, which no key is."""
        if not credential:
            return []
        is_token = credential.startswith("eyJ") and credential.count(".") == 2
        return [("authorization", f"Bearer {credential}") if is_token else ("api-key", credential)]

    def bend(self, body: Body, dialect: str, may_drop: Callable[[str], bool], constraint: Constraint | None = None) -> Bent:
        bent = super().bend(body, dialect, may_drop, constraint)
        if dialect != "openai_chat":
            return bent
        if self.at_openai:
            name_max_tokens(body)
        elif not reasons(body.value("model")):
            _name_older(body)
        return bent


def _name_older(body: Body) -> None:
    """Foundry knows `max_tokens`, whose newer name is OpenAI's alone.

    Source: https://learn.microsoft.com/rest/api/aifoundry/model-inference/get-chat-completions, read 2026-11.
    """
    newer = body.pop("max_completion_tokens", NULL)
    if newer != NULL:
        body["max_tokens"] = newer
