"""The architecture: which package may import which, and what no file may do. Each test is a wall, and says why it stands.

A failure names the file and what it imports. docs/architecture.md draws the same picture.
"""

import ast
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest

from app.supervisor.settings_manual import settings_table

ROOT = Path(__file__).parent.parent
TOP_PACKAGES = ("app", "providers", "migrations")

# Each layer may import those below it, and itself.
LAYERS = (
    {"app.main", "app.gateway_server", "app.cli", "app.supervisor", "app.doctor", "app.imports", "app.sandbox"},
    {"app.api"},
    {"app.webhooks", "app.datasets"},
    {"app.gateway"},
    {"app.billing", "app.results"},
    {"app.recording"},
    {"migrations"},
    {"app.store"},
    {"app.domain", "app.otel", "app.process", "app.settings", "app.templating"},
    {"providers"},
)

# The same within providers: wire formats know no engine and no host, and both of these know no catalogue.
PROVIDER_LAYERS = (
    {"providers.catalogue", "providers.probing"},
    {"providers.hosted"},
    {"providers.engines"},
    {"providers.operations", "providers.engine_routes"},
    {"providers.adapters"},
    {"providers.learned_rules"},
    {"providers.dialects"},
    {"providers.profiles", "providers.model_families"},
    {"providers.structured_output"},
    {
        "providers.host_operation",
        "providers.dialect",
        "providers.dialect_rule",
        "providers.drop_policy",
        "providers.fields",
        "providers.host_tools",
        "providers.keep_alive",
        "providers.output_bounds",
        "providers.participant_names",
        "providers.request_overrides",
        "providers.restricted_fields",
        "providers.stream_editor",
        "providers.unsupported",
    },
    {"providers.credentials"},
    {"providers.canonical"},
    {"providers.transport"},
    {"providers.wire"},
)

# The files of a dialect that read and write its wire format. Extras beside them are named after what they hold.
DIALECT_FILES = {
    *("request_schema", "read_request", "write_request", "read_response", "write_response"),
    *("stream_reader", "stream_writer", "edit", "errors", "usage"),
}
# Shared by dialects of one maker: no dialects themselves.
SHARED_DIALECT_PACKAGES = {"openai", "anthropic", "aws"}

SQL_LIBRARIES = {"sqlalchemy", "asyncpg", "alembic"}
# Ways to open a connection without the transport. Only providers/transport may use them.
SOCKET_LIBRARIES = {"socket", "httpcore", "requests", "aiohttp", "urllib.request", "http.client"}
INDENTED_IMPORT = re.compile(r"^[ \t]+(?:import|from)\s|[;:][ \t]*(?:import|from)\s", re.MULTILINE)
CONNECTION_CALL = re.compile(
    r"\b(open_connection|create_connection|open_unix_connection|create_unix_connection|start_tls|AsyncClient|AsyncHTTPTransport)$"
)


@cache
def python_files(*packages: str) -> tuple[Path, ...]:
    """The Python files of these packages, as paths from the repository's root."""
    return tuple(sorted(path.relative_to(ROOT) for package in packages for path in _python_files(ROOT / package)))


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
    return frozenset(module_name(path.relative_to(ROOT)) for package in TOP_PACKAGES for path in (ROOT / package).rglob("*.py"))


@cache
def imports(path: Path) -> frozenset[str]:
    """Returns the full names that a file imports: `from a import b` is a.b where that is a module of ours, else a."""
    found: set[str] = set()
    for node in ast.walk(syntax_tree(path)):
        if isinstance(node, ast.Import):
            found |= {each.name for each in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path} imports relatively; write names in full"
            for each in node.names:
                full = f"{node.module}.{each.name}"
                found.add(full if full in module_names() else str(node.module))
    return frozenset(found)


def imports_from(*packages: str) -> set[str]:
    """The full names, and their first parts, of all that these packages import."""
    named = {name for path in python_files(*packages) for name in imports(path)}
    return named | {name.partition(".")[0] for name in named}


