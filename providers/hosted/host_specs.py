"""Host specs: hosts that speak OpenAI's dialects as data, from hosts.toml."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import httpx2
import msgspec
from msgspec import Struct

from providers.adapters.urls import DIALECT_PATHS
from providers.canonical.output_format import OutputKind
from providers.hosted.rules.host_rules import HostRules
from providers.hosted.rules.model_rules import ModelHosting

_NAME = re.compile(r"[a-z][a-z0-9_]*")


class InvalidHostSpec(ValueError):
    """An invalid host in hosts.toml; the message names it."""


class HostSpec(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One table of hosts.toml. The fields without a comment are those of Provider."""

    title: str
    base_url: str
    dialects: tuple[str, ...]
    supported_fields: frozenset[str] = frozenset()  # exceptions from the fields that all hosts refuse or drop
    unsupported_fields: frozenset[str] = frozenset()  # more fields that this host lacks
    renamed_fields: Mapping[str, str] = {}
    # those of providers.fields.RESTRICTED_FIELDS that it reads, which are not open to callers
    restricted_fields: frozenset[str] = frozenset()
    # The kinds of output format that it accepts; with "strict" it enforces schemas that are sent as strict, and responses for others are
    # validated.
    constraint_support: Mapping[OutputKind, Literal["enforced", "strict", "validated"]] = {}
    strict_tools: bool = True
    stops_after_calls: bool = False
    reports_rate_limits: bool = False
    requests_stream_usage: bool = True  # whether its streams report usage only with stream_options
    rules: HostRules = HostRules()  # see HostRules
    models: ModelHosting = ModelHosting()  # see ModelHosting


def read_host_specs(raw: bytes) -> Mapping[str, HostSpec]:
    """The hosts of a TOML file by name. Raises InvalidHostSpec."""
    try:
        hosts = msgspec.toml.decode(raw, type=dict[str, HostSpec])
    except msgspec.DecodeError as decode_error:
        raise InvalidHostSpec(f"hosts.toml: {decode_error}.") from None
    for name, host in hosts.items():
        _check(name, host)
    return hosts


def _check(name: str, host: HostSpec) -> None:
    url = httpx2.URL(host.base_url)
    problems = {
        "its name is invalid": _NAME.fullmatch(name) is None,
        "`title` is empty": not host.title,
        "`base_url` is not an https URL": url.scheme != "https" or not url.host or bool(url.query) or host.base_url.endswith("/"),
        "`dialects` is empty or has an unknown dialect": not host.dialects or not DIALECT_PATHS.keys() >= set(host.dialects),
        "`dialects` has a duplicate": len(set(host.dialects)) != len(host.dialects),
        "`supported_fields` and `unsupported_fields` have a field in common": not host.supported_fields.isdisjoint(host.unsupported_fields),
        "`renamed_fields` has an unsupported field": not host.unsupported_fields.isdisjoint(host.renamed_fields),
        "`rules.tool_names` is not a regex": not _is_regex(host.rules.tool_names),
        "`rules.ranges` has an empty range": any(low > high for low, high in host.rules.ranges.values()),
        "`rules` has a maximum below 1": any(
            maximum is not None and maximum < 1 for maximum in (host.rules.max_stops, host.rules.max_tools)
        ),
    }
    for problem, is_wrong in problems.items():
        if is_wrong:
            raise InvalidHostSpec(f"Host {name!r} of hosts.toml: {problem}.")


def _is_regex(pattern: str | None) -> bool:
    try:
        re.compile(pattern or "")
    except re.error:
        return False
    return True


HOSTS = read_host_specs((Path(__file__).parent / "hosts.toml").read_bytes())
