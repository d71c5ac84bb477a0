"""Addresses that name a model and what to do with it, as Google's do: /v1beta/models/NAME:generateContent."""

import re
from collections.abc import Callable
from typing import Protocol, cast

from msgspec import Struct

from app.api.server.http_call import CallHandler, HttpCall
from app.api.server.path_segments import decode_slashes

# Versions of Google's API, which are the same here. Its SDKs use v1beta or v1.
VERSIONS = ("v1beta", "v1", "v1alpha")
# The beginnings of paths that only Google's API has.
GOOGLE_PATHS = ("/v1beta/", "/v1alpha/", "/upload/")
_ADDRESS = re.compile(r"/(?:v1|v1beta|v1alpha)/models/(?P<model>.+):(?P<method>[a-zA-Z]+)", re.DOTALL)


class ModelAddress(Struct, frozen=True):
    """The part of an address that a route does not know. `query` is as it was sent."""

    model: str
    query: bytes


class AddressedRoute(Protocol):
    """A route whose address names a model. It stands among the handlers of paths under its template, and handles a call to that, too."""

    async def __call__(self, call: HttpCall) -> None: ...

    def at(self, address: ModelAddress) -> CallHandler:
        """The handler of one call at this address."""
        ...


FindHandler = Callable[[str], CallHandler | None]


def template(method: str) -> str:
    """The path under which the route of a method stands."""
    return f"/{{version}}/models/{{model}}:{method}"


def find_addressed(find: FindHandler, path: str, url: bytes) -> CallHandler | None:
    """The handler of a call to a path that no route has as it is; None: it is no such address. `find` looks a path up."""
    matched = _ADDRESS.fullmatch(path)
    if matched is None:
        return None
    route = find(template(matched["method"]))
    if route is None:
        return None
    return cast("AddressedRoute", route).at(ModelAddress(decode_slashes(matched["model"]), url.partition(b"?")[2].partition(b"#")[0]))
