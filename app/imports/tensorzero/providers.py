"""Providers of models: `[models.NAME.providers.NAME]`, and short-hand names such as `openai::gpt-5`."""

import re
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from app.domain.routing import ProviderConfig
from app.imports.base_urls import read_base_url
from app.imports.draft import Draft
from app.imports.report import Report
from app.imports.source_table import SourceTable
from app.imports.tensorzero.credentials import CredentialReader
from providers.catalogue import ADAPTERS

_MESSAGES_PATH = re.compile(r"(/v1)?/messages/?$")
_VERTEX_PATH = re.compile(r"projects/([^/]+)/locations/([^/]+)/(?:publishers/[^/]+/models/([^/]+)|endpoints/([^/]+))")
_RESPONSES = "responses"
_AWS_KEYS = ("access_key_id", "secret_access_key", "session_token")
_EXTRA_BODY_ADVICE = "Requests are not edited on their way: callers send the field, or a variant has it in its `params`."
_LEFT_OUT: Mapping[str, str] = {
    "extra_body": _EXTRA_BODY_ADVICE,
    "provider_tools": "Callers send the host's own tools among their `tools`.",
    "discard_unknown_chunks": "Parts of a stream that are not known are passed on to callers whose API is the host's, and else left out.",
    "batch_cost": "A price's `tiers` has factors for batches: { batch = 0.5 }.",
    "include_encrypted_reasoning": "Reasoning models of the Responses API are asked for it by themselves.",
    "content_type_overrides": "Files are sent as the provider's API has them.",
    "prompt_mode": "Callers send it, or a variant has it in its `params`.",
    "reasoning_format": "Callers send it, or a variant has it in its `params`.",
}

_VERTEX_KEY = "path_from_env::GCP_VERTEX_CREDENTIALS_PATH"

_LEFT_OUT_OF_TYPES: Mapping[str, str] = {"sft": "Models are not fine-tuned here.", "batch": "Batches are not served."}


class ProviderType(Struct, frozen=True):
    """A type of provider that TensorZero has, and our adapter for it."""

    adapter: str
    key_location: str | None = None  # where TensorZero looks for the key by itself
    model_key: str = "model_name"  # the field with the provider's own name of the model
    shorthand: bool = False


PROVIDER_TYPES: Mapping[str, ProviderType] = {
    "anthropic": ProviderType("anthropic", "env::ANTHROPIC_API_KEY", shorthand=True),
    "aws_bedrock": ProviderType("bedrock", model_key="model_id"),
    "aws_sagemaker": ProviderType("sagemaker", model_key="endpoint_name"),
    "azure": ProviderType("azure", "env::AZURE_API_KEY", "deployment_id"),
    "deepseek": ProviderType("deepseek", "env::DEEPSEEK_API_KEY", shorthand=True),
    "fireworks": ProviderType("fireworks", "env::FIREWORKS_API_KEY", shorthand=True),
    "gcp_vertex_anthropic": ProviderType("vertex", _VERTEX_KEY, "model_id", shorthand=True),
    "gcp_vertex_gemini": ProviderType("vertex", _VERTEX_KEY, "model_id", shorthand=True),
    "google_ai_studio_gemini": ProviderType("gemini", "env::GOOGLE_AI_STUDIO_API_KEY", shorthand=True),
    "groq": ProviderType("groq", "env::GROQ_API_KEY", shorthand=True),
    "hyperbolic": ProviderType("hyperbolic", "env::HYPERBOLIC_API_KEY", shorthand=True),
    "mistral": ProviderType("mistral", "env::MISTRAL_API_KEY", shorthand=True),
    "openai": ProviderType("openai", "env::OPENAI_API_KEY", shorthand=True),
    "openrouter": ProviderType("openrouter", "env::OPENROUTER_API_KEY", shorthand=True),
    "sglang": ProviderType("sglang"),
    "tgi": ProviderType("tgi"),
    "together": ProviderType("together", "env::TOGETHER_API_KEY", shorthand=True),
    "vllm": ProviderType("vllm", "env::VLLM_API_KEY"),
    "xai": ProviderType("xai", "env::XAI_API_KEY", shorthand=True),
}
_NEEDS_ADDRESS = ("azure", "sglang", "tgi")


class ProviderSource(Struct, frozen=True):
    """A provider of the draft, its own name of the model, and the dialect if the configuration fixes one."""

    provider: str
    model: str
    dialect: str | None = None


