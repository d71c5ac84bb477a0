"""Validation of a configuration: errors that prevent serving it, and warnings about probable mistakes."""

import re
from typing import Any, cast

import httpx2

from app.domain.callers import DroppableFields
from app.domain.errors import BadConfiguration
from app.domain.routing import HedgeConfig, ModelConfig, ProviderConfig, Target, TimeoutConfig
from app.domain.snapshot import Snapshot
from app.process.thread_steps import in_steps
from app.store.configuration.validation import limits as limit_validation
from app.store.configuration.validation import prices as price_validation
from app.store.configuration.validation.experiments import check_experiments_together, check_has_targets, check_model_experiment
from app.store.configuration.validation.functions import check_function, check_templates
from app.store.configuration.validation.known_names import KnownNames
from app.store.configuration.validation.limits import Mistake
from app.store.configuration.validation.metrics import check_metric
from app.store.configuration.validation.prices import MAX_NAME_CHARACTERS
from app.store.configuration.validation.shadows import check_shadows
from app.store.keys.droppable_fields import find_drop_fault
from providers import catalogue
from providers.adapters.provider import Provider
from providers.catalogue import DIALECTS, ENGINE_PROBES
from providers.credentials import CredentialError
from providers.credentials import check as check_credential
from providers.dialects.catalogue import ENGINE_DIALECTS
from providers.dialects.gemini import Gemini

# Those that a server of OpenAI's API may speak beside it, whatever its adapter knows. Google's is of Google's hosts alone.
_DIALECTS_OF_SERVERS = DIALECTS.keys() - {Gemini.name}

MAX_RETRIES = 5
_MAX_CONTEXT_LENGTH = 1_000_000_000


def validate(wanted: Snapshot) -> None:
    """Raises BadConfiguration for the first error."""
    for name, provider in in_steps(wanted.providers.items()):
        _check_name(f"providers.{name!r}", name)
        check_provider(name, provider)
    for name, model in in_steps(wanted.models.items()):
        _check_name(f"models.{name!r}", name)
        _check_model(name, model, wanted)
        check_model_experiment(name, wanted)
    for name, function in in_steps(wanted.functions.items()):
        _check_name(f"functions.{name!r}", name)
        for variant_name, variant in function.variants.items():
            path = f"functions.{name}.variants.{variant_name}"
            _check_name(f"functions.{name}.variants.{variant_name!r}", variant_name)
            _check_retries(f"{path}.retries", variant.retries)
            _check_timeouts(path, variant.timeouts)
        check_function(name, function, wanted)
    check_templates(wanted.functions)
    check_experiments_together(wanted)
    check_shadows(wanted)
    for name, metric in wanted.metrics.items():
        _check_name(f"metrics.{name!r}", name)
        check_metric(name, metric)
    for limit in wanted.limits:
        _check_name("limits.name", limit.name)
    limit_validation.validate(wanted)
    price_validation.validate(wanted)


def find_warnings(wanted: Snapshot, known: KnownNames) -> list[str]:
    """Probable mistakes, a sentence each, with their place."""
    return [*_missing_credentials(wanted), *limit_validation.find_warnings(wanted, known)]


def find_new_warnings(before: Snapshot, wanted: Snapshot, known: KnownNames) -> list[str]:
    """The warnings about `wanted` that are about more than those about `before`: fewer models of the same mistake are none."""
    missing_before = set(_missing_credentials(before))
    earlier = {each.about: each.models for each in limit_validation.find_mistakes(before, known)}
    compared: dict[tuple[int, int], bool] = {}  # by identity: many limits are about the same models

    def is_new(mistake: Mistake) -> bool:
        if mistake.about not in earlier:
            return True
        models = earlier[mistake.about]
        pair = id(models), id(mistake.models)
        if pair not in compared:
            compared[pair] = not set(mistake.models) <= set(models)
        return compared[pair]

    missing = [each for each in _missing_credentials(wanted) if each not in missing_before]
    mistakes = limit_validation.find_mistakes(wanted, known)  # kept until the end, so that no two have one identity
    return [*missing, *(each.text for each in mistakes if is_new(each))]