def is_under(name: str, packages: set[str]) -> bool:
    return any(name == package or name.startswith(package + ".") for package in packages)


def layer_of(name: str, layers: tuple[set[str], ...]) -> int | None:
    """0 is the top. None: the module is in no layer."""
    return next((depth for depth, packages in enumerate(layers) if is_under(name, packages)), None)


def upward_imports(layers: tuple[set[str], ...], *packages: str) -> list[str]:
    return [
        f"{path} imports {name}"
        for path in python_files(*packages)
        for name in imports(path)
        if (layer := layer_of(module_name(path), layers)) is not None
        and (imported_layer := layer_of(name, layers)) is not None
        and imported_layer < layer
    ]


def test_every_module_belongs_to_a_layer() -> None:
    outside = [
        str(path)
        for path in python_files(*TOP_PACKAGES)
        if (layer_of(module_name(path), LAYERS) is None and module_name(path) != "app")
        or (is_under(module_name(path), {"providers"}) and layer_of(module_name(path), PROVIDER_LAYERS) is None)
    ]
    assert outside == [], "a module outside the layers could import anything"


def test_no_layer_imports_from_a_layer_above_it() -> None:
    assert upward_imports(LAYERS, *TOP_PACKAGES) == [], "a change above must not be able to break what is below"


def test_no_layer_of_providers_imports_from_a_layer_above_it() -> None:
    assert upward_imports(PROVIDER_LAYERS, "providers") == [], "a wire format must not know who speaks it"


def package_of(name: str) -> str:
    """The package that holds a module. Modules at the root of app and providers count as packages of their own."""
    parent = name.rpartition(".")[0]
    return name if parent in ("", "app", "providers") or (ROOT / name.replace(".", "/")).is_dir() else parent


def _reachable(graph: Mapping[str, set[str]], start: str) -> set[str]:
    """The packages that `start` imports, directly or through others."""
    found: set[str] = set()
    pending = [start]
    while pending:
        new = graph.get(pending.pop(), set()) - found
        found |= new
        pending.extend(new)
    return found


def test_packages_import_each_other_without_a_circle() -> None:
    """Neither of two packages in a circle can be understood, tested or replaced alone."""
    graph: dict[str, set[str]] = {}
    for path in python_files(*TOP_PACKAGES):
        own = package_of(module_name(path))
        imported = {package_of(name) for name in imports(path) if name in module_names()}
        graph.setdefault(own, set()).update(imported - {own})
    reachable = {package: _reachable(graph, package) for package in graph}
    in_circle = {
        package: sorted(other for other in graph[package] if package in reachable.get(other, set()))
        for package in graph
        if package in reachable[package]
    }
    assert in_circle == {}, f"these packages import each other: {in_circle}"


MAX_FILES = 24
# Lists of one kind, in which nobody looks for anything but by name.
FOLDERS_OF_ONE_KIND = {
    "app/results/statistics": "the parts of the statistics",
    "migrations/versions": "migrations",
    "providers/canonical": "the parts of the canonical model",
    "providers/dialects/openai_chat": "the parts of a dialect",
    "providers/dialects/openai_responses": "the parts of a dialect",
    "providers/dialects/gemini": "the parts of a dialect",
    "tests/conformance": "situations, each by caller and target",
}


def test_folders_hold_few_enough_files_to_be_read_at_a_glance() -> None:
    """A folder is a room about one subject: of more files, make rooms within it; a list of one kind is named above."""
    files: dict[str, int] = defaultdict(int)
    for path in python_files(*TOP_PACKAGES, "tests"):
        files[path.parent.as_posix()] += path.name != "__init__.py"
    full = {folder: number for folder, number in files.items() if number > MAX_FILES}
    assert full.keys() - FOLDERS_OF_ONE_KIND.keys() == set(), f"at most {MAX_FILES} files each: {full}"
    assert FOLDERS_OF_ONE_KIND.keys() - full.keys() == set(), "these are no longer that long: take them from the list"


