"""The how-to pages are followed: a copy of the source gets every edit that they describe, and their own tests run in it.

A numbered step names a file first; the block of code below it goes into that file. A `python` block is a new file. A `toml` block is
appended. A `diff` block changes a file: the lines of each hunk that are kept or removed are in the file, once; a hunk that is headed
`@@ class NAME @@` is appended to that class.
"""

import ast
import importlib.util
import io
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
import pytest
from alembic.migration import MigrationContext
from alembic.operations import Operations
from litestar import Litestar, Request, Router
from litestar.testing import TestClient
from msgspec import Struct, defstruct

from app.api.callers.exception_handlers import HANDLERS
from app.api.rest.dispatch import Dispatcher
from app.domain.exchange import Exchange
from app.domain.routing import ModelConfig, Target
from app.store.access.roles import Grant, Principal
from app.store.configuration.snapshots import EMPTY
from app.store.postgres.database import create_database_engine
from app.store.postgres.vault import Vault
from app.store.workers.applied_changes import Applied
from app.store.workers.reports import ServedVersions
from providers.canonical.errors import CallerCredentialRequired
from providers.hosted.host_specs import read_host_specs
from tests import test_architecture as architecture
from tests.support.spooled_exchanges import make_exchange

ROOT = Path(__file__).parents[2]
PAGES = ROOT / "docs" / "how-to"
COPIED = ("app", "providers", "migrations", "tests", "docs", "pyproject.toml")
STEP = re.compile(r"^\d+\. ", re.MULTILINE)
CODE = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
FILE = re.compile(r"`((?:app|providers|migrations|tests)/[\w./]+\.\w+)`")
# The walls that what the pages add could break.
WALLS = [
    f"tests/test_architecture.py::{wall.__name__}"
    for wall in (
        architecture.test_every_module_belongs_to_a_layer,
        architecture.test_no_layer_imports_from_a_layer_above_it,
        architecture.test_no_layer_of_providers_imports_from_a_layer_above_it,
        architecture.test_packages_import_each_other_without_a_circle,
        architecture.test_dialects_have_the_same_files,
        architecture.test_dialects_import_no_other_dialect,
        architecture.test_engines_and_the_service_import_no_host,
        architecture.test_sql_is_in_the_store_or_beside_the_process_that_alone_runs_it,
    )
]


class Step(Struct, frozen=True):
    """A step of a page: the file that it names, and the block of code that goes into it."""

    file: str
    language: str
    code: str


def steps(name: str) -> list[Step]:
    """The steps of a page that have code."""
    found: list[Step] = []
    for text in STEP.split((PAGES / name).read_text("utf-8"))[1:]:
        for language, code in CODE.findall(text):
            file = FILE.search(text[: text.index("```")])
            assert file is not None, f"{name}: this step names no file: {text}"
            found.append(Step(file[1], language, code))
    return found


def block(name: str, file: str) -> str:
    """The code that a page has for a file."""
    (code,) = [step.code for step in steps(name) if step.file == file]
    return code


def follow(step: Step, tree: Path) -> None:
    path = tree / step.file
    match step.language:
        case "python":
            assert not (ROOT / step.file).exists(), f"{step.file} exists: a how-to needs another name"
            path.parent.mkdir(parents=True, exist_ok=True)
            (path.parent / "__init__.py").touch()
            path.write_text(step.code, "utf-8")
        case "toml":
            path.write_text(path.read_text("utf-8") + step.code, "utf-8")
        case "diff":
            path.write_text(apply_diff(path.read_text("utf-8"), step.code), "utf-8")
        case _:
            raise AssertionError(f"{step.file}: what to do with a block of {step.language}?")


def apply_diff(text: str, diff: str) -> str:
    for heading, hunk in re.findall(r"(?:^@@(.*)\n)?((?:^(?!@@).*\n)+)", diff, re.MULTILINE):
        lines = hunk.splitlines(keepends=True)
        before = "".join(line[1:] or "\n" for line in lines if line[0] != "+")
        after = "".join(line[1:] or "\n" for line in lines if line[0] != "-")
        if before:
            assert text.count(before) == 1, f"not in the file, or several times:\n{before}"
            text = text.replace(before, after)
        else:
            text = append_to_class(text, heading.strip(" @").removeprefix("class "), after)
    return text


def append_to_class(text: str, name: str, code: str) -> str:
    (found,) = [node for node in ast.parse(text).body if isinstance(node, ast.ClassDef) and node.name == name]
    lines = text.splitlines(keepends=True)
    return "".join([*lines[: found.end_lineno], code, *lines[found.end_lineno :]])


