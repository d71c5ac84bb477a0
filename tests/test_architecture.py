"""The house: who may import whom, and what no file may do. Read as a description of the architecture, it is one."""

import ast
import re
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from app.supervisor.settings_manual import settings_table

ROOT = Path(__file__).parent.parent
TOP_PACKAGES = ("app", "providers", "migrations")

# Each room may import those below it, and itself.
LAYERS = (
    {"app.main", "app.cli", "app.supervisor"},
    {"app.api"},
    {"app.gateway"},
    {"app.billing"},
    {"app.recording", "app.store", "migrations"},
    {"app.domain", "app.settings", "app.telemetry", "app.logs", "app.uuid7"},
    {"providers"},
)

SQL_LIBRARIES = {"sqlalchemy", "asyncpg", "alembic"}
# Ways to open a connection by oneself. providers/transport/transport.py and the modules that only it imports may use them.
SOCKET_LIBRARIES = {"socket", "httpcore", "requests", "aiohttp", "urllib.request", "http.client"}
INDENTED_IMPORT = re.compile(r"^[ \t]+(?:import|from)\s|[;:][ \t]*(?:import|from)\s", re.MULTILINE)
CONNECTION_CALL = re.compile(
    r"\b(open_connection|create_connection|open_unix_connection|create_unix_connection|start_tls|AsyncClient|AsyncHTTPTransport)$"
)


@cache
def python_files(*rooms: str) -> tuple[Path, ...]:
    """The Python files of these rooms, as paths from the house's root."""
    return tuple(sorted(path.relative_to(ROOT) for room in rooms for path in _python_files(ROOT / room)))


def _python_files(folder: Path) -> Iterator[Path]:
    for path in folder.iterdir():
        if path.is_dir() and not path.name.startswith("."):
            yield from _python_files(path)
        elif path.suffix == ".py" and path.stat().st_size:
            yield path


@cache
def syntax_tree(path: Path) -> ast.Module:
    return ast.parse((ROOT / path).read_text(), str(path))


def module_name(path: Path) -> str:
    parts = path.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def module_names() -> frozenset[str]:
    """Empty package files included: they are modules too."""
    return frozenset(module_name(path.relative_to(ROOT)) for room in TOP_PACKAGES for path in (ROOT / room).rglob("*.py"))


@cache
def imports(path: Path) -> frozenset[str]:
    """What a file imports, by full names: `from a import b` is a.b where that is a module of ours, else a."""
    found: set[str] = set()
    for node in ast.walk(syntax_tree(path)):
        if isinstance(node, ast.Import):
            found |= {each.name for each in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path} imports relatively; names are written in full here"
            for each in node.names:
                full = f"{node.module}.{each.name}"
                found.add(full if full in module_names() else str(node.module))
    return frozenset(found)


def imports_from(*rooms: str) -> set[str]:
    """The first and the full names of all that these rooms import."""
    named = {name for path in python_files(*rooms) for name in imports(path)}
    return named | {name.partition(".")[0] for name in named}


def is_under(name: str, packages: set[str]) -> bool:
    return any(name == package or name.startswith(package + ".") for package in packages)


def layer_of(name: str) -> int | None:
    """How deep a module lies: 0 is the top. None: not of this house, or a package of nothing but rooms."""
    return next((depth for depth, rooms in enumerate(LAYERS) if is_under(name, rooms)), None)


def test_every_module_belongs_to_a_layer() -> None:
    assert [str(path) for path in python_files(*TOP_PACKAGES) if layer_of(module_name(path)) is None and module_name(path) != "app"] == []


def test_no_layer_imports_from_a_layer_above_it() -> None:
    upward = [
        f"{module_name(path)} imports {name}"
        for path in python_files(*TOP_PACKAGES)
        for name in imports(path)
        if (layer := layer_of(module_name(path))) is not None and (imported_layer := layer_of(name)) is not None and imported_layer < layer
    ]
    assert upward == []


def test_providers_import_nothing_of_the_service() -> None:
    assert imports_from("providers").isdisjoint({"app", "litestar", "sqlalchemy", "asyncpg", "redis", "uvicorn", "prometheus_client"})


def test_gateway_does_not_import_the_http_api() -> None:
    assert not [name for name in imports_from("app/gateway") if is_under(name, {"app.api", "litestar"})]


def test_dialects_import_no_engine_no_host_and_no_other_dialect() -> None:
    for path in python_files("providers/dialects"):
        if path.name == "catalogue.py":
            continue
        own = ".".join(module_name(path).split(".")[:3])
        for name in imports(path):
            assert not is_under(name, {"providers.engines", "providers.hosted"}), f"{path} imports {name}"
            assert not is_under(name, {"providers.dialects"}) or is_under(name, {own}), f"{path} imports {name}"


