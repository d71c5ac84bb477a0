"""Providers made of rows: what a row of rows.toml says, as the class that an adapter is."""

from collections.abc import Mapping
from typing import Any, ClassVar

import httpx
from msgspec.structs import replace

from providers import structured_output
from providers.adapters.provider import DIALECT_PATHS, HINT_FIELDS, with_version_segment
from providers.adapters.unsupported_fields import UNKNOWN_FIELDS, UNKNOWN_HINTS
from providers.canonical.chat import ENGINE_FIELDS
from providers.hosted.host_specs import HOSTS, HostSpec
from providers.hosted.rules.rule_based_provider import RuleBasedProvider
from providers.structured_output import ConstraintSupport, JsonSchema, OutputFormat

_RESPONSE_FORMAT_SUPPORT: structured_output.SupportByKind = {
    kind: ConstraintSupport("enforced", structured_output.write_response_format, keeps_response_format=True)
    for kind in ("json_object", "json_schema")
}


class HostSpecProvider(RuleBasedProvider):
    """A subclass names its row: `class Groq(HostSpecProvider, host="groq")`; what it says itself goes before the row."""

    spec: ClassVar[HostSpec]

    def __init_subclass__(cls, host: str = "", **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if host:
            cls.name, cls.spec = host, HOSTS[host]
            for key, value in _class_attributes(cls.spec).items():
                if key not in vars(cls):
                    setattr(cls, key, value)

    def url(self, base_url: str, dialect: str, model: str = "", stream: bool = False) -> httpx.URL:
        """Below the path that the host has before its routes (/openai/v1), unless the base URL has a version segment already."""
        base = base_url.rstrip("/")
        if with_version_segment(base) != base:
            base += httpx.URL(self.spec.base_url).path.rstrip("/")
        path = DIALECT_PATHS.get(dialect)
        return super().url(base, dialect, model, stream) if path is None else httpx.URL(base + path)

    @property
    def constraint_support(self) -> structured_output.SupportByKind:
        support: structured_output.SupportByKind = {kind: _RESPONSE_FORMAT_SUPPORT[kind] for kind in self.spec.constraint_support}
        validated_kinds = {kind for kind, how in self.spec.constraint_support.items() if how == "validated" and not self.trusted}
        return {
            kind: replace(kind_support, enforcement="validated") if kind in validated_kinds else kind_support
            for kind, kind_support in support.items()
        }

    def _is_enforced(self, output: OutputFormat) -> bool:
        """Of hosts that hold to strict schemas alone; one without a name, asked for in engines' words, is said as a strict one."""
        if (
            self.spec.constraint_support.get(structured_output.output_kind(output)) != "strict"
            or not isinstance(output, JsonSchema)
            or self.trusted
        ):
            return True
        return output.strict is True or (output.strict is None and output.name is None)


def provider_from_spec(name: str) -> type[HostSpecProvider]:
    """The adapter of a row that needs no code."""
    return type(f"Row_{name}", (HostSpecProvider,), {"__doc__": f"{HOSTS[name].title}, as its row says."}, host=name)


def _class_attributes(spec: HostSpec) -> Mapping[str, Any]:
    return {
        "dialects": spec.dialects,
        "default_base_url": spec.base_url,
        "rules": spec.rules,
        "unsupported_fields": ((ENGINE_FIELDS | UNKNOWN_FIELDS) - spec.supported_fields) | spec.unsupported_fields,
        "hint_fields": (HINT_FIELDS | UNKNOWN_HINTS) - spec.supported_fields,
        "renamed_fields": spec.renamed_fields,
        "strict_tools": spec.strict_tools,
        "stops_after_calls": spec.stops_after_calls,
        "reports_rate_limits": spec.reports_rate_limits,
        "requests_stream_usage": spec.requests_stream_usage,
    }