def _missing_credentials(wanted: Snapshot) -> list[str]:
    """Warnings about credentials that are not stored yet; until they are, requests fail with 502."""
    return [
        f"providers.{name}.credential: no credential {stored!r} is stored: `narthex credentials set {stored}` stores it."
        for name, provider in wanted.providers.items()
        for stored in (each.removeprefix("store:") for each in provider.credentials if each.startswith("store:"))
        if stored not in wanted.credentials
    ]


def _check_name(path: str, name: str) -> None:
    if not name or name != name.strip() or not name.isprintable() or len(name) > MAX_NAME_CHARACTERS:
        raise BadConfiguration(f"{path:.100}: a name has 1 to {MAX_NAME_CHARACTERS} printable characters and no space at its ends.")


def check_provider(name: str, provider: ProviderConfig) -> None:
    """Raises BadConfiguration for settings of a provider that cannot be served."""
    if provider.credential == () or len(set(provider.credentials)) < len(provider.credentials):
        raise BadConfiguration(f"providers.{name}.credential: a list names one or more credentials, each once.")
    try:
        adapter = catalogue.build_provider(provider.adapter, name, provider.options)
    except ValueError as fault:
        field = "options" if provider.adapter in catalogue.ADAPTERS else "adapter"
        raise BadConfiguration(f"providers.{name}.{field}: {fault}") from None
    try:
        for reference in provider.credentials:
            check_credential(reference)
            credential_kind = reference.partition(":")[0]
            if credential_kind in ("aws", "google") and credential_kind not in adapter.credential_chains:
                raise BadConfiguration(f"adapter {provider.adapter!r} cannot use the credential {reference!r}.")
    except ValueError as fault:
        raise BadConfiguration(f"providers.{name}.credential: {fault}") from None
    if _has_nul(provider.options):
        raise BadConfiguration(f"providers.{name}.options: a NUL character cannot be stored.")
    if provider.base_url is not None:
        _check_url(f"providers.{name}.base_url", provider.base_url)
        _check_credential_address(f"providers.{name}.base_url", adapter, provider, provider.base_url)
    if provider.accepts_nodes and provider.adapter not in (*ENGINE_PROBES, "auto"):
        raise BadConfiguration(f"providers.{name}.accepts_nodes: nodes are engines, and {provider.adapter!r} is a host.")
    if provider.base_url is None and not provider.accepts_nodes and adapter.base_url_required_reason is not None:
        raise BadConfiguration(f"providers.{name}.base_url is required: {adapter.base_url_required_reason}")
    check_drop(f"providers.{name}.drop", provider.drop)


