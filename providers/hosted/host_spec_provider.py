"""HostSpecProvider: an adapter made from a host of hosts.toml."""

from collections.abc import Mapping
from typing import Any, ClassVar

import httpx2
from msgspec.structs import replace

from providers import structured_output
from providers.adapters.urls import DIALECT_PATHS, with_version_segment
from providers.canonical.output_format import JsonSchema, OutputFormat
from providers.fields import ENGINE_FIELDS, HINT_FIELDS, RARE_FIELDS, restricted_fields
from providers.hosted.host_specs import HOSTS, HostSpec
from providers.hosted.rules.rule_based_provider import RuleBasedProvider
from providers.structured_output import ConstraintSupport
from providers.structured_output.write_constraint_fields import is_sent_as_strict

_RESPONSE_FORMAT_SUPPORT: structured_output.SupportByKind = {
    kind: ConstraintSupport("enforced", structured_output.write_response_format, keeps_response_format=True)
    for kind in ("json_object", "json_schema")
}
_VALIDATED_SUPPORT: structured_output.SupportByKind = {
    kind: replace(support, enforcement="validated") for kind, support in _RESPONSE_FORMAT_SUPPORT.items()
}


class HostSpecProvider(RuleBasedProvider):
    """A subclass names its host: `class Groq(HostSpecProvider, host="groq")`; its own attributes win over those of hosts.toml."""

    spec: ClassVar[HostSpec]

    def __init_subclass__(cls, host: str = "", **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if host:
            cls.name, cls.spec = host, HOSTS[host]
            for key, value in _class_attributes(cls.spec).items():
                if key not in vars(cls):
                    setattr(cls, key, value)

    def url(self, base_url: str, dialect: str, model: str = "", stream: bool = False) -> httpx2.URL:
        """The URL below the host's own path prefix (such as /openai/v1), unless the base URL already has a version segment."""
        base = base_url.rstrip("/")
        if with_version_segment(base) != base:
            base += httpx2.URL(self.spec.base_url).path.rstrip("/")
        path = DIALECT_PATHS.get(dialect)
        return super().url(base, dialect, model, stream) if path is None else httpx2.URL(base + path)

    @property
    def constraint_support(self) -> structured_output.SupportByKind:
        return {
            kind: _VALIDATED_SUPPORT[kind] if enforcement == "validated" and not self.trusted else _RESPONSE_FORMAT_SUPPORT[kind]
            for kind, enforcement in self.spec.constraint_support.items()
        }

    def _is_enforced(self, output: OutputFormat) -> bool:
        """False for a schema that is not sent as strict to a host that enforces only strict ones."""
        if not isinstance(output, JsonSchema) or self.trusted or self.spec.constraint_support.get("json_schema") != "strict":
            return True
        return is_sent_as_strict(output)


def provider_from_spec(name: str) -> type[HostSpecProvider]:
    """The adapter of a host that needs no code of its own."""
    return type(f"Row_{name}", (HostSpecProvider,), {"__doc__": f"{HOSTS[name].title}, as hosts.toml describes it."}, host=name)


def _class_attributes(spec: HostSpec) -> Mapping[str, Any]:
    return {
        "dialects": spec.dialects,
        "default_base_url": spec.base_url,
        "rules": spec.rules,
        "models": spec.models,
        "unsupported_fields": ((ENGINE_FIELDS | RARE_FIELDS) - spec.supported_fields) | spec.unsupported_fields,
        "hint_fields": HINT_FIELDS - spec.supported_fields,
        "renamed_fields": spec.renamed_fields,
        "restricted_fields": restricted_fields(sorted(spec.restricted_fields)),
        "strict_tools": spec.strict_tools,
        "stops_after_calls": spec.stops_after_calls,
        "reports_rate_limits": spec.reports_rate_limits,
        "requests_stream_usage": spec.requests_stream_usage,
        "tool_names": spec.rules.valid_tool_names,
    }
