"""How a route of callers, nodes or operators is described where it is declared: the OpenAPI document is made of these descriptions.

Bodies have the documented fields, as the gateway validates them; further fields are allowed, and reach the engine or are reported.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from msgspec import Struct

Schema = dict[str, Any]
# own: whoever has a key, and whoever uses the admin API.
Access = Literal["caller", "admin", "own", "node", "public"]

TEXT: Schema = {"type": "string"}
TEXT_OR_NULL: Schema = {"anyOf": [{"type": "string"}, {"type": "null"}]}
COUNT: Schema = {"type": "integer", "minimum": 0}
COUNT_OR_NULL: Schema = {"anyOf": [COUNT, {"type": "null"}]}
ITEMS: Schema = {"type": "array", "items": {"type": "object", "additionalProperties": True}}
OBJECT: Schema = {"type": "object", "additionalProperties": True}


class CallerRoute(Struct, frozen=True, kw_only=True):
    """A method of a path that callers use, as the OpenAPI document describes it."""

    method: Literal["GET", "POST", "PUT", "DELETE"]
    path: str
    id: str
    tag: str
    summary: str
    description: str = ""
    access: Access = "caller"
    prefix: str = ""  # the names of the components of `body` begin with it
    body: Sequence[type[Struct]] = ()  # a request is one of these Structs
    body_media_type: str = "application/json"
    model: bool = False  # whether a request may name a model beside the fields of `body`
    example: Mapping[str, Any] | None = None
    response: Schema | None = {}  # None: there is no success
    status: int = 200  # of a success
    response_media_type: str = "application/json"
    streams: bool = False
    parameters: Mapping[str, Schema] = {}  # in the query, as name -> schema
    errors: Sequence[int] = ()  # statuses beyond 400, 401, 403, 500 and 503
    described: Mapping[int, str] = {}  # errors with what they mean here
    also: Mapping[int, str] = {}  # further statuses with the response of a success
    redirects: str = ""  # where to, with a 303
    cached: bool = False  # whether it has an ETag for If-None-Match
    error_schema: str = "Error"  # of its errors; Anthropic's and LMDeploy's clients expect their own


def object_with(**properties: Schema) -> Schema:
    """An object with these fields and perhaps others."""
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": True}


def list_of(item: Schema, **more: Schema) -> Schema:
    return object_with(data={"type": "array", "items": item}, **more)