class ProviderReader:
    """Makes the providers of a draft. `provider_types` of `config` has the defaults for all providers of a type."""

    def __init__(self, draft: Draft, credentials: CredentialReader, config: SourceTable) -> None:
        self._draft = draft
        self._credentials = credentials
        self._defaults: dict[str, SourceTable] = {}
        for name, table in config.named_tables("provider_types"):
            self._defaults[name] = table.table("defaults")
            table.leave_all_out(_LEFT_OUT_OF_TYPES)

    def report_unused(self) -> None:
        """Reports defaults that no imported model has. Call it once everything is read."""
        for table in self._defaults.values():
            if table.unread:
                table.mark_read()
                table.report.leave_out(table.path, "No model that was brought has it.")

    def read(self, table: SourceTable) -> ProviderSource | None:
        """Returns the provider, or None if nothing here serves it, which is then reported."""
        kind = table.text("type")
        provider_type = PROVIDER_TYPES.get(kind or "")
        if kind is None or provider_type is None:
            table.mark_read()
            table.report.leave_out(table.path, "There is no adapter for its type of provider.")
            return None
        options: dict[str, Any] = {}
        model, dialect = _read_model(table, provider_type, kind)
        if model is None:
            table.mark_read()
            table.report.leave_out(table.path, f"It has no {provider_type.model_key}, or one that we do not have.")
            return None
        is_valid, base_url = self._read_address(table, kind)
        if not is_valid:
            table.mark_read()
            return None
        self._read_options(table, kind, options)
        _read_headers(table, provider_type.adapter, options)
        credential = self._read_credential(table, kind, provider_type)
        table.leave_all_out(_LEFT_OUT)
        if table.text("api_type") == _RESPONSES:
            dialect = "openai_responses"
        provider = self._draft.add_provider(kind, ProviderConfig(provider_type.adapter, base_url, credential, options), table.path)
        return None if provider is None else ProviderSource(provider, model, dialect)

    def read_shorthand(self, name: str, path: str, report: Report) -> ProviderSource | None:
        """A name such as openai::gpt-5, of a model that is not configured. None: it is none, or nothing here serves it."""
        kind, _, model = name.partition("::")
        provider_type = PROVIDER_TYPES.get(kind)
        if not model or provider_type is None or not provider_type.shorthand:
            return None
        options: dict[str, Any] = {}
        dialect: str | None = None
        if kind == "openai" and model.startswith(f"{_RESPONSES}::"):
            model, dialect = model.removeprefix(f"{_RESPONSES}::"), "openai_responses"
        if provider_type.adapter == "vertex":
            match = _VERTEX_PATH.fullmatch(model)
            if match is None or (match[4] is not None and kind != "gcp_vertex_gemini"):
                return None
            options = {"project": match[1], "location": match[2]}
            model, dialect = (match[3], None) if match[3] is not None else (f"endpoints/{match[4]}", "gemini")
        credential = self._read_credential(SourceTable({}, path, report), kind, provider_type)
        provider = self._draft.add_provider(kind, ProviderConfig(provider_type.adapter, None, credential, options), path)
        return None if provider is None else ProviderSource(provider, model, dialect)

    def _read_credential(self, table: SourceTable, kind: str, provider_type: ProviderType) -> str | tuple[str, ...] | None:
        if provider_type.adapter in ("bedrock", "sagemaker"):
            return self._read_aws_credential(table, kind)
        key = "credential_location" if provider_type.adapter == "vertex" else "api_key_location"
        chain = "google:default" if provider_type.adapter == "vertex" else None
        defaults = self._defaults.get(kind)
        if key not in table and defaults is not None and key in defaults:
            return self._credentials.read(defaults, key, None, kind, chain)
        return self._credentials.read(table, key, provider_type.key_location, kind, chain)

    def _read_aws_credential(self, table: SourceTable, kind: str) -> str | tuple[str, ...] | None:
        if "api_key" in table:
            return self._credentials.read(table, "api_key", None, kind)
        locations = {key: location for key in _AWS_KEYS if (location := table.text(key)) is not None}
        if all(location in ("sdk", f"env::AWS_{key.upper()}") for key, location in locations.items()):
            return "aws:default"  # it reads AWS_ACCESS_KEY_ID and so on
        return self._credentials.keys_of_aws(table.path_of(_AWS_KEYS[0]), kind)

    def _read_address(self, table: SourceTable, kind: str) -> tuple[bool, str | None]:
        """Whether the address is valid, and the address; None: the adapter's own."""
        key = next((each for each in ("api_base", "endpoint", "endpoint_url") if each in table), None)
        if key is None:
            if kind in _NEEDS_ADDRESS:
                table.report.leave_out(table.path, "Its provider needs an address.")
            return kind not in _NEEDS_ADDRESS, "http://localhost:8000/v1/" if kind == "vllm" else None
        url = self._credentials.resolve(table, key)
        if url is None:
            return table.read(key) == "none", None
        if kind == "anthropic":
            url = _MESSAGES_PATH.sub("", url)
        url = read_base_url(url, table.path_of(key), table.report)
        return url is not None, url

    def _read_options(self, table: SourceTable, kind: str, options: dict[str, Any]) -> None:
        fields = {"region": "region", "project_id": "project", "location": "location"}
        options |= {option: value for key, option in fields.items() if (value := self._credentials.resolve(table, key)) is not None}
        if kind == "aws_sagemaker":
            hosted = table.text("hosted_provider")
            options["payload"] = "openai_chat"
            if hosted == "tgi":
                options["container"] = "tgi"
            if (model := table.text("model_name")) is not None:
                options["model"] = model


def _read_model(table: SourceTable, provider_type: ProviderType, kind: str) -> tuple[str | None, str | None]:
    """The provider's own name of the model, and the dialect that it is spoken to in; None: any."""
    model = table.text(provider_type.model_key)
    if kind == "tgi":
        return model or "tgi", None  # an engine with one model
    endpoint = table.text("endpoint_id") if kind == "gcp_vertex_gemini" else None
    if model is None and endpoint is not None:
        return f"endpoints/{endpoint}", "gemini"  # a tuned model
    return model, None


def _read_headers(table: SourceTable, adapter: str, options: dict[str, Any]) -> None:
    """Reads the extra headers. Only Anthropic's beta features have an option; other headers may hold secrets."""
    has_betas = "anthropic_beta" in ADAPTERS[adapter].known_options
    for header in table.tables("extra_headers"):
        name, value = header.text("name"), header.text("value")
        if has_betas and name is not None and value is not None and name.lower() == "anthropic-beta":
            options["anthropic_beta"] = [each.strip() for each in value.split(",") if each.strip()]
        else:
            header.mark_read()
            table.report.leave_out(header.path, "Providers have no option for headers of one's own.")
