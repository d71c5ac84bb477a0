"""The admin API in the OpenAPI document, from the declarations of its operations."""

import re
from collections.abc import Sequence
from typing import Any

from app.api.openapi.property_descriptions import describe_parameter
from app.api.openapi.responses import ERRORS_OF_ANY, error_responses, header, json_content
from app.api.openapi.schemas import Schema, schemas_of, without_null
from app.api.rest.dispatch import DryRun
from app.api.rest.operation import NoBody, Operation
from app.store.access.roles import roles_with

ADMIN_PREFIX = "/admin/v1"
# Which of these an operation takes is said by each operation's own security.
ADMIN_SECURITY: list[Schema] = [{"adminKey": []}, {"keyHeader": []}, {"sessionCookie": []}]

_DRY_RUN: Schema = {
    "name": "dry_run",
    "in": "query",
    "required": False,
    "description": "`true`: change nothing, and return what would change.",
    "schema": {"type": "boolean", "default": False},
}
_WAIT: Schema = {
    "name": "wait",
    "in": "query",
    "required": False,
    "description": "Whether the answer to a change of what gateway processes serve waits until each of them serves it, for"
    " `NARTHEX_APPLY_WAIT_S` at most: see the header `x-narthex-applied`. What takes something from a key or a team is always waited for.",
    "schema": {"type": "boolean", "default": True},
}
_IDEMPOTENCY_KEY: Schema = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "description": "A text of your choice: a repeated request with the same one gets the response of the first, and changes nothing.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 255},
}
_IF_MATCH: Schema = {
    "name": "If-Match",
    "in": "header",
    "required": False,
    "description": "The ETag of the state that you change, or `*` for any state. Without it an existing resource is not changed (428).",
    "schema": {"type": "string"},
}

_HEADERS_OF_CHANGES = {"idempotent-replayed": "Replayed", "x-narthex-applied": "Applied", "x-narthex-not-applied": "NotApplied"}


def admin_paths(operations: Sequence[Operation[Any, Any]]) -> tuple[dict[str, Schema], dict[str, Schema]]:
    """The paths, and the schemas that they refer to."""
    bodies = [None if operation.body in (NoBody, bytes) else operation.body for operation in operations]
    types = [*bodies, *(operation.response for operation in operations)]
    schemas, components = schemas_of([*(kind for kind in types if kind is not None), DryRun])
    by_position = iter(schemas)
    schema_of_type = [None if kind is None else next(by_position) for kind in types]
    dry_run = next(by_position)
    paths: dict[str, Schema] = {}
    for operation, body, response in zip(operations, schema_of_type, schema_of_type[len(operations) :], strict=False):
        described = _describe(operation, body, response, dry_run)
        paths.setdefault(ADMIN_PREFIX + operation.path, {})[operation.method.lower()] = described
    return paths, components


def _describe(operation: Operation[Any, Any], body: Schema | None, response: Schema | None, dry_run: Schema) -> Schema:
    described: Schema = {
        "operationId": operation.id,
        "tags": [operation.tag],
        "summary": operation.summary,
        "description": f"{operation.description}\n\n{_permission(operation)}".strip(),
        "security": ADMIN_SECURITY,
        "parameters": _parameters(operation),
    }
    if operation.body is bytes:
        content: Schema = {operation.body_media_type: {"schema": {"type": "string"}}}
        described["requestBody"] = {"required": not operation.body_is_optional, "content": content}
    elif body is not None:
        content = json_content(body)
        if operation.example is not None:
            content["application/json"]["example"] = operation.example
        described["requestBody"] = {"required": not operation.body_is_optional, "content": content}
    described["responses"] = {**_successes(operation, response, dry_run), **_errors(operation)}
    return described


def _permission(operation: Operation[Any, Any]) -> str:
    if operation.permission is None:
        return "For whoever is authenticated."
    roles = ", ".join(roles_with(operation.permission))
    in_team = roles_with(operation.permission, in_team=True) if operation.scope == "team" else []
    of_team = f"; for a team's own, also in that team: {', '.join(in_team)}" if in_team else ""
    return f"Permission `{operation.permission}`. Roles: {roles}{of_team}."


def _parameters(operation: Operation[Any, Any]) -> list[Schema]:
    parameters: list[Schema] = [
        {
            **{"name": name, "in": "path", "required": True, "description": describe_parameter(name) or name},
            "schema": {"type": "string", "minLength": 1},
        }
        for name in re.findall(r"\{(\w+)\}", operation.path)
    ]
    (schema,), components = schemas_of([operation.query])
    if "$ref" not in schema:  # a dict: parameters of any name
        any_name: Schema = {"name": "arguments", "in": "query", "required": False, "style": "form", "explode": True, "schema": schema}
        any_name["description"] = "Arguments of the operation, by their names."
        parameters.append(any_name)
    query: Schema = components[schema["$ref"].rpartition("/")[2]] if "$ref" in schema else {"properties": {}}
    for name, described in query["properties"].items():
        value = without_null(described)
        parameter: Schema = {"name": name, "in": "query", "required": name in query.get("required", [])}
        if description := value.pop("description", None) or describe_parameter(name):
            parameter["description"] = description
        parameters.append({**parameter, "schema": value})
    if operation.access == "write":
        parameters += [_DRY_RUN, _WAIT, _IDEMPOTENCY_KEY]
    if operation.conditional:
        parameters.append(_IF_MATCH)
    return parameters


def _successes(operation: Operation[Any, Any], response: Schema | None, dry_run: Schema) -> dict[str, Schema]:
    schema: Schema = {} if response is None else response
    media_types = (operation.response_media_type, *operation.other_media_types)
    is_json = "json" in operation.response_media_type.partition(";")[0].partition("/")[2].split("+")
    content = {media_type.partition(";")[0]: {"schema": schema if is_json else {"type": "string"}} for media_type in media_types}
    statuses = {operation.status: operation.summary, **{status: text for status, text in operation.errors.items() if status < 300}}
    headers = {"x-request-id": header("RequestId"), "etag": header("ETag")}
    if operation.access == "write":
        headers |= {name: header(component) for name, component in _HEADERS_OF_CHANGES.items()}
    responses = {status: {"description": text, "headers": headers, "content": content} for status, text in statuses.items()}
    if operation.access == "write":
        usual = responses.get(200)
        either = dry_run if usual is None else {"anyOf": [schema, dry_run]} if is_json else None
        if either is not None:
            description = (
                "With `dry_run`: what would change." if usual is None else f"{operation.summary}. With `dry_run`: what would change."
            )
            responses[200] = {"description": description, "headers": headers, "content": json_content(either)}
        elif usual is not None:
            responses[200] = {**usual, "content": {**content, **json_content(dry_run)}}
    return {str(status): described for status, described in sorted(responses.items())}


def _errors(operation: Operation[Any, Any]) -> dict[str, Any]:
    statuses = {400, 401, 403, 500, 503, *ERRORS_OF_ANY}
    if "{" in operation.path:
        statuses.add(404)
    if operation.body is not NoBody:
        statuses.add(413)
    if operation.access == "write":
        statuses |= {409, 413, 422}
    if operation.conditional:
        statuses |= {412, 428}
    return error_responses(statuses, {status: text for status, text in operation.errors.items() if status >= 400})