def load(tree: Path, file: str) -> ModuleType:
    """A module that a page adds, which imports only what exists without that page."""
    name = "how_to_" + Path(file).stem
    spec = importlib.util.spec_from_file_location(name, tree / file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the source in which every step of every page is done."""
    tree = tmp_path_factory.mktemp("tree")
    for name in COPIED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, tree / name, ignore=shutil.ignore_patterns("cases", "constructed"))
        else:
            shutil.copy(ROOT / name, tree / name)
    for page in sorted(PAGES.glob("*.md")):
        for step in steps(page.name):
            follow(step, tree)
    return tree


def test_tests_of_the_pages_and_of_the_architecture_pass_where_the_pages_are_followed(tree: Path) -> None:
    unit_tests = [step.file for page in PAGES.glob("*.md") for step in steps(page.name) if step.file.startswith("tests/unit/")]
    assert len(unit_tests) == 4
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *unit_tests, *WALLS]
    done = subprocess.run(command, cwd=tree, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_host_of_the_page_is_read_with_the_others() -> None:
    """The page's own test builds its provider and adapts bodies with it."""
    raw = (ROOT / "providers/hosted/hosts.toml").read_bytes()
    added = block("add-a-host.md", "providers/hosted/hosts.toml").encode()
    hosts = read_host_specs(raw + added)
    assert hosts.keys() - read_host_specs(raw).keys() == {"example"}
    assert hosts["example"].rules.max_stops == 4


def test_dialect_page_lists_the_files_of_the_scheme() -> None:
    page = (PAGES / "add-a-dialect.md").read_text("utf-8")
    assert set(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE)) == architecture.DIALECT_FILES


def test_admin_route_of_the_page_answers_as_declared(tree: Path) -> None:
    targets = load(tree, "app/api/admin/configuration/targets.py")
    model = ModelConfig((Target("gpu", "Qwen/Qwen3-4B"),), ("sandbox",))
    snapshot = msgspec.structs.replace(EMPTY, models={"chat": model})
    database = create_database_engine("postgresql://nobody@127.0.0.1:9/none")
    dispatcher = Dispatcher(database, Vault(()), read_role, (), serve_at_once)
    routes = [dispatcher.route(operation) for operation in targets.operations(lambda: snapshot)]
    router = Router("/admin/v1", route_handlers=routes)
    with TestClient(Litestar([router], exception_handlers=HANDLERS, openapi_config=None, logging_config=None)) as client:
        assert client.post("/admin/v1/targets", json={"model": "chat"}).status_code == 401
        client.headers["authorization"] = "nobody"
        assert client.post("/admin/v1/targets", json={"model": "chat"}).status_code == 403
        client.headers["authorization"] = "viewer"
        found = client.post("/admin/v1/targets", json={"model": "chat"}).json()
        assert (found["data"][0]["provider"], found["fallbacks"]) == ("gpu", ["sandbox"])
        for body, param, status in (({"model": 1}, "model", 400), ({"model": "x"}, "model", 404), ({"modle": "chat"}, "modle", 400)):
            refused = client.post("/admin/v1/targets", json=body)
            assert (refused.status_code, refused.json()["error"]["param"]) == (status, param)


async def serve_at_once(_change: ServedVersions, _wait: bool) -> Applied:
    """Stands for the gateway processes, of which there are none."""
    return Applied(0)


async def read_role(request: Request[Any, Any, Any], _caller_route: str | None) -> Principal:
    """Stands for the authentication, which needs a database."""
    role = request.headers.get("authorization")
    if role is None:
        raise CallerCredentialRequired("This needs an admin key.")
    return Principal("user", "id", role, [Grant("viewer")] if role == "viewer" else [])


def test_recorded_field_of_the_page_is_read_from_records_without_it() -> None:
    newer = defstruct("Newer", [("previous_response_id", str | None, None)], bases=(Exchange,), frozen=True, array_like=True)
    older = make_exchange()
    read = msgspec.msgpack.decode(msgspec.msgpack.encode(older), type=newer)
    assert [getattr(read, name) for name in Exchange.__struct_fields__] == [getattr(older, name) for name in Exchange.__struct_fields__]
    assert getattr(read, "previous_response_id", "absent") is None
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(read), type=Exchange) == older, "the previous version reads it too"


def test_migration_of_the_page_adds_the_column_that_its_table_has(tree: Path) -> None:
    (file,) = [step.file for step in steps("add-a-recorded-field.md") if step.file.startswith("migrations/")]
    migration = load(tree, file)
    assert int(migration.revision) == int(migration.down_revision) + 1
    written = io.StringIO()
    with Operations.context(MigrationContext.configure(dialect_name="postgresql", opts={"as_sql": True, "output_buffer": written})):
        migration.upgrade()
    assert written.getvalue().strip() == "ALTER TABLE inferences ADD COLUMN previous_response_id TEXT;"
    assert 'Column("previous_response_id", Text),' in block("add-a-recorded-field.md", "app/store/postgres/tables/record_tables.py")