def test_only_sagemaker_of_the_hosts_imports_engines() -> None:
    importers = {
        str(path) for path in python_files("providers/hosted") if any(is_under(name, {"providers.engines"}) for name in imports(path))
    }
    assert importers == {"providers/hosted/sagemaker/adapter.py"}


def test_engines_and_the_service_import_no_host() -> None:
    assert not [name for name in imports_from("providers/engines") if is_under(name, {"providers.hosted"})]
    assert not [name for name in imports_from("app/gateway", "app/api", "app/store", "app/record") if is_under(name, {"providers.hosted"})]


def test_cloud_sdks_are_imported_only_by_the_credential_modules() -> None:
    """And none of them for what opens a connection but where a chain asks its own services, off the event loop."""
    importers = {str(path) for path in python_files(*TOP_PACKAGES) if any(is_under(name, {"botocore", "google"}) for name in imports(path))}
    credential_chains = {"providers/credentials/aws_chain.py", "providers/credentials/google_chain.py"}
    assert importers == credential_chains | {"providers/credentials/google_grants.py"}
    grants = {name for name in imports(Path("providers/credentials/google_grants.py")) if is_under(name, {"google"})}
    assert grants == {"google.auth"}


def test_only_the_vault_imports_cryptography() -> None:
    assert {str(path) for path in python_files(*TOP_PACKAGES) if any(is_under(name, {"cryptography"}) for name in imports(path))} == {
        "app/store/vault.py"
    }


def test_constraint_checker_process_imports_no_settings_credentials_or_store() -> None:
    """Neither settings, credentials, the store nor anything that speaks to somebody: of us only how constraints are read."""
    known = {"app.gateway.checking", "providers.structured_output", "providers.canonical.errors"}
    for path in python_files("app/gateway/checking"):
        if module_name(path) == "app.gateway.structured_output.checker_client":  # the worker's side of it
            continue
        imported = {name for name in imports(path) if is_under(name, set(TOP_PACKAGES))}
        assert all(is_under(name, known) for name in imported), f"{path} imports {sorted(imported)}"


@cache
def transport_files() -> frozenset[str]:
    """providers/transport*.py, and the modules of providers that nothing but these imports."""
    named = {module_name(path) for path in python_files("providers") if path.stem.startswith("transport")}
    while more := {
        name
        for name in module_names()
        if name.startswith("providers.")
        and name not in named
        and (users := {module_name(path) for path in python_files(*TOP_PACKAGES) if name in imports(path)})
        and users <= named
    }:
        named |= more
    return frozenset(named)


def test_only_the_transport_opens_upstream_connections() -> None:
    for path in python_files("providers", "app/gateway", "app/api"):
        if module_name(path) in transport_files():
            continue
        assert imports(path).isdisjoint(SOCKET_LIBRARIES), f"{path} imports {sorted(imports(path) & SOCKET_LIBRARIES)}"
        opened = [
            ast.unparse(node.func)
            for node in ast.walk(syntax_tree(path))
            if isinstance(node, ast.Call) and CONNECTION_CALL.search(ast.unparse(node.func))
        ]
        assert opened == [], f"{path} calls {opened}"


def imports_sql(path: Path) -> bool:
    """Whether a file imports what SQL is asked with. AsyncEngine alone is a handle, which may be passed along."""
    return any(
        name.partition(".")[0] in SQL_LIBRARIES
        for node in ast.walk(syntax_tree(path))
        for name in (
            [each.name for each in node.names]
            if isinstance(node, ast.Import)
            else [str(node.module)]
            if isinstance(node, ast.ImportFrom) and {each.name for each in node.names} != {"AsyncEngine"}
            else []
        )
    )


def test_only_the_store_and_recording_import_sql() -> None:
    importers = {
        str(path)
        for path in python_files(*TOP_PACKAGES)
        if imports_sql(path) and not is_under(module_name(path), {"app.store", "app.recording", "migrations"})
    }
    # It only catches Alembic's error, to say in a sentence that a database is of another version.
    assert importers <= {"app/supervisor/database_query.py"}


def test_only_the_store_and_the_doctor_import_redis() -> None:
    """And the doctor, who has to see what is wrong with it."""
    importers = {
        module_name(path)
        for path in python_files(*TOP_PACKAGES)
        if {name.partition(".")[0] for name in imports(path)} & {"redis", "hiredis"}
    }
    assert importers and all(is_under(name, {"app.store", "app.doctor"}) for name in importers), importers


def test_nothing_is_imported_inside_a_function() -> None:
    inside = [
        f"{path}:{node.lineno}"
        for path in python_files(*TOP_PACKAGES, "tests", "bench")
        if INDENTED_IMPORT.search((ROOT / path).read_text())  # to parse a file takes a hundred times as long
        for function in ast.walk(syntax_tree(path))
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        for node in ast.walk(function)
        if isinstance(node, ast.Import | ast.ImportFrom)
    ]
    assert inside == []


