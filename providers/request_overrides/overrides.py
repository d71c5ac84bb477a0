"""The additions of a caller to the request that goes to a target: TensorZero's extra_body, extra_headers and provider_tools.

Nothing here gets around what the gateway reads, bounds, checks or writes (own_fields.py, headers.py), and what an adapter refuses by name
(providers/restricted_fields.py) it refuses here too: its rules are applied afterwards.
"""

from collections.abc import Mapping

import msgspec
from msgspec import Raw, Struct

from providers.canonical.extra_fields import as_raw
from providers.canonical.raw_json import Body
from providers.request_overrides.json_pointer import delete_value, set_value

_list = msgspec.json.Decoder(list[Raw])


class Scope(Struct, frozen=True):
    """The requests that an override is for, by the configured names. None means all."""

    model: str | None = None
    provider: str | None = None
    variant: str | None = None

    def covers(self, target: "Scope") -> bool:
        """Whether a request to `target` is in this scope. A variant of None is of no function."""
        return (
            self.model in (None, target.model)
            and self.provider in (None, target.provider)
            and (self.variant is None or self.variant == target.variant)
        )


class BodyOverride(Struct, frozen=True):
    """A change of the body that goes to a target."""

    scope: Scope
    tokens: tuple[str, ...]  # of the pointer
    value: Raw | None  # None: what is there is deleted
    path: str  # the caller's path of the pointer


class HeaderOverride(Struct, frozen=True):
    """A change of a header that goes to a target."""

    scope: Scope
    name: str
    value: str | None  # None: the header of this name is not sent


class ProviderTool(Struct, frozen=True):
    """A tool that is added for one provider."""

    scope: Scope
    tool: Raw  # as the provider's API has it


class RequestOverrides(Struct, frozen=True):
    body: tuple[BodyOverride, ...] = ()
    headers: tuple[HeaderOverride, ...] = ()
    tools: tuple[ProviderTool, ...] = ()

    def apply(self, body: Body, target: Scope) -> None:
        """Changes a body for this target, in place. Raises InvalidRequest for a pointer that leads nowhere in it, or into too much."""
        tools = [each.tool for each in self.tools if each.scope.covers(target)]
        if tools:
            body["tools"] = [*(_list.decode(as_raw(body["tools"])) if body.has_value("tools") else ()), *tools]
        copied: set[str] = set()
        for override in self.body:
            if not override.scope.covers(target):
                continue
            if override.value is None:
                delete_value(body, override.tokens, override.path, copied)
            else:
                set_value(body, override.tokens, override.value, override.path, copied)

    def headers_for(self, target: Scope) -> Mapping[str, str]:
        """Returns the headers for a target, by name in lower case. Of several with one name the last counts."""
        headers: dict[str, str] = {}
        for override in self.headers:
            if override.scope.covers(target):
                if override.value is None:
                    headers.pop(override.name, None)
                else:
                    headers[override.name] = override.value
        return headers
