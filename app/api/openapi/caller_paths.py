"""The routes for callers, nodes and operators in the OpenAPI document, from their descriptions."""

import re
from collections.abc import Sequence
from typing import Any

from app.api.callers.caller_route import Access, CallerRoute
from app.api.openapi.responses import ERRORS, ERRORS_OF_ANY, error_response, error_responses, header, json_content
from app.api.openapi.schemas import Schema, component_name, schemas_of

_SECURITY: dict[Access, list[Schema]] = {
    "caller": [{"callerKey": []}, {"keyHeader": []}],
    "admin": [{"adminKey": []}, {"keyHeader": []}],
    "own": [{"callerKey": []}, {"adminKey": []}, {"sessionCookie": []}, {"keyHeader": []}],
    "node": [{"nodeSecret": []}, {"adminKey": []}],
    "public": [],
}
_KEYED_ERRORS = (400, 401, 403, 500, 503)
_IF_NONE_MATCH: Schema = {
    "name": "If-None-Match",
    "in": "header",
    "required": False,
    "description": "The ETag of what you have: if that is still current, the response is a 304.",
    "schema": {"type": "string"},
}
# What is in braces in paths.
_PATH_PARAMETERS = {
    "project": "A project of Vertex AI's, which is not looked at.",
    "location": "A location of Vertex AI's, which is not looked at.",
    "id": "An id, as a response has it.",
    "name": "A name, as the list has it.",
    "version": "v1beta, v1 or v1alpha, which are the same here.",
    "model": "A model or a function, as the list has it.",
}
_MODEL: Schema = {"type": "string", "description": "May be left out if only one model that the key may use serves this route."}


def caller_paths(routes: Sequence[CallerRoute]) -> tuple[dict[str, Schema], dict[str, Schema]]:
    """The paths, and the schemas that they refer to."""
    paths: dict[str, Schema] = {}
    components: dict[str, Schema] = {}
    for route in routes:
        body, body_components = _body(route)
        components.update(body_components)
        paths.setdefault(route.path, {})[route.method.lower()] = _describe(route, body)
    return paths, components


def _body(route: CallerRoute) -> tuple[Schema | None, dict[str, Schema]]:
    if not route.body:
        return None, {}
    schemas, components = schemas_of(route.body, lambda name: _prefixed(route.prefix, component_name(name)))
    for schema in schemas:
        request = components[schema["$ref"].rpartition("/")[2]]
        if route.model:
            request["properties"] = {"model": _MODEL, **request["properties"]}
        request["description"] = f"A request of {route.path}."
    for name, component in components.items():
        _drop_null_defaults(component)
        _name_its_api(name, component)
    return schemas[0] if len(schemas) == 1 else {"anyOf": schemas}, components


def _name_its_api(component: str, schema: Schema) -> None:
    """Says of each field that has no description whose documentation describes it."""
    api = next(api for prefix, api in _APIS.items() if component.startswith(prefix))
    for described in schema.get("properties", {}).values():
        described.setdefault("description", f"As in {api}.")


# The APIs whose fields those of callers are, by how the names of their components begin.
_APIS = {
    "Chat": "OpenAI's Chat Completions API, or in an engine's addition to it",
    "Completion": "OpenAI's Completions API, or in an engine's addition to it",
    "Responses": "OpenAI's Responses API, or in an engine's addition to it",
    "Embeddings": "OpenAI's Embeddings API, or in an engine's addition to it",
    "Messages": "Anthropic's Messages API",
    "CountTokens": "Anthropic's API for counting tokens",
    "TensorZero": "TensorZero's API",
    "Google": "Google's Gemini API",
    "": "the API of the engines that have this route",
}


def _prefixed(prefix: str, name: str) -> str:
    return name if name.startswith(prefix) else prefix + name


def _drop_null_defaults(component: Schema) -> None:
    """A field that is left out is as good as null: saying so of each would hide the defaults that mean something."""
    for described in component.get("properties", {}).values():
        if described.get("default", ...) is None:
            del described["default"]


def _describe(route: CallerRoute, body: Schema | None) -> Schema:
    described: Schema = {
        "operationId": route.id,
        "tags": [route.tag],
        "summary": route.summary,
        "security": _SECURITY[route.access],
        "parameters": [
            *(
                {"name": name, "in": "path", "required": True, "description": _PATH_PARAMETERS[name], "schema": {"type": "string"}}
                for name in re.findall(r"\{(\w+)\}", route.path)
            ),
            *([_IF_NONE_MATCH] if route.cached else []),
            *(_query_parameter(name, schema) for name, schema in route.parameters.items()),
        ],
    }
    if route.description:
        described["description"] = route.description
    if body is not None:
        content = json_content(body, route.body_media_type)
        if route.example is not None:
            content[route.body_media_type]["example"] = route.example
        described["requestBody"] = {"required": True, "content": content}
    described["responses"] = _responses(route)
    return described


def _query_parameter(name: str, schema: Schema) -> Schema:
    described = {key: value for key, value in schema.items() if key == "description"}
    rest = {key: value for key, value in schema.items() if key != "description"}
    return {"name": name, "in": "query", "required": False, **described, "schema": rest}


def _responses(route: CallerRoute) -> dict[str, Any]:
    responses: dict[str, Any] = {}
    if route.response is not None:
        content = json_content(route.response, route.response_media_type)
        if route.streams:
            # Without a type: OpenAPI 3.1 does not say whether it would be that of the stream or of an event, and tools differ.
            content["text/event-stream"] = {"schema": {"description": "With `stream`: server-sent events."}}
        headers = {} if route.access == "public" else {"x-request-id": header("RequestId")}
        for status, text in {route.status: route.summary, **route.also}.items():
            responses[str(status)] = {"description": text, "headers": headers, "content": content}
    if route.redirects:
        location = {"description": route.redirects, "schema": {"type": "string", "format": "uri"}}
        responses["303"] = {"description": route.redirects, "headers": {"location": location}}
    if route.cached:
        responses["304"] = {"description": "It is what you have."}
    statuses = {*ERRORS_OF_ANY, *(() if route.access == "public" else _KEYED_ERRORS), *route.errors} - {*route.also}
    if route.error_schema == "Error":
        return {**responses, **error_responses(statuses, route.described)}
    return {**responses, **{str(status): error_response(ERRORS[status][1], status, route.error_schema) for status in sorted(statuses)}}
