"""The OpenAPI document: valid, complete, and with a page whose links lead somewhere."""

import re
import warnings
from pathlib import Path
from typing import Any

import pytest
from litestar.exceptions import LitestarDeprecationWarning
from openapi_spec_validator import OpenAPIV31SpecValidator

from app.api.admin.routes import operations
from app.api.openapi.document import build_document
from app.api.openapi.page import render_page
from app.api.openapi.property_descriptions import describe_properties
from app.api.openapi.schemas import schemas_of
from app.main import Applications, create_applications
from app.settings import Settings
from providers.transport.loop_turns import LoopTurns
from providers.transport.write_batcher import WriteBatcher

_GENERATOR_SETTINGS = Path(__file__).parents[2] / "clients" / "openapi-python-client.yaml"


@pytest.fixture(scope="module")
async def applications() -> Applications:
    """The applications of a gateway process, which connect to nothing before they are started."""
    settings = Settings(database_url="postgresql://nobody@127.0.0.1:9/none", redis_url="redis://127.0.0.1:9")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LitestarDeprecationWarning)  # about the style of parameters
        return create_applications(settings, WriteBatcher(), LoopTurns(), name="document")


@pytest.fixture(scope="module")
async def document(applications: Applications) -> dict[str, Any]:
    return {**build_document(operations(applications.gateway)), "servers": [{"url": "http://127.0.0.1:8787"}]}


def test_document_is_valid(document: dict[str, Any]) -> None:
    assert [fault.message for fault in OpenAPIV31SpecValidator(document).iter_errors()] == []


def test_document_has_what_is_served_and_nothing_else(applications: Applications, document: dict[str, Any]) -> None:
    served = {
        (re.sub(r":\w+\}", "}", route.path), method.lower())
        for route in applications.callers.routes
        for method in getattr(route, "methods", ())
        if method not in ("OPTIONS", "HEAD")
    }
    documented = {(path, method) for path, item in document["paths"].items() for method in item if path not in applications.calls}
    assert documented == served


def test_document_has_every_inference_route_with_its_body(applications: Applications, document: dict[str, Any]) -> None:
    assert [path for path in applications.calls if "requestBody" not in document["paths"].get(path, {}).get("post", {})] == []


def test_every_operation_may_be_sent_with_too_long_a_head(document: dict[str, Any]) -> None:
    operations = [operation for item in document["paths"].values() for operation in item.values()]
    assert [operation["operationId"] for operation in operations if "431" not in operation["responses"]] == []


def test_operation_ids_are_unique_and_every_operation_says_what_it_needs(document: dict[str, Any]) -> None:
    operations = [operation for item in document["paths"].values() for operation in item.values()]
    ids = [operation["operationId"] for operation in operations]
    assert len(set(ids)) == len(ids) and all(re.fullmatch(r"[a-z0-9_]+", each) for each in ids)
    assert all("security" in operation and operation["summary"] for operation in operations)


def test_bounds_descriptions_and_defaults_of_parameters_are_in_the_document(document: dict[str, Any]) -> None:
    parameters = {each["name"]: each for each in document["paths"]["/admin/v1/teams"]["get"]["parameters"]}
    assert parameters["limit"]["schema"] == {"type": "integer", "minimum": 1, "maximum": 1000, "default": 100}
    assert parameters["limit"]["description"] and not parameters["limit"]["required"]
    patch = document["paths"]["/admin/v1/teams/{name}"]["patch"]
    assert {"dry_run", "Idempotency-Key", "If-Match"} <= {each["name"] for each in patch["parameters"]}
    assert {"200", "400", "401", "403", "404", "409", "412", "413", "422", "428", "431", "500", "503"} == set(patch["responses"])
    assert document["components"]["schemas"]["TeamChanges"]["additionalProperties"] is False


def test_every_change_takes_wait_and_says_who_serves_it(document: dict[str, Any]) -> None:
    operations = [operation for item in document["paths"].values() for operation in item.values()]
    with_header = [
        each for each in operations if any("x-narthex-applied" in response.get("headers", {}) for response in each["responses"].values())
    ]
    ids = {each["operationId"] for each in with_header}
    assert ids == _ids_with_parameter(operations, "wait") == _ids_with_parameter(operations, "dry_run")
    assert {"put_provider", "revoke_key", "drain_endpoint"} < ids and not {"list_models", "operate_engine"} & ids


def _ids_with_parameter(operations: list[dict[str, Any]], name: str) -> set[str]:
    return {each["operationId"] for each in operations if name in {parameter["name"] for parameter in each.get("parameters", ())}}


