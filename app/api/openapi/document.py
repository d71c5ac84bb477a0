"""The OpenAPI 3.1 document of the whole API, built from the declarations of its operations."""

import copy
import importlib.metadata
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from app.api.openapi.admin_paths import admin_paths
from app.api.openapi.caller_paths import caller_paths
from app.api.openapi.caller_routes import CALLER_ROUTES
from app.api.openapi.property_descriptions import describe_properties
from app.api.openapi.responses import ANTHROPIC_ERROR_SCHEMA, ERROR_SCHEMA, HEADERS, error_components
from app.api.openapi.schemas import Schema
from app.api.rest.operation import Operation

_DESCRIPTION = """\
One gateway to every language model a company uses: its inference routes have the shapes of OpenAI's and Anthropic's APIs; below \
/admin/v1 is what dashboards, portals and scripts manage it with.

Lists come in pages: `next` of one page is `after` of the next (`before` in the list of inferences). A PATCH is a merge patch: what is \
left out stays, null is the default. A change of an existing resource takes its ETag in `If-Match`; of two editors, the second gets 412 \
and loses nothing. Every change but an operation on an engine takes `dry_run`, `wait` and an `Idempotency-Key`, and is answered once every \
gateway process serves it. Unknown fields and parameters are refused."""

_SECURITY_SCHEMES: dict[str, Schema] = {
    "callerKey": {
        "type": "http",
        "scheme": "bearer",
        "description": "A key of a team, as `narthex keys create` or the admin API makes it.",
    },
    "adminKey": {
        "type": "http",
        "scheme": "bearer",
        "description": "An admin key, a token of a service account, or the token of a session that a command began.",
    },
    "sessionCookie": {
        "type": "apiKey",
        "in": "cookie",
        "name": "__Host-narthex_session",
        "description": "The session of a browser that has signed in at /admin/v1/sign-in; over plain http without the `__Host-`. Changes"
        " are taken from pages of this server and of the origins that CORS permits only.",
    },
    "keyHeader": {"type": "apiKey", "in": "header", "name": "x-api-key", "description": "The same keys, as Anthropic's clients send them."},
    "nodeSecret": {"type": "http", "scheme": "basic", "description": "The secret of nodes (NARTHEX_NODE_SECRET), as the password."},
}
_NODE_ERROR: Schema = {
    "type": "object",
    "description": "An error, in the shape that engines expect of a proxy.",
    "properties": {"detail": {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "object", "additionalProperties": True}}]}},
    "required": ["detail"],
}
_TENSORZERO_ERROR: Schema = {
    "type": "object",
    "description": "An error, in TensorZero's shape. `error_json` has what programs read of it.",
    "properties": {"error": {"type": "string"}, "error_json": {"type": "object", "additionalProperties": True}},
    "required": ["error", "error_json"],
}

_GOOGLE_ERROR: Schema = {
    "type": "object",
    "description": "An error, in Google's shape. Its `details` have what programs read of it.",
    "properties": {
        "error": {
            "type": "object",
            "properties": {
                "code": {"type": "integer"},
                "message": {"type": "string"},
                "status": {"type": "string"},
                "details": {"type": "array", "items": {"type": "object", "additionalProperties": True}},
            },
            "required": ["code", "message", "status"],
        }
    },
    "required": ["error"],
}

_BEDROCK_ERROR: Schema = {
    "type": "object",
    "description": "An error, in the shape of Bedrock's runtime. Its type is in the header `x-amzn-ErrorType`.",
    "properties": {"message": {"type": "string"}},
    "required": ["message"],
}


def build_document(operations: Sequence[Operation[Any, Any]]) -> Schema:
    """Builds the document without `servers`, which depend on the address that a request was sent to."""
    admin, admin_schemas = admin_paths(operations)
    callers, caller_schemas = caller_paths(CALLER_ROUTES)
    shared = copy.deepcopy(
        {
            "Error": ERROR_SCHEMA,
            "AnthropicError": ANTHROPIC_ERROR_SCHEMA,
            "NodeError": _NODE_ERROR,
            "TensorZeroError": _TENSORZERO_ERROR,
            "GoogleError": _GOOGLE_ERROR,
            "BedrockError": _BEDROCK_ERROR,
        }
    )
    for component in shared.values():
        describe_properties(component)
    paths = {**callers, **admin}
    groups = [(name, _tags(each)) for name, each in (("APIs of callers", callers), ("Admin API", admin))]
    tags = list(dict.fromkeys(tag for _, tags in groups for tag in tags))
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Narthex",
            "version": importlib.metadata.version("narthex"),
            "description": _DESCRIPTION,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "tags": [{"name": tag} for tag in tags],
        # As tools that show such documents know it: https://redocly.com/docs-legacy/api-reference-docs/specification-extensions/x-tag-groups
        "x-tagGroups": [{"name": name, "tags": tags} for name, tags in _tag_groups(groups)],
        "paths": paths,
        "components": {
            "schemas": dict(sorted({**caller_schemas, **admin_schemas, **shared}.items())),
            "responses": error_components(),
            "headers": dict(HEADERS),
            "securitySchemes": _SECURITY_SCHEMES,
        },
    }


def _tags(paths: Mapping[str, Schema]) -> list[str]:
    return list(dict.fromkeys(operation["tags"][0] for methods in paths.values() for operation in methods.values()))


def _tag_groups(groups: Sequence[tuple[str, Sequence[str]]]) -> Iterator[tuple[str, list[str]]]:
    """Yields each group with its tags. A tag of several groups is of the last one: signing in is part of the admin API."""
    for at, (name, tags) in enumerate(groups):
        later = {tag for _, others in groups[at + 1 :] for tag in others}
        yield name, [tag for tag in tags if tag not in later]
