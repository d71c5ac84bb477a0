"""TypeScript types from an OpenAPI document."""

from app.api.openapi.typescript import write_types

DOCUMENT = {
    "paths": {
        "/v1/models": {
            "get": {"responses": {"200": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Other"}}}}}}
        },
        "/admin/v1/things": {
            "get": {
                "parameters": [
                    {"name": "kind", "in": "query", "schema": {"enum": ["a", "b"]}},
                    {"name": "if-match", "in": "header", "schema": {"type": "string"}},
                ],
                "responses": {
                    "200": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Thing"}}}},
                    "404": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}},
                },
            },
            "post": {
                "requestBody": {"content": {"application/toml": {"schema": {"type": "string"}}}},
                "responses": {"200": {"content": {"text/csv": {"schema": {"type": "string"}}}}},
            },
        },
    },
    "components": {
        "schemas": {
            "Thing": {
                "type": "object",
                "required": ["name", "parts"],
                "properties": {
                    "name": {"anyOf": [{"type": "string"}, {"type": "null"}]},
                    "parts": {"type": "array", "items": {"anyOf": [{"$ref": "#/components/schemas/Part"}, {"const": "none"}]}},
                    "x-y": {"type": "object", "additionalProperties": {"type": "integer"}},
                },
            },
            "Part": {"type": "object", "properties": {"of": {"$ref": "#/components/schemas/Part"}, "any": {}}},
            "Error": {"type": "object"},
            "Other": {"type": "object"},
        }
    },
}


def test_types_are_of_the_admin_api_and_what_it_refers_to() -> None:
    written = write_types(DOCUMENT)
    assert 'export type Thing = { name: string | null; parts: (Part | "none")[]; "x-y"?: { [name: string]: number } };' in written
    assert "export type Part = { of?: Part; any?: unknown };" in written
    assert "Other" not in written
    assert '  "GET /things": { query: { kind?: "a" | "b" }; body: never; answer: Thing };' in written
    assert '  "POST /things": { query: {  }; body: string; answer: string };' in written
