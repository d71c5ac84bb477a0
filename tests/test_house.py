"""The house: who may import whom, and what no file may do. Read as a description of the architecture, it is one."""

import ast
import re
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from app.supervisor.settings_manual import settings_table

HOUSE = Path(__file__).parent.parent
ROOMS = ("app", "providers", "migrations")

# Each room may import those below it, and itself.
ORDER = (
    {"app.main", "app.cli", "app.supervisor"},
    {"app.api"},
    {"app.gateway"},
    {"app.billing"},
    {"app.recording", "app.store", "migrations"},
    {"app.domain", "app.settings", "app.telemetry", "app.logs", "app.uuid7"},
    {"providers"},
)

SQL = {"sqlalchemy", "asyncpg", "alembic"}
# Ways to open a connection by oneself. providers/transport/transport.py and the modules that only it imports may use them.
SOCKETS = {"socket", "httpcore", "requests", "aiohttp", "urllib.request", "http.client"}
INDENTED = re.compile(r"^[ \t]+(?:import|from)\s|[;:][ \t]*(?:import|from)\s", re.MULTILINE)
OPENING = re.compile(
    r"\b(open_connection|create_connection|open_unix_connection|create_unix_connection|start_tls|AsyncClient|AsyncHTTPTransport)$"
)


@cache
def files(*rooms: str) -> tuple[Path, ...]:
    """The Python files of these rooms, as paths from the house's root."""
    return tuple(sorted(path.relative_to(HOUSE) for room in rooms for path in _python(HOUSE / room)))


def _python(place: Path) -> Iterator[Path]:
    for path in place.iterdir():
        if path.is_dir() and not path.name.startswith("."):
            yield from _python(path)
        elif path.suffix == ".py" and path.stat().st_size:
            yield path


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse((HOUSE / path).read_text(), str(path))


def module(path: Path) -> str:
    parts = path.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def modules() -> frozenset[str]:
    """Empty package files included: they are modules too."""
    return frozenset(module(path.relative_to(HOUSE)) for room in ROOMS for path in (HOUSE / room).rglob("*.py"))


@cache
def imports(path: Path) -> frozenset[str]:
    """What a file imports, by full names: `from a import b` is a.b where that is a module of ours, else a."""
    found: set[str] = set()
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            found |= {each.name for each in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path} imports relatively; names are written in full here"
            for each in node.names:
                full = f"{node.module}.{each.name}"
                found.add(full if full in modules() else str(node.module))
    return frozenset(found)


def imports_from(*rooms: str) -> set[str]:
    """The first and the full names of all that these rooms import."""
    named = {name for path in files(*rooms) for name in imports(path)}
    return named | {name.partition(".")[0] for name in named}


def is_in(name: str, places: set[str]) -> bool:
    return any(name == place or name.startswith(place + ".") for place in places)


def floor(name: str) -> int | None:
    """How deep a module lies: 0 is the top. None: not of this house, or a package of nothing but rooms."""
    return next((depth for depth, rooms in enumerate(ORDER) if is_in(name, rooms)), None)


def test_every_file_has_its_floor() -> None:
    assert [str(path) for path in files(*ROOMS) if floor(module(path)) is None and module(path) != "app"] == []


def test_imports_point_one_way() -> None:
    upward = [
        f"{module(path)} imports {name}"
        for path in files(*ROOMS)
        for name in imports(path)
        if (here := floor(module(path))) is not None and (there := floor(name)) is not None and there < here
    ]
    assert upward == []


def test_providers_do_not_know_the_service() -> None:
    assert imports_from("providers").isdisjoint({"app", "litestar", "sqlalchemy", "asyncpg", "redis", "uvicorn", "prometheus_client"})


def test_the_gateway_does_not_know_its_api() -> None:
    assert not [name for name in imports_from("app/gateway") if is_in(name, {"app.api", "litestar"})]


def test_dialects_know_no_engine_no_host_and_no_other_dialect() -> None:
    for path in files("providers/dialects"):
        if path.name == "catalogue.py":
            continue
        own = ".".join(module(path).split(".")[:3])
        for name in imports(path):
            assert not is_in(name, {"providers.engines", "providers.hosted"}), f"{path} imports {name}"
            assert not is_in(name, {"providers.dialects"}) or is_in(name, {own}), f"{path} imports {name}"


