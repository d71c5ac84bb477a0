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
    """A method of a path. `body`: the Structs of which a request is one; their components' names begin with `prefix`.

    `model`: a request may name a model beside the fields of `body`. `errors`: statuses beyond 400, 401, 403, 500 and 503.
    `described`: errors with what they mean here. `parameters`: in the query, as name -> schema. `response` None: there is no success.
    `status`: of a success. `cached`: with an ETag for If-None-Match. `also`: further statuses with the response of a success.
    `redirects`: where to, with a 303. `error_schema`: of its errors; Anthropic's and LMDeploy's clients expect their own.
    """

    method: Literal["GET", "POST", "PUT", "DELETE"]
    path: str
    id: str
    tag: str
    summary: str
    description: str = ""
    access: Access = "caller"
    prefix: str = ""
    body: Sequence[type[Struct]] = ()
    body_media_type: str = "application/json"
    model: bool = False
    example: Mapping[str, Any] | None = None
    response: Schema | None = {}
    status: int = 200
    response_media_type: str = "application/json"
    streams: bool = False
    parameters: Mapping[str, Schema] = {}
    errors: Sequence[int] = ()
    described: Mapping[int, str] = {}
    also: Mapping[int, str] = {}
    redirects: str = ""
    cached: bool = False
    error_schema: str = "Error"


def object_with(**properties: Schema) -> Schema:
    """An object with these fields and perhaps others."""
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": True}


def list_of(item: Schema, **more: Schema) -> Schema:
    return object_with(data={"type": "array", "items": item}, **more)