MAX_LINES = 300
# Lists of one kind, in which nobody looks for anything but by name: parting them would only hide where a thing is.
LISTS_OF_ONE_KIND = {
    "app/api/openapi/property_descriptions.py": "the descriptions of names that types share; 95 of 320 could stand beside their one field",
    "app/settings.py": "the settings, each with its default and its text",
    "providers/adapters/provider.py": "the contract of an adapter: what the gateway may ask of one, each with its default",
    "providers/canonical/errors.py": "the errors, each with its status and kind",
}


def test_files_are_short_enough_to_be_read_as_one_thought() -> None:
    """Whoever scrolls to find something in a file reads two: give the second subject a file, and a name that a stranger guesses."""
    lines = {path.as_posix(): len((ROOT / path).read_text().splitlines()) for path in python_files("app", "providers")}
    long = {path: number for path, number in lines.items() if number > MAX_LINES and path not in LISTS_OF_ONE_KIND}
    assert long == {}, f"part them by subject, not by length; a list of one kind is named in LISTS_OF_ONE_KIND, with the reason: {long}"
    short = {path for path in LISTS_OF_ONE_KIND if lines.get(path, 0) <= MAX_LINES}
    assert short == set(), f"these have at most {MAX_LINES} lines, or are gone: take them from LISTS_OF_ONE_KIND"


def test_dialects_have_the_same_files() -> None:
    """Whoever knows one dialect finds the same things in the next: reading and writing are in the files of the scheme."""
    misnamed = [
        f"{path} defines {node.name}"
        for path in python_files("providers/dialects")
        if len(path.parts) == 4 and path.parts[2] not in SHARED_DIALECT_PACKAGES and path.stem not in DIALECT_FILES | {"__init__"}
        for node in syntax_tree(path).body
        if isinstance(node, ast.FunctionDef) and node.name in DIALECT_FILES
    ]
    assert misnamed == []
    one_way: Mapping[str, str] = {"read_": "write_", "write_": "read_"}
    both_ways = [
        f"{path} defines {node.name}"
        for path in python_files("providers/dialects")
        if len(path.parts) == 4 and path.stem in DIALECT_FILES
        for prefix, other in one_way.items()
        if path.stem.startswith(prefix)
        for node in syntax_tree(path).body
        if isinstance(node, ast.FunctionDef) and node.name.startswith(other)
    ]
    assert both_ways == [], "a file reads or writes, not both"


# Words of the private dialect that the code once spoke; docs/glossary.md says what to write instead.
RETIRED_WORDS = frozenset(
    {
        *("told", "telling", "said", "ask", "asked", "asking", "bend", "bends", "bent", "concede", "concession", "concessions"),
        *("underway", "stamp", "door", "doors", "doorway", "praise", "blame", "farewell", "trouble", "ticket", "tickets", "seal", "seals"),
        *(
            "sealed",
            "stray",
            "strays",
            "mend",
            "mends",
            "mending",
            "tidings",
            "babble",
            "heed",
            "heeded",
            "vouch",
            "vouched",
            "hear",
            "heard",
        ),
        *("crossed", "crossing", "crossings", "leftovers", "beginnings", "greeting", "laws", "stories", "tidying"),
    }
)


def words_of(name: str) -> set[str]:
    return {word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)}


def test_no_module_class_or_function_is_named_with_a_retired_word() -> None:
    retired = [
        f"{path}: {name}"
        for path in python_files(*TOP_PACKAGES, "tests", "bench")
        if path.parts[:2] != ("migrations", "versions")
        for name in (
            path.stem,
            *path.parts[:-1],
            *(node.name for node in ast.walk(syntax_tree(path)) if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)),
        )
        if words_of(name) & RETIRED_WORDS
    ]
    assert retired == [], "docs/glossary.md has the standard terms"