def _check_model(name: str, model: ModelConfig, wanted: Snapshot) -> None:
    if not model.targets and model.experiment is None:
        raise BadConfiguration(f"models.{name}.targets is empty: nothing would serve it.")
    if model.targets and not model.fallbacks and all(target.weight == 0 for target in model.targets):
        raise BadConfiguration(f"models.{name}.targets all have weight 0, and there is no fallback: nothing would serve it.")
    for at, target in enumerate(model.targets):
        path = f"models.{name}.targets[{at}]"
        if target.provider not in wanted.providers:
            known = ", ".join(sorted(wanted.providers)) or "none yet"
            raise BadConfiguration(f"{path}.provider: there is no provider {target.provider!r}. There are: {known}.")
        if not target.model.strip() or not target.model.isprintable() or len(target.model) > MAX_NAME_CHARACTERS:
            raise BadConfiguration(f"{path}.model must be the engine's name of its model, not {target.model!r:.100}.")
        if target.lora is not None:
            _check_lora(path, target.lora, wanted.providers[target.provider].adapter)
        if target.weight is not None and not 0 <= target.weight < float("inf"):
            raise BadConfiguration(f"{path}.weight must be 0 or more.")
        if target.dialect is not None:
            _check_dialect(f"{path}.dialect", target.dialect, target.provider, wanted.providers[target.provider])
        for endpoint in target.endpoints:
            _check_url(f"{path}.endpoints", endpoint)
            config = wanted.providers[target.provider]
            adapter = catalogue.build_provider(config.adapter, target.provider, config.options)
            _check_credential_address(f"{path}.endpoints", adapter, config, endpoint)
        _check_endpoint_weights(f"{path}.endpoint_weights", target)
        _check_retries(f"{path}.retries", target.retries)
        _check_timeouts(path, target.timeouts, model.timeouts)
        if target.max_concurrency is not None and target.max_concurrency < 1:
            raise BadConfiguration(f"{path}.max_concurrency must be 1 or more.")
    _check_retries(f"models.{name}.retries", model.retries)
    _check_timeouts(f"models.{name}", model.timeouts)
    _check_hedge(f"models.{name}.hedge", model.hedge)
    for fallback in model.fallbacks:
        if fallback not in wanted.models:
            raise BadConfiguration(f"models.{name}.fallbacks: there is no model {fallback!r}.")
        if fallback == name:
            raise BadConfiguration(f"models.{name}.fallbacks: a model cannot fall back to itself.")
        check_has_targets(f"models.{name}.fallbacks", fallback, wanted.models)
    for fallback, reasons in model.fallback_on.items():
        if fallback not in model.fallbacks:
            raise BadConfiguration(f"models.{name}.fallback_on: {fallback!r:.100} is not one of its `fallbacks`.")
        if not reasons:
            raise BadConfiguration(f"models.{name}.fallback_on.{fallback} is empty: the fallback would never be used.")
    if model.output_tokens is not None and model.output_tokens < 1:
        raise BadConfiguration(f"models.{name}.output_tokens must be 1 or more.")
    if model.context_length is not None and not 1 <= model.context_length <= _MAX_CONTEXT_LENGTH:
        raise BadConfiguration(f"models.{name}.context_length must be a number of tokens, from 1 to {_MAX_CONTEXT_LENGTH}.")
    if len(set(model.capabilities)) < len(model.capabilities):
        raise BadConfiguration(f"models.{name}.capabilities names one twice.")
    check_drop(f"models.{name}.drop", model.drop)


def _check_endpoint_weights(path: str, target: Target) -> None:
    for address, weight in target.endpoint_weights.items():
        if address not in target.endpoints:
            raise BadConfiguration(f"{path}: {address!r:.200} is not one of the target's `endpoints`.")
        if not 0 < weight < float("inf"):
            raise BadConfiguration(f"{path}: the weight of {address!r:.200} must be more than 0.")


def _check_retries(path: str, retries: int | None) -> None:
    if retries is not None and not 0 <= retries <= MAX_RETRIES:
        raise BadConfiguration(f"{path} must be from 0 to {MAX_RETRIES}.")


def _check_hedge(path: str, hedge: HedgeConfig | None) -> None:
    if hedge is not None and not 0.5 <= hedge.quantile < 1:
        raise BadConfiguration(f"{path}.quantile must be at least 0.5 and less than 1: the part of the requests that are quick enough.")
    if hedge is not None and not 0 < hedge.budget <= 1:
        raise BadConfiguration(f"{path}.budget must be more than 0 and at most 1: the part of the requests that may have a second attempt.")


def _check_timeouts(path: str, *levels: TimeoutConfig | None) -> None:
    """Raises BadConfiguration for timeouts that are out of range or contradict each other. `levels` begin with the nearest."""
    limits = {
        name: next((value for level in levels if level is not None and (value := getattr(level, name)) is not None), None)
        for name in ("connect_s", "first_token_s", "silence_s", "total_s", "queue_s")
    }
    for name, value in limits.items():
        # With a queue_s of 0 nobody waits.
        if value is not None and not (0 < value < float("inf") or (name == "queue_s" and value == 0)):
            raise BadConfiguration(f"{path}.timeouts.{name} must be more than 0.")
    total_s, first_s, connect_s = limits["total_s"], limits["first_token_s"], limits["connect_s"]
    for name in ("connect_s", "first_token_s", "silence_s"):
        if total_s is not None and (value := limits[name]) is not None and value > total_s:
            raise BadConfiguration(f"{path}.timeouts: {name} = {value:g} is longer than total_s = {total_s:g}, which ends the attempt.")
    if connect_s is not None and first_s is not None and connect_s > first_s:
        raise BadConfiguration(f"{path}.timeouts: connect_s = {connect_s:g} is longer than first_token_s = {first_s:g}.")


