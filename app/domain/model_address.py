"""Addresses that name a model and what to do with it, as Google's do: /v1beta/models/NAME:generateContent."""

import re
from typing import Literal, get_args

from msgspec import Struct

Method = Literal["generateContent", "streamGenerateContent", "countTokens", "embedContent", "batchEmbedContents"]
METHODS: tuple[Method, ...] = get_args(Method)
# The beginnings of paths that only Google's API has. Its SDKs use v1beta or v1.
GOOGLE_PATHS = ("/v1beta/", "/v1alpha/", "/upload/")
_ADDRESS = re.compile(r"/(?:v1|v1beta|v1alpha)/models/(?P<model>.+):(?P<method>[a-zA-Z]+)", re.DOTALL)


class ModelAddress(Struct, frozen=True):
    """An address as far as its route does not say it. `query` is as it was sent."""

    model: str
    query: bytes


def template(method: str) -> str:
    """The path under which the route of a method stands."""
    return f"/{{version}}/models/{{model}}:{method}"


def split_address(path: str) -> tuple[str, str] | None:
    """The template of a routed path, and the model that it names; None: it is no such address."""
    matched = _ADDRESS.fullmatch(path)
    return None if matched is None else (template(matched["method"]), matched["model"])