def test_tuples_are_arrays_whose_items_have_a_schema() -> None:
    (pair, mixed), _ = schemas_of([tuple[int, int], tuple[int, str, int]])
    assert pair == {"type": "array", "minItems": 2, "maxItems": 2, "items": {"type": "integer"}}
    assert mixed == {"type": "array", "minItems": 3, "maxItems": 3, "items": {"anyOf": [{"type": "integer"}, {"type": "string"}]}}


def test_generators_of_clients_are_configured_for_every_body(document: dict[str, Any]) -> None:
    """A body without a setting would be noticed by tests/clients alone, which is run rarely."""
    known = {"application/json", "multipart/form-data", *re.findall(r"^  (\S+): ", _GENERATOR_SETTINGS.read_text(), re.MULTILINE)}
    operations = [operation for item in document["paths"].values() for operation in item.values()]
    assert {media_type for each in operations for media_type in each.get("requestBody", {}).get("content", {})} <= known


def test_no_component_has_the_name_that_generators_make_of_a_property(document: dict[str, Any]) -> None:
    """A property `request` of Preview, an object, becomes a class PreviewRequest."""
    components = document["components"]["schemas"]
    made = {
        name + field.title().replace("_", "")
        for name, schema in components.items()
        for field, value in schema.get("properties", {}).items()
        if value.get("type") == "object"
    }
    assert made and made & components.keys() == set()


def test_every_operation_is_in_a_group_and_on_the_page(document: dict[str, Any]) -> None:
    grouped = [tag for group in document["x-tagGroups"] for tag in group["tags"]]
    operations = [operation for item in document["paths"].values() for operation in item.values()]
    assert sorted(grouped) == sorted({operation["tags"][0] for operation in operations}), "each tag is in one group"
    page = render_page(document, "", ["reference-0.js", "style-0.css"], dashboard="/dashboard")
    ids = re.findall(r' id="([^"]+)"', page)
    assert len(set(ids)) == len(ids) and {f"op-{operation['operationId']}" for operation in operations} <= set(ids)
    assert '<script type="module" src="/docs/static/reference-0.js">' in page and 'href="/dashboard"' in page
    assert "dashboard" not in render_page({**document, "paths": {}, "x-tagGroups": []}, "", [], dashboard=None)


def test_every_property_and_every_admin_parameter_has_a_description(document: dict[str, Any]) -> None:
    def is_described(schema: dict[str, Any]) -> bool:
        return "$ref" in schema or "description" in schema or any("description" in each for each in schema.get("anyOf", ()))

    properties = [
        f"{name}.{property}"
        for name, schema in document["components"]["schemas"].items()
        for property, described in schema.get("properties", {}).items()
        if not is_described(described)
    ]
    assert properties == [], "say it in Meta, in the docstring of the type, or in property_descriptions.py"
    parameters = [
        f"{path} {parameter['name']}"
        for path, item in document["paths"].items()
        for operation in item.values()
        for parameter in operation.get("parameters", ())
        if path.startswith("/admin/v1/") and "/sign-in" not in path and "name" in parameter and not parameter.get("description")
    ]
    assert parameters == []


def test_times_have_a_format_and_no_default_is_refused(document: dict[str, Any]) -> None:
    inference = document["components"]["schemas"]["Inference"]["properties"]
    assert inference["received_at"]["format"] == "date-time"
    assert [each.get("format") for each in inference["erased_at"]["anyOf"]] == ["date-time", None]
    empty = [
        f"{path} {parameter['name']}"
        for path, item in document["paths"].items()
        for operation in item.values()
        for parameter in operation.get("parameters", ())
        if parameter.get("schema", {}).get("default") == ""
    ]
    assert empty == [], "an empty parameter is a 400"


def test_docstrings_describe_the_fields_that_they_name() -> None:
    component: dict[str, Any] = {
        "description": "Sums. `first`: of the day; null: none. `second`, `third`: of the week.\n\nA `fourth` is left out.",
        "properties": {name: {"type": "string"} for name in ("first", "second", "third", "fourth", "seen_at")},
    }
    describe_properties(component)
    found = component["properties"]
    assert [found[name].get("description") for name in ("first", "second", "third", "fourth")] == [
        "Of the day; null: none.",
        "Of the week.",
        "Of the week.",
        "A `fourth` is left out.",
    ]
    assert found["seen_at"] == {"type": "string", "format": "date-time"}
