"""The API reference at /docs: its examples run as printed, and it documents all fields, errors, columns and outcomes."""

import html
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, get_args

import httpx2
import pytest

import app.api
from app.domain.exchange import Outcome
from app.store.postgres.tables import record_columns
from providers.canonical import errors
from providers.dialects.openai_chat.request_schema import Request
from tests.support.processes.service import PROCESS_TIMEOUT_S, Service

TEXT = Path(app.api.__file__).with_name("reference.md").read_text("utf-8")
BLOCKS = re.findall(r"```(sh|python)\n(.*?)```", TEXT, re.DOTALL)
EXAMPLES = [(language, block) for language, block in BLOCKS if "127.0.0.1:8787" in block]


@pytest.mark.parametrize(("language", "block"), EXAMPLES, ids=[f"{language}-{index}" for index, (language, _) in enumerate(EXAMPLES)])
def test_reference_example_works_when_pasted(service: Service, language: str, block: str):
    program = [sys.executable, "-c"] if language == "python" else ["bash", "-euc"]
    pasted = block.replace("http://127.0.0.1:8787", service.url).replace("curl ", "curl -sSf ")
    keys = {"NARTHEX_KEY": service.key, "NARTHEX_ADMIN_KEY": service.admin_key}
    environment = {**os.environ, **keys}
    done = subprocess.run([*program, pasted], env=environment, capture_output=True, text=True, timeout=PROCESS_TIMEOUT_S, check=False)
    assert done.returncode == 0 and done.stdout.strip(), done.stderr


def test_reference_has_examples():
    assert len([language for language, _ in EXAMPLES if language == "python"]) >= 4 and len(EXAMPLES) >= 8


async def test_reference_page_is_served_with_its_tables(client: httpx2.AsyncClient):
    page = await client.get("/docs")
    assert page.headers["content-type"].startswith("text/html")
    assert "<h2>Errors</h2>" in page.text and 'id="chat"' in page.text and page.text.count("<table>") > 8 and "x-narthex-drop" in page.text
    assert "127.0.0.1:8787" not in page.text and '<a href="..' not in page.text
    assert re.findall(r"<script(?![^>]* src=)|<style|\sstyle=|\son\w+=", page.text) == [], "nothing is inline"
    assert "$NARTHEX_KEY" in html.unescape(page.text) and "|---|" not in page.text


def test_every_request_field_is_documented():
    wire_names = [name for name in Request.__struct_encode_fields__]
    assert len(wire_names) > 30 and [name for name in wire_names if f"`{name}`" not in TEXT] == []


def test_every_error_type_is_documented_with_its_status():
    table = TEXT[TEXT.index("## Errors") : TEXT.index("## Records")]
    classes = [each for each in vars(errors).values() if isinstance(each, type) and issubclass(each, errors.NarthexError)]
    # UpstreamRejected has the engine's own status; RequestError is raised only as one of its subclasses.
    error_types = [
        (each.status, each.kind) for each in classes if each is not errors.RequestError and not issubclass(each, errors.UpstreamRejected)
    ]
    assert len(error_types) > 14 and [(status, kind) for status, kind in error_types if f"| {status} | `{kind}` |" not in table] == []


def test_every_record_column_and_outcome_is_documented():
    records = TEXT[TEXT.index("## Records") :]
    assert [column.name for column in record_columns if f'"{column.name}"' not in records] == []
    assert [outcome for outcome in get_args(Outcome) if f"`{outcome}`" not in records] == []


def documented_admin_operations() -> set[tuple[str, str]]:
    """Methods and paths as code names them, and those of entries of the configuration, whose methods have a table of their own."""
    named = set(re.findall(r"`(GET|POST|PUT|PATCH|DELETE) (/admin/v1/[^\s`?]+)", TEXT))
    entries = TEXT[TEXT.index("### Entries one by one") : TEXT.index("## Credentials")]
    resources = re.findall(r"^\| `(/admin/v1/[^`]+)`, `(/admin/v1/[^`]+)` \|", entries, re.MULTILINE)
    methods = re.findall(r"^\| `(\w+)` (of the list|to the list|of one) \|", entries, re.MULTILINE)
    return named | {(method, one if of == "of one" else many) for many, one in resources for method, of in methods}


async def test_every_admin_operation_is_documented_and_no_other(client: httpx2.AsyncClient):
    paths: dict[str, dict[str, Any]] = (await client.get("/openapi.json")).json()["paths"]
    operations = {(method.upper(), path) for path, item in paths.items() if path.startswith("/admin/v1/") for method in item}
    documented = documented_admin_operations()
    assert len(operations) > 80
    assert sorted(operations - documented) == [], "app/api/reference.md does not name these, such as `GET /admin/v1/teams`"
    assert sorted(documented - operations) == [], "app/api/reference.md names these, and they do not exist"