def test_providers_import_nothing_of_the_service() -> None:
    assert imports_from("providers").isdisjoint({"app", "litestar", "sqlalchemy", "asyncpg", "redis", "uvicorn", "prometheus_client"})


def test_gateway_does_not_import_the_http_api() -> None:
    assert not [name for name in imports_from("app/gateway") if is_under(name, {"app.api", "litestar"})]


def test_dialects_import_no_other_dialect() -> None:
    """Dialects of one maker may share files, in a package that is named above."""
    shared = {f"providers.dialects.{package}" for package in SHARED_DIALECT_PACKAGES}
    for path in python_files("providers/dialects"):
        if path.name == "catalogue.py":
            continue
        own = ".".join(module_name(path).split(".")[:3])
        for name in imports(path):
            assert not is_under(name, {"providers.dialects"}) or is_under(name, {own, *shared}), f"{path} imports {name}"


def test_only_sagemaker_of_the_hosts_imports_engines() -> None:
    importers = {
        str(path) for path in python_files("providers/hosted") if any(is_under(name, {"providers.engines"}) for name in imports(path))
    }
    assert importers == {"providers/hosted/sagemaker/adapter.py"}


def test_engines_and_the_service_import_no_host() -> None:
    assert not [name for name in imports_from("providers/engines") if is_under(name, {"providers.hosted"})]
    assert not [
        name for name in imports_from("app/gateway", "app/api", "app/store", "app/recording") if is_under(name, {"providers.hosted"})
    ]


def test_cloud_sdks_are_imported_only_by_the_credential_modules() -> None:
    """The chains alone open connections with them: they ask their own services, off the event loop."""
    importers = {
        str(path)
        for path in python_files(*TOP_PACKAGES)
        if any(is_under(name, {"botocore", "google"}) and not is_under(name, {"google.protobuf"}) for name in imports(path))
    }
    credential_chains = {"providers/credentials/aws_chain.py", "providers/credentials/google_chain.py"}
    assert importers == credential_chains | {"providers/credentials/google_grants.py"}
    grants = {name for name in imports(Path("providers/credentials/google_grants.py")) if is_under(name, {"google"})}
    assert grants == {"google.auth"}


def test_only_the_vault_encrypts_and_only_the_listeners_certificate_is_parsed() -> None:
    importers = {str(path) for path in python_files(*TOP_PACKAGES) if any(is_under(name, {"cryptography"}) for name in imports(path))}
    assert importers == {"app/store/postgres/vault.py", "app/api/server/tls_certificate.py"}
    parsing = {name for name in imports(Path("app/api/server/tls_certificate.py")) if is_under(name, {"cryptography"})}
    assert parsing == {"cryptography"} or parsing == {"cryptography.x509"}


def test_constraint_checker_process_imports_no_settings_credentials_or_store() -> None:
    """It evaluates what callers wrote, so it must know nothing worth stealing: of our code only how constraints are read."""
    known = {"app.gateway.structured_output.checker", "providers.structured_output", "providers.canonical"}
    for path in python_files("app/gateway/structured_output/checker"):
        imported = {name for name in imports(path) if is_under(name, set(TOP_PACKAGES))}
        assert all(is_under(name, known) for name in imported), f"{path} imports {sorted(imported)}"


def test_only_the_transport_opens_upstream_connections() -> None:
    """It alone has the timeouts, the proxy and the certificates that every connection to an engine needs."""
    for path in python_files("providers", "app/gateway", "app/api"):
        if is_under(module_name(path), {"providers.transport", "app.gateway.limits.counters"}):  # the latter speaks to Redis
            continue
        assert imports(path).isdisjoint(SOCKET_LIBRARIES), f"{path} imports {sorted(imports(path) & SOCKET_LIBRARIES)}"
        opened = [
            ast.unparse(node.func)
            for node in ast.walk(syntax_tree(path))
            if isinstance(node, ast.Call) and CONNECTION_CALL.search(ast.unparse(node.func))
        ]
        assert opened == [], f"{path} calls {opened}"


