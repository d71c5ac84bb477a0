"""PUT takes what GET gave, of every resource that the OpenAPI document has: a 200 that changes nothing."""

import json
import re
from collections.abc import AsyncGenerator, Mapping
from typing import Any
from urllib.parse import quote

import httpx2
import pytest

from tests.support.processes.service import Service

# What has changed by itself when it is read again.
_COUNTS = {"usage", "keys"}
_FIRST = ("providers", "models")  # the others' examples name these


class Resource:
    """A path of the document with GET and PUT, and one of what it stands for, as the document's examples describe it."""

    def __init__(self, template: str, paths: Mapping[str, Any]) -> None:
        operations = paths[template]
        body: Mapping[str, Any] = operations["put"]["requestBody"]["content"]["application/json"]
        self.template = template
        # No probe of an address of the examples may leave this machine.
        self.example: dict[str, Any] = json.loads(re.sub(r"http://[0-9.]+:[0-9]+", "http://127.0.0.1:9", json.dumps(body["example"])))
        collection = paths[template.partition("/{")[0]]
        identified: Mapping[str, Any] = {}
        if "post" in collection:
            identified = collection["post"]["requestBody"]["content"]["application/json"]["example"]
        self.key = {name: str(identified.get(name, "put-what-get-gave")) for name in re.findall(r"{(\w+)}", template)}
        self.path = re.sub(r"{(\w+)}", lambda match: quote(self.key[match[1]], safe=""), template)
        self.is_conditional = any(each["name"].lower() == "if-match" for each in operations["put"].get("parameters", ()))

    def match(self, shown: httpx2.Response | None) -> dict[str, str]:
        return {"if-match": shown.headers["etag"]} if self.is_conditional and shown is not None else {}


@pytest.fixture
async def admin(service: Service) -> AsyncGenerator[httpx2.AsyncClient]:
    async with service.admin_client() as admin:
        yield admin


@pytest.fixture
async def resources(admin: httpx2.AsyncClient) -> AsyncGenerator[list[Resource]]:
    """The resources that can be read and put. Each of them exists; those that did not are deleted again."""
    document = (await admin.get("/openapi.json")).json()
    paths: Mapping[str, Any] = {path: each for path, each in document["paths"].items() if path.startswith("/admin/")}
    found = [Resource(path, paths) for path, operations in paths.items() if {"get", "put"} <= operations.keys()]
    found.sort(key=lambda each: [f"/{name}/" in each.template for name in _FIRST], reverse=True)
    created: list[Resource] = []
    for resource in found:
        if (await admin.get(resource.path)).status_code == 200:
            continue
        made = await admin.put(resource.path, json=resource.example)
        assert made.status_code in (200, 201), (resource.template, made.text)
        created.append(resource)
    yield found
    for resource in reversed(created):
        deleted = await admin.delete(resource.path, headers={"if-match": "*"} if resource.is_conditional else {})
        assert deleted.status_code == 200, (resource.template, deleted.text)


async def version_of(admin: httpx2.AsyncClient) -> Any:
    """Returns the configuration's version and the newest event of the audit log: any change would change them."""
    versions = (await admin.get("/admin/v1/configuration/versions", params={"limit": 1})).json()["data"]
    events = (await admin.get("/admin/v1/audit", params={"limit": 1})).json()["data"]
    return versions[0]["version"], events[0]["id"]


async def test_put_of_what_get_gave_changes_nothing(admin: httpx2.AsyncClient, resources: list[Resource]):
    assert {each.template.split("/")[3] for each in resources} >= {"providers", "models", "teams", "prices", "credentials", "budgets"}
    before = await version_of(admin)
    for resource in resources:
        shown = await admin.get(resource.path)
        put = await admin.put(resource.path, json=shown.json(), headers=resource.match(shown))
        assert put.status_code == 200, (resource.template, put.text)
        again = await admin.get(resource.path)
        kept = [{name: value for name, value in each.json().items() if name not in _COUNTS} for each in (shown, again)]
        assert kept[0] == kept[1] and shown.headers.get("etag") == again.headers.get("etag"), resource.template
        assert await version_of(admin) == before, resource.template


async def test_a_read_only_field_with_another_value_is_a_400_that_names_it(admin: httpx2.AsyncClient, resources: list[Resource]):
    document = (await admin.get("/openapi.json")).json()
    tried = 0
    for resource in resources:
        shown = await admin.get(resource.path)
        schema = document["paths"][resource.template]["put"]["requestBody"]["content"]["application/json"]["schema"]
        fields = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]["properties"]
        read_only = [name for name, each in fields.items() if each.get("readOnly") and name not in _COUNTS]
        assert read_only, resource.template
        for name in read_only:
            value = shown.json()[name]
            other = {**shown.json(), name: not value if isinstance(value, bool) else ["x"] if isinstance(value, list) else "another"}
            refused = await admin.put(resource.path, json=other, headers=resource.match(shown))
            error = refused.json()["error"]
            assert (refused.status_code, error["param"], "read-only" in error["message"]) == (400, name, True), (resource.template, error)
            tried += 1
        wrong = await admin.put(resource.path, json={**shown.json(), "nonsense": 1}, headers=resource.match(shown))
        assert wrong.status_code == 400 and "nonsense" in wrong.json()["error"]["message"], resource.template
    assert tried > 20


async def test_what_does_not_exist_yet_has_no_read_only_fields_but_its_name(admin: httpx2.AsyncClient):
    path = "/admin/v1/metrics/put-what-get-gave-new"
    settings = {"kind": "boolean", "level": "inference"}
    early = await admin.put(path, json={**settings, "created_at": "2026-01-01T00:00:00+00:00"})
    assert (early.status_code, early.json()["error"]["param"]) == (400, "created_at")
    other = await admin.put(path, json={**settings, "name": "another"})
    assert (other.status_code, other.json()["error"]["param"]) == (400, "name")
    created = await admin.put(path, json={**settings, "name": "put-what-get-gave-new"})
    assert created.status_code == 201
    await admin.delete(path, headers={"if-match": "*"})


async def test_a_target_is_put_back_with_its_number(admin: httpx2.AsyncClient, resources: list[Resource]):
    model = next(each for each in resources if each.template == "/admin/v1/models/{name}")
    shown = await admin.get(f"{model.path}/targets")
    target = shown.json()["data"][0]
    etag = (await admin.get(model.path)).headers["etag"]
    put = await admin.put(f"{model.path}/targets/0", json=target, headers={"if-match": etag})
    assert put.status_code == 200 and put.json()["data"] == shown.json()["data"], put.text
    wrong = await admin.put(f"{model.path}/targets/0", json={**target, "number": 5}, headers={"if-match": etag})
    assert (wrong.status_code, wrong.json()["error"]["param"]) == (400, "number")
