"""The schemas from which the dashboard makes its forms, from the OpenAPI document: of the bodies that create something."""

import json
from collections.abc import Iterable

from app.api.openapi.schemas import Schema
from app.api.openapi.typescript import OPENING, PREFIX, find_used

_TYPE = "import type { Schema } from '../forms/schema';"


def write_form_schemas(document: Schema, operations: Iterable[str]) -> str:
    """Writes the schema of the body of each operation, such as POST /providers, and what these refer to."""
    bodies: dict[str, str] = {}
    for operation in operations:
        method, path = operation.split(" ")
        body = document["paths"][PREFIX + path][method.lower()]["requestBody"]["content"]["application/json"]["schema"]
        bodies[operation] = body["$ref"].rpartition("/")[2]
    used = find_used(document["components"]["schemas"], bodies.values())
    schemas = {name: document["components"]["schemas"][name] for name in sorted(used)}
    return "\n".join(
        [
            OPENING,
            "",
            _TYPE,
            "",
            f"export const SCHEMAS: Record<string, Schema> = {json.dumps(schemas, ensure_ascii=False)};",
            "",
            f"export const BODIES: Record<string, string> = {json.dumps(bodies)};",
            "",
        ]
    )