def imports_sql(path: Path) -> bool:
    """Whether a file imports a library that runs SQL. AsyncEngine and AsyncConnection are handles, which may be passed along."""
    return any(
        name.partition(".")[0] in SQL_LIBRARIES
        for node in ast.walk(syntax_tree(path))
        for name in (
            [each.name for each in node.names]
            if isinstance(node, ast.Import)
            else [str(node.module)]
            if isinstance(node, ast.ImportFrom) and not {each.name for each in node.names} <= {"AsyncEngine", "AsyncConnection"}
            else []
        )
    )


# Packages whose processes run statements of their own. What two of them share is in the store.
SQL_OWNERS = {
    *("app.store", "app.recording", "migrations"),
    "app.billing.charged_tokens",
    "app.gateway.idempotency.recorded_outcomes",
    "app.gateway.limits.counters.epochs",
    "app.gateway.replay.replay_runs",
    # It only catches Alembic's error, to report that a database is of another version.
    "app.supervisor.database_query",
}


def test_sql_is_in_the_store_or_beside_the_process_that_alone_runs_it() -> None:
    importers = {module_name(path) for path in python_files(*TOP_PACKAGES) if imports_sql(path)}
    assert [name for name in sorted(importers) if not is_under(name, SQL_OWNERS)] == []


# Whoever counts limits, keeps responses for repetitions, deletes copies there, or diagnoses it.
REDIS_USERS = {"app.store.redis", "app.gateway.limits.counters", "app.recording.erasure.copies", "app.doctor"}


def test_few_modules_import_redis() -> None:
    importers = {
        module_name(path)
        for path in python_files(*TOP_PACKAGES)
        if {name.partition(".")[0] for name in imports(path)} & {"redis", "hiredis"}
    }
    assert importers and [name for name in sorted(importers) if not is_under(name, REDIS_USERS)] == []


def test_nothing_is_imported_inside_a_function() -> None:
    inside = [
        f"{path}:{node.lineno}"
        for path in python_files(*TOP_PACKAGES, "tests", "bench")
        if INDENTED_IMPORT.search((ROOT / path).read_text())  # parsing a file takes a hundred times as long
        for function in ast.walk(syntax_tree(path))
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        for node in ast.walk(function)
        if isinstance(node, ast.Import | ast.ImportFrom)
    ]
    assert inside == []


def test_imports_have_no_cycle() -> None:
    graph = {module_name(path): {name for name in imports(path) if name in module_names()} for path in python_files(*TOP_PACKAGES)}
    # A package's __init__ may import its own modules, unless one of them imports the package.
    ordered: set[str] = set()
    while ready := {name for name, needs in graph.items() if name not in ordered and needs <= ordered | {name}}:
        ordered |= ready
    assert graph.keys() - ordered == set()


def test_every_module_has_a_docstring() -> None:
    without_docstring = [str(path) for path in python_files(*TOP_PACKAGES, "tests", "bench") if not ast.get_docstring(syntax_tree(path))]
    assert without_docstring == []


