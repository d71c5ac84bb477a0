"""Holds answers of the admin API to the OpenAPI document: a status or a shape that it does not have fails the test that saw it."""

import functools
import json
import re
from collections.abc import Mapping
from typing import Any

import httpx2
import jsonschema_rs

ADMIN_PREFIX = b"/admin/v1/"

_documents: list[dict[str, Any]] = []  # of the services of a test run, which are all of one version


async def check_answer(response: httpx2.Response) -> None:
    """An event hook of httpx2, for responses."""
    path = response.request.url.raw_path.partition(b"?")[0]
    if not path.startswith(ADMIN_PREFIX):
        return
    document = await _find_document(response.request.url)
    methods = None if document is None else _methods_of(document, path.decode())
    if document is None or methods is None or response.request.method.lower() not in methods:
        assert response.status_code in (401, 404, 405), f"{response.request.method} {path!r} is not in the OpenAPI document"
        return
    await response.aread()
    problem = _find_problem(document, methods[response.request.method.lower()], response)
    assert problem is None, f"{response.request.method} {path.decode()}: {problem}"


async def _find_document(url: httpx2.URL) -> dict[str, Any] | None:
    """Returns the OpenAPI document, or None if the address has no admin API."""
    if not _documents:
        async with httpx2.AsyncClient(verify=False, timeout=120) as client:
            fetched = await client.get(url.copy_with(path="/openapi.json", query=None))
        if fetched.status_code == 404:
            return None
        _documents.append(fetched.raise_for_status().json())
    return _documents[0]


def _methods_of(document: Mapping[str, Any], path: str) -> Mapping[str, Any] | None:
    """The operations of a path, by method; names in a path have no slash. One without a variable goes first."""
    matching = [template for template in document["paths"] if re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", template), path)]
    return document["paths"][min(matching, key=lambda template: template.count("{"))] if matching else None


def _find_problem(document: Mapping[str, Any], operation: Mapping[str, Any], response: httpx2.Response) -> str | None:
    described = operation["responses"].get(str(response.status_code))
    if described is None:
        return f"status {response.status_code} is not documented: {response.text[:500]}"
    if "$ref" in described:
        described = document["components"]["responses"][described["$ref"].rpartition("/")[2]]
    media_type = response.headers.get("content-type", "").partition(";")[0]
    content = described.get("content", {}).get(media_type)
    if content is None:
        return f"{media_type} is not documented for status {response.status_code}"
    if media_type != "application/json":
        return None
    error = next(_validator(json.dumps(content["schema"])).iter_errors(response.json()), None)
    return (
        None if error is None else f"status {response.status_code} has not the documented shape: {error.message} in {response.text[:500]}"
    )


@functools.cache
def _validator(schema: str) -> jsonschema_rs.Draft202012Validator:
    return jsonschema_rs.Draft202012Validator({**json.loads(schema), "components": _documents[0]["components"]})