def check_drop(path: str, drop: DroppableFields) -> None:
    fault = find_drop_fault(drop)
    if fault is not None:
        raise BadConfiguration(f"{path}{fault}")


def _check_dialect(path: str, dialect: str, name: str, config: ProviderConfig) -> None:
    """Raises BadConfiguration for a dialect that the provider cannot speak.

    A host with a dialect of its own speaks only its adapter's dialects; a server of OpenAI's API may speak more than its adapter knows.
    """
    known = {**DIALECTS, **ENGINE_DIALECTS}
    if dialect not in known:
        raise BadConfiguration(f"{path}: there is no dialect {dialect!r:.100}. There are: {', '.join(known)}.")
    adapter = catalogue.build_provider(config.adapter, name, config.options)
    spoken_dialects = dict.fromkeys((*adapter.spoken_dialects, *adapter.dialects, *adapter.host_operations))
    speaks_only_own_dialects = adapter.default_base_url is not None and not spoken_dialects.keys() <= _DIALECTS_OF_SERVERS
    if dialect not in spoken_dialects and (speaks_only_own_dialects or dialect not in _DIALECTS_OF_SERVERS):
        raise BadConfiguration(f"{path}: adapter {config.adapter!r} does not speak {dialect!r}. It speaks: {', '.join(spoken_dialects)}.")


def _check_lora(path: str, lora: str, adapter: str) -> None:
    if not lora.strip() or not lora.isprintable() or len(lora) > MAX_NAME_CHARACTERS:
        raise BadConfiguration(f"{path}.lora must be the engine's name of a LoRA adapter, not {lora!r:.100}.")
    if adapter not in catalogue.ADAPTERS_WITH_LORA:
        supporting = ", ".join(sorted(catalogue.ADAPTERS_WITH_LORA))
        raise BadConfiguration(f"{path}.lora: adapter {adapter!r} does not support LoRA adapters. These do: {supporting}.")


def _check_credential_address(path: str, adapter: Provider, config: ProviderConfig, address: str) -> None:
    """Raises BadConfiguration for a credential of the machine's cloud identity at an address outside that cloud."""
    try:
        for reference in config.credentials:
            adapter.check_credential_host(reference, httpx2.URL(address))
    except CredentialError as fault:
        raise BadConfiguration(f"{path}: {fault}") from None


def _check_url(path: str, url: str) -> None:
    """Raises BadConfiguration for an address that httpx2 cannot use, or that holds a secret: addresses are shown and recorded."""
    try:
        parsed = httpx2.URL(url.removeprefix("dns+") if url.startswith("dns+http://") else url)
        has_port = parsed.port is None or 0 < parsed.port < 65536
    except (httpx2.InvalidURL, ValueError):
        raise BadConfiguration(f"{path}: {_redacted_url(url)} is not an address; it should look like http://10.0.0.5:8000.") from None
    if parsed.scheme not in ("http", "https") or not parsed.host or not has_port or any(character.isspace() for character in url):
        raise BadConfiguration(f"{path}: {_redacted_url(url)} is not an address; it should look like http://10.0.0.5:8000.")
    if parsed.userinfo:
        raise BadConfiguration(f"{path}: an address must not contain a user and password; use `credential` for them.")
    if parsed.query or parsed.fragment or url[-1] in "?#":
        raise BadConfiguration(f"{path}: an address must not have a query or a fragment (? or #).")


def _has_nul(value: Any) -> bool:
    match value:
        case str():
            return "\0" in value
        case dict():
            return any(_has_nul(each) for pair in cast("dict[Any, Any]", value).items() for each in pair)
        case list() | tuple():
            return any(_has_nul(each) for each in cast("list[Any]", value))
        case _:
            return False


def _redacted_url(url: str) -> str:
    """The URL without what precedes an @, which may be a password."""
    return repr(re.sub(r"(?<=//)[^/]*@", "...@", url))
