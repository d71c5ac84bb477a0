"""The provider and the target of an entry of `model_list`, from its `litellm_params`."""

import re
from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct

from app.domain.routing import ProviderConfig
from app.imports.base_urls import read_base_url
from app.imports.credentials import CredentialReferences
from app.imports.draft import Draft
from app.imports.litellm.cloud_credentials import read_aws_credential, read_google_credential, read_google_options, read_key
from app.imports.litellm.environment import Environment, variable_of
from app.imports.litellm.hosts import HOSTS, LiteLLMHost, split_model
from app.imports.litellm.parameters import Parameters
from providers.catalogue import ADAPTERS

_REGION = re.compile(r"[a-z]{2}(?:-[a-z]+)+-\d")
# Routes of Bedrock and of Azure that LiteLLM has in a model's name, and that follow from the model or the request here.
_BEDROCK_ROUTES = ("converse", "invoke", "llama", "deepseek_r1", "nova", "qwen2", "qwen3", "moonshot")
_BEDROCK_OTHER_ROUTES = ("agent", "agentcore", "async_invoke", "converse_like", "openai")
_AZURE_ROUTES = ("o_series", "gpt5_series")
_RESPONSES_ROUTE = "responses"
_ENTRA = ("tenant_id", "client_id", "client_secret", "azure_username", "azure_password", "azure_scope")
_FIREWORKS_PREFIX = "accounts/"


class TargetSource(Struct, frozen=True):
    """The target of an entry: a provider of the draft and its own name of the model.

    It includes the dialect if the entry fixes one.
    """

    provider: str
    model: str
    dialect: str | None = None


class _Reading(Struct, frozen=True):
    """The parts that the readers of one entry share. `host_name` is LiteLLM's name of the provider."""

    parameters: Parameters
    environment: Environment
    references: CredentialReferences
    host_name: str
    host: LiteLLMHost


class ProviderReader:
    """Makes the providers of a draft. Entries with equal settings share one."""

    def __init__(self, draft: Draft, environment: Environment) -> None:
        self._draft = draft
        self._environment = environment
        self._references = CredentialReferences(draft.report)

    def read(self, parameters: Parameters) -> TargetSource | None:
        """Returns the target of an entry, or None if nothing here serves the entry, which is then reported."""
        params, report = parameters.params, parameters.report
        name = self._environment.resolve(params, "model")
        if name is None:
            if "model" not in params:
                report.leave_out(params.path_of("model"), "It is missing.")
            return None
        split = split_model(name, params.text("custom_llm_provider"))
        if split is None:
            report.leave_out(params.path_of("model"), "It does not say who serves it: write it with its provider, such as openai/NAME.")
            return None
        host_name, model = split
        host = HOSTS.get(host_name)
        if host is None:
            report.leave_out(
                params.path_of("model"),
                f"There is no adapter for LiteLLM's provider {host_name!r:.60}. If it speaks OpenAI's API, write it as openai/NAME with its"
                " api_base, and import again.",
            )
            return None
        reading = _Reading(parameters, self._environment, self._references, host_name, host)
        return self._read_target(reading, model)

    def _read_target(self, reading: _Reading, model: str) -> TargetSource | None:
        parameters, host = reading.parameters, reading.host
        path = parameters.params.path_of("model")
        options: dict[str, Any] = {}
        routed = _strip_routes(reading.host_name, model, options)
        if routed is None:
            parameters.report.leave_out(path, "This route of LiteLLM's has no counterpart here.")
            return None
        is_valid, base_url = _read_address(reading)
        if not is_valid:
            return None
        special = _SPECIAL_OPTIONS.get(host.adapter)
        if special is not None:
            special(reading, options)
        _read_headers(reading, options)
        credential = _CREDENTIALS.get(host.adapter, _read_plain_key)(reading)
        config = ProviderConfig(host.adapter, base_url, credential, options)
        provider = self._draft.add_provider(reading.host_name, config, path)
        dialect = "openai_responses" if model != routed and model.startswith(f"{_RESPONSES_ROUTE}/") else None
        return None if provider is None else TargetSource(provider, routed, dialect)


def _strip_routes(host_name: str, model: str, options: dict[str, Any]) -> str | None:
    """The provider's own name of a model, without LiteLLM's routes before it. None: a route that we do not have."""
    adapter = HOSTS[host_name].adapter
    if adapter == "bedrock":
        return _strip_bedrock_routes(model, options)
    head, _, rest = model.partition("/")
    if rest and (head == _RESPONSES_ROUTE or (adapter == "azure" and head in _AZURE_ROUTES)):
        return rest
    if host_name == "azure_ai" and model.startswith("claude"):
        options["api"] = "anthropic"
    if adapter == "sagemaker":
        options["payload"] = "openai_chat" if host_name == "sagemaker_chat" else "tgi_generate"
    if adapter == "vertex" and head in ("openai", "gemini") and rest:
        return rest  # an endpoint of one's own, by its number
    if adapter == "fireworks" and not model.startswith(_FIREWORKS_PREFIX):
        return f"accounts/fireworks/models/{model}"
    return model


def _strip_bedrock_routes(model: str, options: dict[str, Any]) -> str | None:
    while True:
        head, _, rest = model.partition("/")
        if not rest or head.startswith("arn:"):
            return model
        if head in _BEDROCK_OTHER_ROUTES:
            return None
        if _REGION.fullmatch(head):
            options["region"] = head
        elif head not in _BEDROCK_ROUTES:
            return model
        model = rest