def test_hosts_know_no_engine_but_where_one_runs_in_their_containers() -> None:
    knowing = {str(path) for path in files("providers/hosted") if any(is_in(name, {"providers.engines"}) for name in imports(path))}
    assert knowing == {"providers/hosted/sagemaker/adapter.py"}


def test_engines_know_no_host_and_the_service_knows_neither_by_name() -> None:
    assert not [name for name in imports_from("providers/engines") if is_in(name, {"providers.hosted"})]
    assert not [name for name in imports_from("app/gateway", "app/api", "app/store", "app/record") if is_in(name, {"providers.hosted"})]


def test_the_clouds_own_libraries_are_for_credentials_alone() -> None:
    """And none of them for what opens a connection but where a chain asks its own services, off the event loop."""
    using = {str(path) for path in files(*ROOMS) if any(is_in(name, {"botocore", "google"}) for name in imports(path))}
    chains = {"providers/credentials/aws_chain.py", "providers/credentials/google_chain.py"}
    assert using == chains | {"providers/credentials/google_grants.py"}
    grants = {name for name in imports(Path("providers/credentials/google_grants.py")) if is_in(name, {"google"})}
    assert grants == {"google.auth"}


def test_only_the_vault_encrypts() -> None:
    assert {str(path) for path in files(*ROOMS) if any(is_in(name, {"cryptography"}) for name in imports(path))} == {"app/store/vault.py"}


def test_the_process_that_checks_what_callers_write_knows_nothing_worth_stealing() -> None:
    """Neither settings, credentials, the store nor anything that speaks to somebody: of us only how constraints are read."""
    known = {"app.gateway.checking", "providers.structured_output", "providers.canonical.errors"}
    for path in files("app/gateway/checking"):
        if module(path) == "app.gateway.structured_output.checker_client":  # the worker's side of it
            continue
        ours = {name for name in imports(path) if is_in(name, set(ROOMS))}
        assert all(is_in(name, known) for name in ours), f"{path} imports {sorted(ours)}"


@cache
def transport_files() -> frozenset[str]:
    """providers/transport*.py, and the modules of providers that nothing but these imports."""
    named = {module(path) for path in files("providers") if path.stem.startswith("transport")}
    while more := {
        name
        for name in modules()
        if name.startswith("providers.")
        and name not in named
        and (users := {module(path) for path in files(*ROOMS) if name in imports(path)})
        and users <= named
    }:
        named |= more
    return frozenset(named)


def test_only_the_transport_opens_connections_to_engines() -> None:
    for path in files("providers", "app/gateway", "app/api"):
        if module(path) in transport_files():
            continue
        assert imports(path).isdisjoint(SOCKETS), f"{path} imports {sorted(imports(path) & SOCKETS)}"
        opened = [
            ast.unparse(node.func) for node in ast.walk(tree(path)) if isinstance(node, ast.Call) and OPENING.search(ast.unparse(node.func))
        ]
        assert opened == [], f"{path} calls {opened}"


def asks_sql(path: Path) -> bool:
    """Whether a file imports what SQL is asked with. AsyncEngine alone is a handle, which may be passed along."""
    return any(
        name.partition(".")[0] in SQL
        for node in ast.walk(tree(path))
        for name in (
            [each.name for each in node.names]
            if isinstance(node, ast.Import)
            else [str(node.module)]
            if isinstance(node, ast.ImportFrom) and {each.name for each in node.names} != {"AsyncEngine"}
            else []
        )
    )


def test_only_the_store_and_the_record_know_sql() -> None:
    knowing = {
        str(path) for path in files(*ROOMS) if asks_sql(path) and not is_in(module(path), {"app.store", "app.recording", "migrations"})
    }
    # It only catches Alembic's error, to say in a sentence that a database is of another version.
    assert knowing <= {"app/supervisor/database_query.py"}


def test_only_the_store_speaks_to_redis() -> None:
    """And the doctor, who has to see what is wrong with it."""
    speaking = {module(path) for path in files(*ROOMS) if {name.partition(".")[0] for name in imports(path)} & {"redis", "hiredis"}}
    assert speaking and all(is_in(name, {"app.store", "app.doctor"}) for name in speaking), speaking