async def test_every_operation_is_in_the_table_of_routes(client: httpx2.AsyncClient):
    table = TEXT[: TEXT.index("An operator may give the admin API an address")]
    paths: dict[str, Any] = (await client.get("/openapi.json")).json()["paths"]
    # The sections have what is below a resource of the admin API, and all routes of LMDeploy's proxy.
    # Google's routes have one line for all versions of its API.
    shown = {re.sub(r"^(/admin/v1/[^/]+|/nodes/)(.*)", r"\1", path) for path in paths if not path.startswith("/distserve/")}
    shown = {path.replace("/{version}/", "/v1beta/") for path in shown}
    assert sorted(path for path in shown if f"`{path}" not in table and f"`{path.replace('{name}', '{id}')}" not in table) == []


async def test_openapi_document_has_the_address_of_the_request_and_an_etag(service: Service, client: httpx2.AsyncClient):
    response = await client.get("/openapi.json")
    document = response.json()
    assert document["servers"] == [{"url": service.url}] and "/admin/v1/teams" in document["paths"]
    again = await client.get("/openapi.json", headers={"if-none-match": response.headers["etag"]})
    assert again.status_code == 304 and not again.content
    named = (await client.get("/openapi.json", headers={"host": "models.example:8443"})).json()
    assert named["servers"] == [{"url": "http://models.example:8443"}]
    odd = (await client.get("/openapi.json", headers={"host": 'x"><script>'})).text
    assert "script" not in odd


async def test_pages_are_sent_compressed_and_not_again_to_whoever_has_them(client: httpx2.AsyncClient):
    for path, times in (("/docs", 4), ("/openapi.json", 5)):
        packed = await client.get(path, headers={"accept-encoding": "br, gzip;q=0.5"})
        plain = await client.get(path, headers={"accept-encoding": "gzip;q=0, identity"})
        assert packed.headers["content-encoding"] == "gzip" and "content-encoding" not in plain.headers
        assert int(packed.headers["content-length"]) * times < int(plain.headers["content-length"])
        assert packed.content == plain.content and "accept-encoding" in plain.headers["vary"]
        assert packed.headers["etag"] != plain.headers["etag"]
        again = await client.get(path, headers={"if-none-match": packed.headers["etag"], "accept-encoding": "gzip"})
        assert (again.status_code, again.content) == (304, b"")


async def test_everything_that_the_reference_loads_is_small_and_of_this_server(client: httpx2.AsyncClient):
    page = await client.get("/docs", headers={"accept-encoding": "gzip"})
    for directive in ("default-src 'none'", "script-src 'self'", "require-trusted-types-for 'script'", "trusted-types 'none'"):
        assert directive in page.headers["content-security-policy"].split("; ")
    files = sorted(set(re.findall(r'(?:src|href)="(/docs/static/[^"]+)"', page.text)))
    assert [name for name in files if "reference-" in name] and len(files) >= 4
    total = int(page.headers["content-length"])
    for path in [*files, "/openapi.json"]:
        found = await client.get(path, headers={"accept-encoding": "gzip"})
        assert found.status_code == 200 and found.headers["etag"], path
        if path in files:
            assert found.headers["cache-control"] == "public, max-age=31536000, immutable"
        total += int(found.headers["content-length"])
    assert total < 300_000
    for path in ("/docs/static/app-0.js", "/docs/static/index.html", "/docs/static/..%2Froutes.py"):
        assert (await client.get(path)).status_code == 404, path


async def test_start_leads_browsers_to_the_dashboard_and_programs_to_the_rest(client: httpx2.AsyncClient):
    browser = await client.get("/", headers={"accept": "text/html,application/xhtml+xml,*/*;q=0.8"}, follow_redirects=False)
    assert (browser.status_code, browser.headers["location"], browser.headers["vary"]) == (303, "/dashboard", "accept")
    program = (await client.get("/")).json()
    assert program["service"] == "narthex" and program["paths"]["api"] == "/v1"
    for path in ("dashboard", "documentation", "openapi", "health"):
        assert (await client.get(program["paths"][path])).status_code == 200
    assert (await client.head("/")).status_code == 200


@pytest.mark.parametrize("path", ["/docs", "/metrics", "/admin/v1/sign-in"])
async def test_text_names_its_charset_once(client: httpx2.AsyncClient, path: str):
    response = await client.get(path, headers={"accept": "text/html"})
    content_type = response.headers["content-type"]
    assert content_type.startswith("text/") and content_type.count("charset") == 1


async def test_every_link_within_the_reference_leads_somewhere(client: httpx2.AsyncClient):
    page = (await client.get("/docs")).text
    ids = re.findall(r' id="([^"]+)"', page)
    assert len(set(ids)) == len(ids)
    targets = re.findall(r'href="([^"]+)"', page)
    assert [target for target in targets if target.startswith("#") and target[1:] not in ids] == []
    paths = {target for target in targets if target.startswith("/")}
    assert paths and {(await client.get(path)).status_code for path in paths} == {200}