def tracked_files() -> list[Path]:
    """Every text file of the project, including those that are not added yet."""
    command = ["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, capture_output=True, check=False)
    if listed.returncode != 0:
        pytest.skip("not a git checkout")
    return [path for name in listed.stdout.decode().split("\0") if name and (path := ROOT / name).is_file()]


def test_no_file_names_a_package_registry() -> None:
    """The installing machine chooses the index that packages come from."""
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
    """pre-commit runs this before each commit."""
    secret = re.compile(rb"(?<![A-Za-z0-9_-])(?:" + b"|".join(SECRETS) + rb")")
    assert {str(path.relative_to(ROOT)) for path in tracked_files() if secret.search(path.read_bytes())} <= TEST_KEYS


def locked_versions(name: str) -> dict[str, str]:
    return dict(re.findall(r"^([a-z0-9][a-z0-9._-]*)==(\S+)", (ROOT / name).read_text(), re.MULTILINE))


def test_runtime_lock_is_part_of_the_development_lock() -> None:
    """The tests must run with the versions that run in production."""
    running, testing = locked_versions("requirements.lock"), locked_versions("requirements-dev.lock")
    assert locked_versions("requirements-serve.lock").items() <= running.items() <= testing.items()
    assert locked_versions("requirements-build.lock").items() <= running.items()


def test_every_locked_requirement_has_hashes_and_no_index() -> None:
    for name in ("requirements.lock", "requirements-dev.lock", "requirements-serve.lock", "requirements-build.lock"):
        text = (ROOT / name).read_text()
        requirements = re.split(r"\n(?=[a-z0-9])", text[text.index("\n", text.rindex("#    make")) :].strip())
        assert len(requirements) == len(locked_versions(name))
        assert [each.split()[0] for each in requirements if "--hash=sha256:" not in each] == []
        assert "--index" not in text and "://" not in text


def test_locks_hold_every_declared_dependency() -> None:
    project = (ROOT / "pyproject.toml").read_text()
    locks = {
        "requirements.lock": ("dependencies", "local", "build"),
        "requirements-dev.lock": ("dev",),
        "requirements-serve.lock": ("dependencies",),
        "requirements-build.lock": ("build",),
    }
    for lock, parts in locks.items():
        for part in parts:
            listed = re.search(rf"^{part} = \[(.*?)\]\s*$", project, re.MULTILINE | re.DOTALL)
            assert listed is not None
            names = (re.split(r"[\[<>=!~;]", each)[0].lower() for each in re.findall(r'"([^"]+)"', listed[1]))
            wanted = {re.sub(r"[-_.]+", "-", name) for name in names}  # as locks write it: https://peps.python.org/pep-0503/
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


def test_only_the_constraint_checker_and_the_sandbox_import_outlines_core() -> None:
    """It converts what callers wrote, and only there time and memory are limited. outlines itself opens a disk cache (decision 010)."""
    importers = {module_name(path) for path in python_files(*TOP_PACKAGES) if "outlines_core" in imports(path)}
    assert importers and all(is_under(name, {"app.gateway.structured_output.checker", "app.sandbox"}) for name in importers), importers
    assert imports_from(*TOP_PACKAGES, "tests", "bench").isdisjoint({"outlines", "diskcache"})


def test_only_the_export_imports_opentelemetry_and_gateway_processes_never_load_its_messages() -> None:
    """Its messages take memory and time that only the writer has to spend."""
    importers = {module_name(path) for path in python_files(*TOP_PACKAGES) if any(is_under(n, {"opentelemetry"}) for n in imports(path))}
    assert importers and all(is_under(name, {"app.otel"}) for name in importers), importers
    loaded = "import sys, app.supervisor.run_gateway; print([name for name in sys.modules if name.startswith('opentelemetry.proto')])"
    assert subprocess.run([sys.executable, "-c", loaded], capture_output=True, text=True, check=True, cwd=ROOT).stdout.strip() == "[]"


def test_only_the_constraint_checker_imports_jsonschema() -> None:
    """It is slow: the checker gives it only the part of a schema that is wrong (decision 010)."""
    importers = {module_name(path) for path in python_files(*TOP_PACKAGES) if "jsonschema" in imports(path)}
    assert importers == {"app.gateway.structured_output.checker.meta_schemas"}


def test_modules_of_the_integration_tests_share_one_postgres() -> None:
    """A fixture that a module imports is that module's own: a server more, with its tables, for each of them. conftest.py has it."""
    imported = re.compile(r"^from tests\.support\.processes\.postgres import .*\b(?:postgres|database|blank_database)\b", re.MULTILINE)
    importers = {path.name for path in (ROOT / "tests" / "integration").rglob("*.py") if imported.search(path.read_text())}
    assert importers == {"conftest.py", "test_writer_crash_recovery.py"}  # that one kills its server