def test_nothing_is_imported_inside_a_function() -> None:
    inside = [
        f"{path}:{node.lineno}"
        for path in files(*ROOMS, "tests", "bench")
        if INDENTED.search((HOUSE / path).read_text())  # to parse a file takes a hundred times as long
        for function in ast.walk(tree(path))
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        for node in ast.walk(function)
        if isinstance(node, ast.Import | ast.ImportFrom)
    ]
    assert inside == []


def test_no_imports_go_in_a_circle() -> None:
    graph = {module(path): {name for name in imports(path) if name in modules()} for path in files(*ROOMS)}
    # What a package's file takes from its own parts is no circle, unless a part takes from the package.
    settled: set[str] = set()
    while ready := {name for name, needs in graph.items() if name not in settled and needs <= settled | {name}}:
        settled |= ready
    assert graph.keys() - settled == set()


def test_every_file_opens_with_a_line_on_what_it_is() -> None:
    silent = [str(path) for path in files(*ROOMS, "tests", "bench") if not ast.get_docstring(tree(path))]
    assert silent == []


def tracked() -> list[Path]:
    """Every text file that belongs to the project. Those not yet added count: they are about to be."""
    command = ["git", "-C", str(HOUSE), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, capture_output=True, check=False)
    if listed.returncode != 0:
        pytest.skip("not a git checkout")
    return [path for name in listed.stdout.decode().split("\0") if name and (path := HOUSE / name).is_file()]


def test_no_file_names_a_package_registry() -> None:
    """Which index packages come from is the installing machine's business."""
    hosts = re.compile(rb"(?:%s)" % b"|".join(re.escape(host) for host in REGISTRIES), re.IGNORECASE)
    assert [str(path.relative_to(HOUSE)) for path in tracked() if hosts.search(path.read_bytes())] == []


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


MADE_FOR_TESTS = {"tests/laws/tls/engine.key"}


def test_no_file_holds_a_secret() -> None:
    """Also what pre-commit asks before anything is committed."""
    secret = re.compile(rb"(?<![A-Za-z0-9_-])(?:" + b"|".join(SECRETS) + rb")")
    assert {str(path.relative_to(HOUSE)) for path in tracked() if secret.search(path.read_bytes())} <= MADE_FOR_TESTS


def pins(name: str) -> dict[str, str]:
    return dict(re.findall(r"^([a-z0-9][a-z0-9._-]*)==(\S+)", (HOUSE / name).read_text(), re.MULTILINE))


def test_the_locks_agree() -> None:
    """So that what is tested is what runs."""
    running, testing = pins("requirements.lock"), pins("requirements-dev.lock")
    assert running.items() <= testing.items()


def test_every_pin_has_hashes_and_names_no_place() -> None:
    for name in ("requirements.lock", "requirements-dev.lock"):
        text = (HOUSE / name).read_text()
        requirements = re.split(r"\n(?=[a-z0-9])", text[text.index("\n", text.rindex("#    make")) :].strip())
        assert len(requirements) == len(pins(name))
        assert [each.split()[0] for each in requirements if "--hash=sha256:" not in each] == []
        assert "--index" not in text and "://" not in text


def test_the_locks_hold_every_dependency_of_the_project() -> None:
    project = (HOUSE / "pyproject.toml").read_text()
    for lock, parts in (("requirements.lock", ("dependencies", "local", "build")), ("requirements-dev.lock", ("dev",))):
        for part in parts:
            listed = re.search(rf"^{part} = \[(.*?)\]\s*$", project, re.MULTILINE | re.DOTALL)
            assert listed is not None
            wanted = {re.split(r"[\[<>=!~;]", each)[0].lower() for each in re.findall(r'"([^"]+)"', listed[1])}
            assert wanted <= pins(lock).keys(), f"{lock} lacks {sorted(wanted - pins(lock).keys())}; `make lock` writes it anew"


def test_every_setting_is_in_the_manual() -> None:
    assert settings_table() in (HOUSE / "docs" / "settings.md").read_text()


def test_every_task_is_listed_by_make_help() -> None:
    told = subprocess.run(["make", "-s", "-C", str(HOUSE), "help"], capture_output=True, text=True, check=True).stdout
    listed = {line.split()[0] for line in told.splitlines()}
    assert listed >= {"help", "up", "test", "check", "bench", "migrate", "serve", "clean"}
    assert all(len(line.split()) > 2 for line in told.splitlines())
