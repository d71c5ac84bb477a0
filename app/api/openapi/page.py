"""The OpenAPI document as HTML: an entry for each operation, closed until it is wanted, and the schemas that they refer to.

There is no script: a browser's own elements open, search and work with a keyboard, and nothing is loaded from elsewhere.
"""

import json
from collections.abc import Iterator, Mapping
from html import escape
from typing import Any, cast

from app.api.openapi.schemas import Schema

_ACCESS_VARIABLES = {"adminKey": "NARTHEX_ADMIN_KEY", "callerKey": "NARTHEX_KEY"}
_BOUNDS = {
    "minimum": "at least {}",
    "exclusiveMinimum": "more than {}",
    "maximum": "at most {}",
    "exclusiveMaximum": "less than {}",
    "minLength": "at least {} characters",
    "maxLength": "at most {} characters",
    "minItems": "at least {} items",
    "maxItems": "at most {} items",
    "pattern": "matching {}",
    "format": "{}",
}


def render_operations(document: Schema) -> str:
    """Contents, operations by tag, and schemas. `servers` of the document are its examples' address."""
    by_tag: dict[str, list[tuple[str, str, Schema, str]]] = {}
    for path, item in document["paths"].items():
        server = item.get("servers", document["servers"])[0]["url"]
        for method, operation in item.items():
            if method != "servers":
                by_tag.setdefault(operation["tags"][0], []).append((method.upper(), path, operation, server))
    parts = ['<h2 id="operations-list">Every operation</h2><p>The same as a document for programs: ']
    parts.append(
        '<a href="/openapi.json">/openapi.json</a> (OpenAPI 3.1). Open an entry for parameters, bodies, errors and an example.</p>'
    )
    for tag, operations in by_tag.items():
        parts.append(f'<h3 id="{_tag_id(tag)}">{escape(tag)}</h3>')
        parts += [_operation(document, *each) for each in operations]
    parts.append('<h2 id="schemas">Schemas</h2>')
    for name, schema in document["components"]["schemas"].items():
        parts.append(f'<details id="schema-{name}"><summary><code>{name}</code></summary>{_schema(schema)}</details>')
    return "".join(parts)


def render_contents(document: Schema) -> str:
    """Links to the tags."""
    tags = [tag["name"] for tag in document["tags"]]
    return " · ".join(f'<a href="#{_tag_id(tag)}">{escape(tag)}</a>' for tag in tags) + ' · <a href="#schemas">Schemas</a>'


def _tag_id(tag: str) -> str:
    return "tag-" + tag.lower().replace(" ", "-")


def _operation(document: Schema, method: str, path: str, operation: Schema, server: str) -> str:
    parts = [
        f'<details class="operation" id="op-{operation["operationId"]}"><summary><b>{method}</b> <code>{escape(path)}</code> '
        f"{escape(operation['summary'])}</summary>"
    ]
    parts += [f"<p>{_text(paragraph)}</p>" for paragraph in operation.get("description", "").split("\n\n") if paragraph]
    parts.append(f"<p>Operation id: <code>{operation['operationId']}</code></p>")
    if operation["parameters"]:
        rows = (
            _row(each["name"], each["in"], each["schema"], each["required"], each.get("description", ""))
            for each in operation["parameters"]
        )
        parts.append(f"<table><tr><th>Parameter<th>In<th>Type<th>Meaning</tr>{''.join(rows)}</table>")
    body = operation.get("requestBody")
    if body is not None:
        kinds = "; ".join(f"{escape(media_type)}: {_type(content['schema'])}" for media_type, content in body["content"].items())
        parts.append(f"<p>Body{'' if body['required'] else ' (optional)'}: {kinds}</p>")
    parts.append("<table><tr><th>Status<th>Response<th>Meaning</tr>")
    for status, response in operation["responses"].items():
        if "$ref" in response:
            response = document["components"]["responses"][response["$ref"].rpartition("/")[2]]
        kinds = "<br>".join(_type(content["schema"]) for content in response.get("content", {}).values())
        parts.append(f"<tr><td>{status}<td>{kinds}<td>{_text(response['description'])}</tr>")
    parts.append(f"</table><pre><code>{escape(_curl(method, server + path, operation))}</code></pre></details>")
    return "".join(parts)


