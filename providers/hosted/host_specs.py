"""Rows: hosts that speak plain OpenAI, told as data in hosts.toml, each value with its evidence."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import httpx
import msgspec
from msgspec import Struct

from providers.adapters.provider import DIALECT_PATHS
from providers.hosted.rules.host_rules import HostRules
from providers.structured_output import OutputKind

_NAME = re.compile(r"[a-z][a-z0-9_]*")


class InvalidHostSpec(ValueError):
    """A row that cannot be meant; the message names it."""


class HostSpec(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`takes`: of the fields that are refused or dropped of all hosts, those that this one has. `refuses`: more that it does not have.

    `guided`: kinds of output that it can be asked for. "strict": it holds to schemas that are asked for as strict, others are looked at.
    `asks_usage`: its streams tell usage where they are asked to by stream_options. The rest as in providers/adapters/provider.py.
    """

    title: str
    base_url: str
    dialects: tuple[str, ...]
    supported_fields: frozenset[str] = frozenset()
    unsupported_fields: frozenset[str] = frozenset()
    renamed_fields: Mapping[str, str] = {}
    constraint_support: Mapping[OutputKind, Literal["enforced", "strict", "validated"]] = {}
    strict_tools: bool = True
    stops_after_calls: bool = False
    reports_rate_limits: bool = False
    requests_stream_usage: bool = True
    rules: HostRules = HostRules()


def read_host_specs(raw: bytes) -> Mapping[str, HostSpec]:
    """Raises BadRow."""
    try:
        hosts = msgspec.toml.decode(raw, type=dict[str, HostSpec])
    except msgspec.DecodeError as fault:
        raise InvalidHostSpec(f"hosts.toml: {fault}.") from None
    for name, host in hosts.items():
        _check(name, host)
    return hosts


def _check(name: str, host: HostSpec) -> None:
    url = httpx.URL(host.base_url)
    problems = {
        "its name is none": _NAME.fullmatch(name) is None,
        "`title` is empty": not host.title,
        "`base_url` is no https address": url.scheme != "https" or not url.host or bool(url.query) or host.base_url.endswith("/"),
        "`dialects` has one that is not known": not host.dialects or not DIALECT_PATHS.keys() >= set(host.dialects),
        "`dialects` has one twice": len(set(host.dialects)) != len(host.dialects),
        "`takes` and `refuses` have a field in common": not host.supported_fields.isdisjoint(host.unsupported_fields),
        "`rename` has a field that is refused": not host.unsupported_fields.isdisjoint(host.renamed_fields),
        "`rules.tool_names` is no regex": not _is_regex(host.rules.tool_names),
        "`rules.ranges` has one without a value": any(low > high for low, high in host.rules.ranges.values()),
        "`rules` has a most that is less than 1": any(
            most is not None and most < 1 for most in (host.rules.max_stops, host.rules.max_tools)
        ),
    }
    for problem, is_wrong in problems.items():
        if is_wrong:
            raise InvalidHostSpec(f"Row {name!r} of hosts.toml: {problem}.")


def _is_regex(pattern: str | None) -> bool:
    try:
        re.compile(pattern or "")
    except re.error:
        return False
    return True


HOSTS = read_host_specs((Path(__file__).parent / "hosts.toml").read_bytes())
