"""Addresses that name a model and what to do with it, as Google's do (/v1beta/models/NAME:generateContent) and those of clouds."""

import re
from collections.abc import Sequence
from typing import Literal, get_args

from msgspec import Struct

Method = Literal["generateContent", "streamGenerateContent", "countTokens", "embedContent", "batchEmbedContents"]
METHODS: tuple[Method, ...] = get_args(Method)
# The beginnings of paths that only Google's API has. Its SDKs use v1beta or v1.
GOOGLE_PATHS = ("/v1beta/", "/v1alpha/", "/upload/")
# What Amazon Bedrock and Vertex AI have for the models of Anthropic.
BEDROCK_METHODS = ("invoke", "invoke-with-response-stream")
VERTEX_METHODS = ("rawPredict", "streamRawPredict")
_VERTEX_MODELS = "/v1/projects/{project}/locations/{location}/publishers/anthropic/models/"
# The beginnings of all paths that may be such an address.
ADDRESSED_PATHS = ("/v1", "/model/")


class ModelAddress(Struct, frozen=True):
    """An address as far as its route does not say it. `query` is as it was sent."""

    model: str
    query: bytes


def template(method: str) -> str:
    """The path under which the route of a method of Google's stands."""
    return f"/{{version}}/models/{{model}}:{method}"


def bedrock_template(method: str) -> str:
    """The path under which the route of a method of Bedrock's stands."""
    return f"/model/{{model}}/{method}"


def vertex_template(method: str) -> str:
    """The path under which the route of a method of Vertex AI's stands; `count-tokens` is one that has its model in the body."""
    return f"{_VERTEX_MODELS}count-tokens:rawPredict" if method == "count-tokens" else f"{_VERTEX_MODELS}{{model}}:{method}"


_ADDRESSES: Sequence[tuple[re.Pattern[str], str]] = (
    (re.compile(r"/(?:v1|v1beta|v1alpha)/models/(?P<model>.+):(?P<method>[a-zA-Z]+)", re.DOTALL), template("{method}")),
    (re.compile(rf"/model/(?P<model>.+)/(?P<method>{'|'.join(BEDROCK_METHODS)})", re.DOTALL), bedrock_template("{method}")),
    (
        re.compile(r"/v1/projects/[^/]+/locations/[^/]+/publishers/anthropic/models/(?P<model>(?P<method>count-tokens)):rawPredict"),
        vertex_template("count-tokens"),
    ),
    (
        re.compile(
            rf"/v1/projects/[^/]+/locations/[^/]+/publishers/anthropic/models/(?P<model>[^/]+):(?P<method>{'|'.join(VERTEX_METHODS)})"
        ),
        vertex_template("{method}"),
    ),
)


def split_address(path: str) -> tuple[str, str] | None:
    """The template of a routed path, and the model that it names; None: it is no such address."""
    for pattern, path_template in _ADDRESSES:
        if (matched := pattern.fullmatch(path)) is not None:
            return path_template.replace("{method}", matched["method"]), matched["model"]
    return None