def test_imports_have_no_cycle() -> None:
    graph = {module_name(path): {name for name in imports(path) if name in module_names()} for path in python_files(*TOP_PACKAGES)}
    # What a package's file takes from its own parts is no circle, unless a part takes from the package.
    ordered: set[str] = set()
    while ready := {name for name, needs in graph.items() if name not in ordered and needs <= ordered | {name}}:
        ordered |= ready
    assert graph.keys() - ordered == set()


def test_every_module_has_a_docstring() -> None:
    without_docstring = [str(path) for path in python_files(*TOP_PACKAGES, "tests", "bench") if not ast.get_docstring(syntax_tree(path))]
    assert without_docstring == []


def tracked_files() -> list[Path]:
    """Every text file that belongs to the project. Those not yet added count: they are about to be."""
    command = ["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, capture_output=True, check=False)
    if listed.returncode != 0:
        pytest.skip("not a git checkout")
    return [path for name in listed.stdout.decode().split("\0") if name and (path := ROOT / name).is_file()]


def test_no_file_names_a_package_registry() -> None:
    """Which index packages come from is the installing machine's business."""
    hosts = re.compile(rb"(?:%s)" % b"|".join(re.escape(host) for host in REGISTRIES), re.IGNORECASE)
    assert [str(path.relative_to(ROOT)) for path in tracked_files() if hosts.search(path.read_bytes())] == []


# Written so that this file does not name them itself.
REGISTRIES = [".".join(parts).encode() for parts in (("pypi", "org"), ("pythonhosted", "org"), ("npmjs", "org"), ("npmjs", "com"))]


SECRETS = (
    rb"nx-[0-9a-f]{12}-[A-Za-z0-9_-]{43}",  # ours
    rb"sk-(?:proj-|ant-)?[A-Za-z0-9_-]{40,}",
    rb"AKIA[0-9A-Z]{16}",
    rb"gh[pousr]_[A-Za-z0-9]{36}",
    rb"AIza[0-9A-Za-z_-]{35}",
    rb"-----BEGIN (?:[A-Z]+ )?PRIVATE KEY-----\s+[A-Za-z0-9+/]{40}",
)


TEST_KEYS = {"tests/support/tls/engine.key"}


def test_no_file_holds_a_secret() -> None:
    """Also what pre-commit asks before anything is committed."""
    secret = re.compile(rb"(?<![A-Za-z0-9_-])(?:" + b"|".join(SECRETS) + rb")")
    assert {str(path.relative_to(ROOT)) for path in tracked_files() if secret.search(path.read_bytes())} <= TEST_KEYS


def locked_versions(name: str) -> dict[str, str]:
    return dict(re.findall(r"^([a-z0-9][a-z0-9._-]*)==(\S+)", (ROOT / name).read_text(), re.MULTILINE))


def test_runtime_lock_is_part_of_the_development_lock() -> None:
    """So that what is tested is what runs."""
    running, testing = locked_versions("requirements.lock"), locked_versions("requirements-dev.lock")
    assert running.items() <= testing.items()


def test_every_locked_requirement_has_hashes_and_no_index() -> None:
    for name in ("requirements.lock", "requirements-dev.lock"):
        text = (ROOT / name).read_text()
        requirements = re.split(r"\n(?=[a-z0-9])", text[text.index("\n", text.rindex("#    make")) :].strip())
        assert len(requirements) == len(locked_versions(name))
        assert [each.split()[0] for each in requirements if "--hash=sha256:" not in each] == []
        assert "--index" not in text and "://" not in text


def test_locks_hold_every_declared_dependency() -> None:
    project = (ROOT / "pyproject.toml").read_text()
    for lock, parts in (("requirements.lock", ("dependencies", "local", "build")), ("requirements-dev.lock", ("dev",))):
        for part in parts:
            listed = re.search(rf"^{part} = \[(.*?)\]\s*$", project, re.MULTILINE | re.DOTALL)
            assert listed is not None
            wanted = {re.split(r"[\[<>=!~;]", each)[0].lower() for each in re.findall(r'"([^"]+)"', listed[1])}
            assert wanted <= locked_versions(lock).keys(), (
                f"{lock} lacks {sorted(wanted - locked_versions(lock).keys())}; `make lock` writes it anew"
            )


def test_settings_page_holds_the_generated_table() -> None:
    assert settings_table() in (ROOT / "docs" / "settings.md").read_text()


def test_make_help_lists_the_tasks_with_a_description() -> None:
    output = subprocess.run(["make", "-s", "-C", str(ROOT), "help"], capture_output=True, text=True, check=True).stdout
    listed = {line.split()[0] for line in output.splitlines()}
    assert listed >= {"help", "up", "test", "check", "bench", "migrate", "serve", "clean"}
    assert all(len(line.split()) > 2 for line in output.splitlines())