def _read_address(reading: _Reading) -> tuple[bool, str | None]:
    """Whether the address is valid, and the address; None: the adapter's own."""
    parameters, host = reading.parameters, reading.host
    key = parameters.first_of("api_base", "base_url", "aws_bedrock_runtime_endpoint")
    if key is not None:
        table = parameters.table_with(key)
        url = reading.environment.resolve(table, key)
        if url is not None and host.adapter == "azure":
            url = url.partition("/openai/deployments")[0]
        url = None if url is None else read_base_url(url, table.path_of(key), parameters.report)
        return url is not None, url
    params = parameters.params
    url = reading.environment.first_of(*host.address_variables)
    if url is not None:
        names = " or ".join(host.address_variables)
        params.report.changed(params.path_of("api_base"), f"The address was read from {names} in this command's environment.")
        url = read_base_url(url, params.path_of("api_base"), parameters.report)
        return url is not None, url
    if host.needs_address:
        hint = f" or {', '.join(host.address_variables)} in this command's environment" if host.address_variables else ""
        params.report.leave_out(params.path_of("model"), f"Its provider needs an address: set api_base{hint}, and import again.")
        return False, None
    return True, host.base_url


def _read_plain_key(reading: _Reading) -> str | None:
    parameters, host = reading.parameters, reading.host
    if "api_key" in parameters:
        return read_key(parameters, reading.references, reading.host_name)
    if not host.key_variables:
        return None
    path = parameters.params.path_of("api_key")
    if reading.host_name in ("openai", "text-completion-openai") and parameters.first_of("api_base", "base_url") is not None:
        parameters.report.changed(
            path, "LiteLLM sends OPENAI_API_KEY to this address; here it gets no key. Set the provider's `credential` if it needs one."
        )
        return None
    name = next((each for each in host.key_variables if reading.environment.first_of(each)), host.key_variables[0])
    return reading.references.variable(name, path, reading.host_name)


def _read_azure_key(reading: _Reading) -> str | None:
    parameters = reading.parameters
    for key in _ENTRA:
        parameters.table_with(key).leave_out(
            key, "The gateway fetches no tokens of Entra ID: use a key, or `file:PATH` of a token that you renew (docs/providers/azure.md)."
        )
    if "azure_ad_token" in parameters:
        return read_key(parameters, reading.references, reading.host_name, "azure_ad_token")
    return _read_plain_key(reading)


def _read_azure_options(reading: _Reading, options: dict[str, Any]) -> None:
    if reading.host_name == "azure_ai" and options.setdefault("api", "models") == "anthropic":
        reading.environment.resolve(reading.parameters.table_with("api_version"), "api_version")  # which it does not need
        return
    version = reading.environment.resolve(reading.parameters.table_with("api_version"), "api_version")
    version = version or reading.environment.first_of("AZURE_API_VERSION")
    if version is not None and not (reading.host_name == "azure_ai" and version in ("v1", "preview", "latest")):
        options["api_version"] = version


def _read_openai_options(reading: _Reading, options: dict[str, Any]) -> None:
    parameters = reading.parameters
    table = parameters.table_with("organization")
    organizations = table.texts("organization")
    if len(organizations) > 1:
        parameters.report.leave_out(
            table.path_of("organization"),
            "One provider has one organization: the first is used. Copy the provider for each of the others, and its target in the model.",
        )
    if organizations:
        name = variable_of(organizations[0])
        organization = organizations[0] if name is None else reading.environment.first_of(name)
        if organization is not None:
            options["organization"] = organization
        else:
            parameters.report.leave_out(table.path_of("organization"), "Its variable is not in this command's environment.")


def _read_aws_options(reading: _Reading, options: dict[str, Any]) -> None:
    parameters = reading.parameters
    key = parameters.first_of("aws_region_name", "region_name")
    region = None if key is None else reading.environment.resolve(parameters.table_with(key), key)
    if region is not None:
        options["region"] = region
    if reading.host.adapter == "bedrock" and "guardrailConfig" in parameters.params:
        guardrail = parameters.params.table("guardrailConfig")
        id, version = guardrail.text("guardrailIdentifier"), guardrail.read("guardrailVersion")
        if id is not None and version is not None:
            trace = {"trace": True} if guardrail.text("trace") in ("enabled", "enabled_full") else {}
            options["guardrail"] = {"id": id, "version": str(version), **trace}


def _read_vertex_options(reading: _Reading, options: dict[str, Any]) -> None:
    options |= read_google_options(reading.parameters, reading.environment)


def _read_headers(reading: _Reading, options: dict[str, Any]) -> None:
    """Reads the headers of an entry. Only Anthropic's beta features have an option; other headers may hold secrets."""
    advice = "Providers have no option for headers of one's own; callers' own x-… headers are not passed on either."
    for key in ("extra_headers", "headers"):
        if key not in reading.parameters:
            continue
        headers = reading.parameters.table_with(key).table(key)
        for name in headers.keys:
            if name.lower() == "anthropic-beta" and "anthropic_beta" in ADAPTERS[reading.host.adapter].known_options:
                options["anthropic_beta"] = [each.strip() for each in (headers.text(name) or "").split(",") if each.strip()]
            else:
                headers.leave_out(name, advice)


_SPECIAL_OPTIONS: Mapping[str, Callable[[_Reading, dict[str, Any]], None]] = {
    "azure": _read_azure_options,
    "openai": _read_openai_options,
    "bedrock": _read_aws_options,
    "sagemaker": _read_aws_options,
    "vertex": _read_vertex_options,
}
_CREDENTIALS: Mapping[str, Callable[[_Reading], str | None]] = {
    "azure": _read_azure_key,
    "bedrock": lambda reading: read_aws_credential(reading.parameters, reading.references, reading.host_name),
    "sagemaker": lambda reading: read_aws_credential(reading.parameters, reading.references, reading.host_name),
    "vertex": lambda reading: read_google_credential(reading.parameters, reading.references, reading.host_name),
}
