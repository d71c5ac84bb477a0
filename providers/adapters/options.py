"""Options of a configured provider: those that adapters share, and how they are read."""

import re
from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct

from providers.adapters.urls import DIALECT_PATHS, ROOT_PATHS
from providers.canonical.template_errors import TemplateRule

_HOST = re.compile(r"(?:\*\.)?[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*")


class InvalidOption(ValueError):
    """A provider's configuration that its adapter rejects; the message says what is allowed, and not which provider it is."""


Streams = Literal["both", "only", "never"]
StopsOnDisconnect = Literal["always", "streams", "never"]

# What each is for, by the name of the option.
SHARED_OPTIONS: Mapping[str, str] = {
    "stream": 'which responses the engine gives: "both" (default), "only" streams, or "never" streams',
    "stream_usage": "false: the engine refuses stream_options, so streams do not request usage",
    "accepts": "a list of fields that this engine honours, or that callers may set, although its adapter would refuse them",
    "refuses": "a list of more fields that callers may not set",
    "guided": 'whether this server enforces JSON schemas: "validated" (default; the gateway checks responses) or "enforced"',
    "stops_on_disconnect": 'which responses it stops generating, and billing, once the gateway leaves: "always", "streams" or "never"',
    "stops_after_calls": "true: it ends responses with calls by `stop`, and callers of Chat get `tool_calls`, as OpenAI says it",
    "instructions": (
        'where the models\' chat templates take instructions: "anywhere" (default), in one "first" message, or "nowhere"; others become'
        " marked texts of the user's"
    ),
    "turns": 'how users and assistants may follow each other in the chat templates: "freely" (default), or they must "alternate"',
    "dialects": "a list of the dialects that this host speaks, best first, where they are not those of its adapter",
    "media_hosts": "a list of hosts (NAME or *.NAME) whose media URLs a self-hosted engine gets as they are; others are fetched for it",
}

TEAM_CACHES_OPTION = "false: teams share the prefix cache, as for a long system prompt in common; a team can then tell what others sent"


class SharedOptions(Struct, frozen=True):
    """The options that adapters share, as they are read."""

    template_rule: TemplateRule | None
    media_hosts: frozenset[str]
    dialects: tuple[str, ...]  # empty where those of the adapter count
    streams: Streams
    stream_usage: bool
    stops_after_calls: bool
    stops_on_disconnect: StopsOnDisconnect
    accepts: frozenset[str]
    refuses: frozenset[str]
    team_caches: bool


def check_known_options(adapter: str, known_options: Mapping[str, str], options: Mapping[str, Any]) -> None:
    """Raises InvalidOption for an option that the adapter does not have."""
    for key in options:
        if key not in known_options:
            raise InvalidOption(
                f"Option {key!r} is not one of adapter {adapter!r}. Its options:"
                f" {', '.join(known_options) or 'none'} (`narthex providers list --adapters` explains them)."
            )


def read_shared_options(options: Mapping[str, Any], *, stops_after_calls: bool, stops_on_disconnect: StopsOnDisconnect) -> SharedOptions:
    """Reads the options, of which two have an adapter's own defaults. Raises InvalidOption."""
    stream = options.get("stream", "both")
    if stream not in ("both", "only", "never"):
        raise InvalidOption(f'Option stream={stream!r} may be "both", "only" or "never".')
    if options.get("instructions", "anywhere") not in ("anywhere", "first", "nowhere"):
        raise InvalidOption('Option instructions may be "anywhere", "first" or "nowhere".')
    if options.get("turns", "freely") not in ("freely", "alternate"):
        raise InvalidOption('Option turns may be "freely" or "alternate".')
    if options.get("guided", "validated") not in ("validated", "enforced"):
        raise InvalidOption('Option guided may be "validated" or "enforced".')
    after_calls = options.get("stops_after_calls", stops_after_calls)
    if not isinstance(after_calls, bool):
        raise InvalidOption("Option stops_after_calls may be true or false.")
    on_disconnect = options.get("stops_on_disconnect", stops_on_disconnect)
    if on_disconnect not in ("always", "streams", "never"):
        raise InvalidOption('Option stops_on_disconnect may be "always", "streams" or "never".')
    accepts, refuses = (_field_names(option, options) for option in ("accepts", "refuses"))
    if both := sorted(accepts & refuses):
        raise InvalidOption(f"Options accepts and refuses both name {both[0]!r}.")
    media_hosts = options.get("media_hosts", [])
    if not isinstance(media_hosts, list) or not all(isinstance(host, str) and _HOST.fullmatch(host) for host in media_hosts):  # pyright: ignore[reportUnknownVariableType]
        raise InvalidOption("Option media_hosts must be a list of host names, or *.NAME for all below one.")
    dialects = options.get("dialects", [])
    if not isinstance(dialects, list) or not DIALECT_PATHS.keys() | ROOT_PATHS.keys() >= set(dialects):  # pyright: ignore[reportUnknownArgumentType]
        known = ", ".join([*DIALECT_PATHS, *ROOT_PATHS])
        raise InvalidOption(f"Option dialects must be a list of these: {known}.")
    if not isinstance(options.get("team_caches", True), bool):
        raise InvalidOption("Option team_caches may be true or false.")
    return SharedOptions(
        template_rule=_template_rule(options),
        media_hosts=frozenset(str(host).lower() for host in media_hosts),  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
        dialects=tuple(dialects),  # pyright: ignore[reportUnknownArgumentType]
        streams=stream,
        stream_usage=bool(options.get("stream_usage", True)),
        stops_after_calls=after_calls,
        stops_on_disconnect=on_disconnect,
        accepts=accepts,
        refuses=refuses,
        team_caches=options.get("team_caches", True),
    )


def _template_rule(options: Mapping[str, Any]) -> TemplateRule | None:
    """Returns the rule that the options state for the models' chat templates.

    None means that the templates take what every caller sends, as far as is known.
    """
    if options.get("instructions") == "nowhere":
        return "no_instructions"
    if options.get("turns") == "alternate":
        return "alternate_turns"
    return "leading_instructions" if options.get("instructions") == "first" else None


def _field_names(option: str, options: Mapping[str, Any]) -> frozenset[str]:
    """Raises InvalidOption."""
    names = options.get(option, [])
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):  # pyright: ignore[reportUnknownVariableType]
        raise InvalidOption(f"Option {option} must be a list of field names.")
    return frozenset(names)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