def _curl(method: str, url: str, operation: Schema) -> str:
    for parameter in operation["parameters"]:
        if parameter["in"] == "path":
            url = url.replace("{" + parameter["name"] + "}", parameter["name"].upper())
    lines = [f'curl {"" if method == "GET" else f"-X {method} "}"{url}"']
    schemes = [name for each in operation["security"] for name in each]
    if "nodeSecret" in schemes:
        lines.append('-u "node:$NARTHEX_NODE_SECRET"')
    elif schemes and schemes[0] in _ACCESS_VARIABLES:
        lines.append(f'-H "Authorization: Bearer ${_ACCESS_VARIABLES[schemes[0]]}"')
    if any(parameter["name"] == "If-Match" for parameter in operation["parameters"]):
        lines.append("-H 'If-Match: *'")
    for media_type, content in operation.get("requestBody", {"content": {}})["content"].items():
        body = json.dumps(content["example"], ensure_ascii=False).replace("'", "'\\''") if "example" in content else None
        lines += [f"-H 'Content-Type: {media_type}'", "-d @FILE" if body is None else f"-d '{body}'"]
    return " \\\n  ".join(lines)


def _schema(schema: Schema) -> str:
    description = f"<p>{_text(schema['description'])}</p>" if schema.get("description") else ""
    if "properties" not in schema:
        return f"{description}<p>{_type({name: value for name, value in schema.items() if name != 'description'})}</p>"
    return description + _properties(schema)


def _properties(schema: Schema) -> str:
    required = schema.get("required", [])
    rows = (_row(name, None, value, name in required, value.get("description", "")) for name, value in schema["properties"].items())
    closed = "" if schema.get("additionalProperties") is not False else "<p>No other fields.</p>"
    return f"<table><tr><th>Field<th>Type<th>Meaning</tr>{''.join(rows)}</table>{closed}"


def _row(name: str, place: str | None, schema: Schema, required: bool, description: str) -> str:
    mark = " <b>required</b>" if required else ""
    where = "" if place is None else f"<td>{place}"
    return (
        f"<tr><td><code>{escape(name)}</code>{mark}{where}<td>{_type(schema)}<td>{_text(description or _nested_description(schema))}</tr>"
    )


def _nested_description(schema: Schema) -> str:
    return next((each["description"] for each in schema.get("anyOf", []) if "description" in each), "")


def _type(schema: Schema) -> str:
    """A type as people write it, with its bounds; named schemas are links."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f'<a href="#schema-{name}">{name}</a>'
    alternatives = schema.get("anyOf", schema.get("oneOf"))
    if alternatives:
        return " or ".join(_type(each) for each in alternatives) + _default(schema)
    if "const" in schema:
        return f"<code>{escape(json.dumps(schema['const']))}</code>"
    if "enum" in schema:
        return ", ".join(f"<code>{escape(str(value))}</code>" for value in schema["enum"]) + _default(schema)
    kind = schema.get("type", "any value")
    if kind == "array":
        kind = f"list of {_type(schema['items'])}" if schema.get("items") else "list"
    elif kind == "object" and isinstance(schema.get("additionalProperties"), dict):
        kind = f"object of {_type(schema['additionalProperties'])}"
    elif kind == "object" and "properties" in schema:
        kind = "object with " + ", ".join(f"<code>{escape(name)}</code>" for name in schema["properties"])
    return ", ".join([kind, *_bounds(schema)]) + _default(schema)


def _bounds(schema: Mapping[str, Any]) -> Iterator[str]:
    for name, words in _BOUNDS.items():
        if name in schema:
            yield escape(words.format(schema[name]))


def _default(schema: Schema) -> str:
    if schema.get("default") is None:
        return ""
    return f"; default <code>{escape(json.dumps(cast(object, schema['default'])))}</code>"


def _text(text: str) -> str:
    """Escaped, with what is between backticks as code."""
    pieces = escape(text, quote=False).split("`")
    return "".join(f"<code>{piece}</code>" if position % 2 else piece for position, piece in enumerate(pieces))
