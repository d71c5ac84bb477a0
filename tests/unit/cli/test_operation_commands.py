"""Commands made from the operations of the admin API: that each operation has one, what they are made of, and what they cost."""

import re
import subprocess
import sys
import warnings
from typing import Any

import click
import msgspec
import pytest
from click.testing import CliRunner
from litestar.exceptions import LitestarDeprecationWarning

from app.api.rest.command import Column
from app.api.rest.operation import Operation
from app.cli import main
from app.cli.admin_api import AdminAccess, named_access
from app.cli.operations import show
from app.cli.operations.build import build_manifest, command_name, declared_operations, write_manifest
from app.cli.operations.make import make_command
from app.cli.operations.manifest import MANIFEST, MadeCommand, Parameter, load_manifest
from app.cli.operations.requests import OperationRefused, OperationRequest, OperationResponse
from app.supervisor.machine.errors import OperatorError

# Operations without a command, each with its reason.
WITHOUT_COMMAND = {
    "delete_role_grant": "`roles revoke` takes a role from whom it was given to, and needs no id",
    "get_own_key": "`keys show` shows it, and more, to whoever has what commands take: an admin key or a role",
    "list_own_inferences": "`inferences --key` lists them",
    "show_own_inference": "`inferences show` shows it",
    "read_engine": "`engines run` sends POST, which runs the same operations",
}


@pytest.fixture(scope="module")
async def declared() -> list[Operation[Any, Any]]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LitestarDeprecationWarning)  # about the style of parameters
        return await declared_operations()


def find_command(name: str) -> click.Command | None:
    command: click.Command | None = main
    for word in name.split(" "):
        if not isinstance(command, click.Group):
            return None
        command = command.get_command(click.Context(command), word)
    return command


def test_every_operation_has_a_command(declared: list[Operation[Any, Any]]) -> None:
    names = {each.id: [command.name or command_name(each) for command in each.commands] for each in declared}
    missing = {id: name for id, found in names.items() for name in found or [""] if find_command(name) in (None, main)}
    assert missing.keys() == WITHOUT_COMMAND.keys(), f"declare `commands` beside these, and rebuild the manifest: {missing}"


def test_manifest_is_what_the_operations_declare(declared: list[Operation[Any, Any]]) -> None:
    assert write_manifest(build_manifest(declared)) == MANIFEST.read_bytes(), "run `python -m app.cli.operations.build`"


def test_commands_of_one_name_differ_in_what_their_paths_need_or_what_decides() -> None:
    def deciding(command: MadeCommand) -> list[str]:
        return sorted(each.field for each in command.parameters if each.place == "path" or each.decides)

    found = [(each.name, *deciding(each)) for each in load_manifest().commands]
    assert len(found) == len(set(found))


def test_name_of_a_command_follows_from_path_and_id() -> None:
    def name(method: Any, path: str, id: str) -> str:
        return command_name(Operation(method=method, path=path, id=id, tag="", summary="", permission=None, handler=_unused))

    assert name("GET", "/teams", "list_teams") == "teams list"
    assert name("PATCH", "/models/{name}", "patch_configured_model") == "models change"
    assert name("POST", "/webhooks/{name}/test", "test_webhook") == "webhooks test"
    assert name("POST", "/models/{name}/targets", "add_model_target") == "models targets add"
    assert name("GET", "/feedback/export", "export_feedback") == "feedback export"


async def _unused(call: Any) -> Any:
    raise AssertionError(call)


@pytest.mark.parametrize(
    "arguments",
    [("-h",), ("users", "-h"), ("users", "list", "-h"), ("roles", "grant", "-h"), ("workers", "list", "-h")],
    ids=" ".join,
)
def test_help_of_made_commands_imports_no_database_driver(arguments: tuple[str, ...]) -> None:
    assert heavy_modules(f"main({list(arguments)!r}, standalone_mode=False)") == []


def test_completion_imports_no_database_driver() -> None:
    script = """
complete = lambda words, incomplete: [each.value for each in ShellComplete(main, {}, "narthex", "_").get_completions(words, incomplete)]
assert {"teams", "users", "roles"} <= set(complete([], "")), complete([], "")
assert complete([], "us") == ["users"]
assert complete(["users"], "dis") == ["disable"]
assert "--service-account" in complete(["roles", "grant"], "--")
assert complete(["roles", "grant"], "own") == ["owner"]
assert {"create", "show", "rotate"} <= set(complete(["keys"], "")) and "--any-model" in complete(["keys", "change"], "--any")
assert complete(["teams", "set", "x", "--content"], "red") == ["redacted"]
assert [each for each in complete(["service-accounts", "tokens"], "")] == ["list", "create", "revoke"]
"""
    assert heavy_modules(script) == []


@pytest.mark.parametrize(
    ("subject", "most"),
    [("access.keys", 650), ("access.teams", 650), ("configuration.models", 650), ("limits.limits", 650), ("experiments.experiments", 700)],
)
def test_command_that_reads_the_database_imports_no_adapter_and_nothing_for_terminals(subject: str, most: int) -> None:
    """Adapters and dialects were 500 of 1,200 modules that `keys list` once imported, for a validation of what it does not change."""
    script = f"""
import app.cli.operations.run_here
importlib.import_module("app.api.admin.{subject}")
assert len(sys.modules) < {most}, len(sys.modules)
assert not [each for each in sys.modules if each.startswith(("providers.hosted.", "providers.engines.", "providers.dialects."))]
"""
    assert heavy_modules(script) == ["sqlalchemy", "asyncpg"]


def test_command_over_rest_imports_neither_a_database_driver_nor_httpx() -> None:
    script = """
import app.cli.admin_api, app.cli.operations.run_remote
assert len(sys.modules) < 300, len(sys.modules)
"""
    assert heavy_modules(script) == []


def test_chat_imports_neither_httpx_nor_what_draws_on_terminals() -> None:
    assert heavy_modules("import app.cli.chat.chat") == []


def heavy_modules(script: str) -> list[str]:
    """The libraries that a process imports for a script with the command line at hand."""
    code = f"""
import importlib, sys
from click.shell_completion import ShellComplete
from app.cli import main
{script}
print([each for each in ("sqlalchemy", "asyncpg", "httpx2", "rich", "litestar", "cryptography") if each in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return list(msgspec.json.decode(done.stdout.splitlines()[-1].replace("'", '"')))


class FakeRunner:
    """Answers what it is told to, or refuses; keeps the requests."""

    def __init__(self, document: Any = None, refusals: tuple[int, ...] = ()) -> None:
        self.document = document
        self.requests: list[tuple[OperationRequest, str | None]] = []
        self._refusals = list(refusals)

    def run(self, request: OperationRequest, if_match: str | None) -> OperationResponse:
        self.requests.append((request, if_match))
        if self._refusals:
            raise OperationRefused("no", self._refusals.pop(0), request.command)
        return OperationResponse(self.document)


def made(**fields: Any) -> MadeCommand:
    given: Any = {"name": "things change", "id": "patch_thing", "method": "PATCH", "path": "/things/{name}", "subject": "things"}
    return MadeCommand(**given | {"summary": "Change a thing.", "help": "Change a thing."} | fields)


def invoke(monkeypatch: pytest.MonkeyPatch, command: MadeCommand, runner: FakeRunner, *arguments: str, stdin: str = "") -> Any:
    def choose_runner(*_: object) -> FakeRunner:
        return runner

    monkeypatch.setattr("app.cli.operations.make._runner", choose_runner)
    return CliRunner().invoke(make_command(command), list(arguments), input=stdin)


NAME = Parameter(field="name", place="path", metavar="NAME", is_required=True)
AMOUNT = Parameter(field="amount", place="body", flags=["--amount"], kind="number", help="Its amount.")
ENDS = Parameter(field="ends_at", place="body", flags=["--ends"], kind="moment", help="When it ends.")
WAIT = Parameter(field="wait_s", place="body", flags=["--wait"], kind="duration", help="How long.")
ON = Parameter(field="enabled", place="body", flags=["--enabled/--no-enabled"], kind="switch", help="Whether.")
TAGS = Parameter(field="tags", place="body", flags=["--tag"], kind="texts", help="Its tags.")
SCOPE = Parameter(field="scope", place="body", flags=["--scope"], kind="pairs", help="Whose.")
ROLE = Parameter(field="roles.role", place="body", flags=["--role"], help="Its first role.")
TEAM = Parameter(field="roles.team", place="body", flags=["--team"], help="Of the role.")
CHANGE = made(parameters=[NAME, AMOUNT, ENDS, WAIT, ON, TAGS, SCOPE, ROLE, TEAM], takes_body=True, takes_file=True, unsettable=["amount"])


def test_options_become_the_fields_of_the_body(monkeypatch: pytest.MonkeyPatch) -> None:
    runner = FakeRunner({"name": "x"})
    options = ("--amount", "2", "--ends", "2099-01-31", "--wait", "1h30m", "--no-enabled", "--tag", "a", "--tag", "b")
    done = invoke(monkeypatch, CHANGE, runner, "x/y", *options, "--role", "viewer", "--team", "t")
    assert done.exit_code == 0, done.output
    [(request, _)] = runner.requests
    assert request.path == {"name": "x/y"} and request.query == {}
    assert msgspec.json.decode(request.body or b"") == {
        "amount": 2.0,
        "ends_at": "2099-02-01T00:00:00+00:00",
        "wait_s": 5400.0,
        "enabled": False,
        "tags": ["a", "b"],
        "roles": [{"role": "viewer", "team": "t"}],
    }


def test_file_gives_fields_unset_takes_them_and_options_win(monkeypatch: pytest.MonkeyPatch) -> None:
    for stdin in ('{"amount": 1, "enabled": true, "tags": ["a"]}', 'amount = 1\nenabled = true\ntags = ["a"]'):
        runner = FakeRunner({})
        done = invoke(monkeypatch, CHANGE, runner, "x", "--file", "-", "--no-enabled", "--unset", "amount", stdin=stdin)
        assert done.exit_code == 0, done.output
        assert msgspec.json.decode(runner.requests[0][0].body or b"") == {"amount": None, "enabled": False, "tags": ["a"]}
    broken = invoke(monkeypatch, CHANGE, FakeRunner(), "x", "--file", "-", stdin="neither")
    assert broken.exit_code == 2 and "neither a JSON object nor TOML" in broken.output


def test_pairs_are_given_one_by_one_or_as_json(monkeypatch: pytest.MonkeyPatch) -> None:
    for options in (("--scope", "team=a", "--scope", "model=b"), ("--scope", '{"team": "a", "model": "b"}')):
        runner = FakeRunner({})
        assert invoke(monkeypatch, CHANGE, runner, "x", *options).exit_code == 0
        assert msgspec.json.decode(runner.requests[0][0].body or b"") == {"scope": {"team": "a", "model": "b"}}
    wrong = invoke(monkeypatch, CHANGE, FakeRunner(), "x", "--scope", "team")
    assert wrong.exit_code == 2 and "it must be NAME=VALUE" in wrong.output


def test_number_that_json_cannot_say_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for amount in ("nan", "inf"):
        runner = FakeRunner()
        done = invoke(monkeypatch, CHANGE, runner, "x", "--amount", amount)
        assert done.exit_code == 2 and "is not a finite number" in done.output and runner.requests == []


def test_change_of_nothing_is_a_usage_error(monkeypatch: pytest.MonkeyPatch) -> None:
    runner = FakeRunner()
    done = invoke(monkeypatch, CHANGE, runner, "x")
    assert done.exit_code == 2 and "Nothing to change" in done.output and runner.requests == []


def test_missing_field_of_the_body_is_a_usage_error_that_names_its_option(monkeypatch: pytest.MonkeyPatch) -> None:
    command = made(method="POST", parameters=[msgspec.structs.replace(AMOUNT, is_required=True)], takes_body=True)
    done = invoke(monkeypatch, command, FakeRunner())
    assert done.exit_code == 2 and "Missing option '--amount'" in done.output


def test_resource_is_changed_in_any_state_unless_an_etag_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    command = made(parameters=[NAME, AMOUNT], takes_body=True, is_conditional=True)
    for options, expected in (((), "*"), (("--if-match", '"e"'), '"e"')):
        runner = FakeRunner({})
        invoke(monkeypatch, command, runner, "x", "--amount", "1", *options)
        assert [match for _, match in runner.requests] == [expected]


def test_put_creates_what_does_not_exist_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    runner = FakeRunner({}, refusals=(412,))
    command = made(method="PUT", parameters=[NAME, AMOUNT], takes_body=True, is_conditional=True)
    assert invoke(monkeypatch, command, runner, "x", "--amount", "1").exit_code == 0
    assert [match for _, match in runner.requests] == ["*", None]


def test_deleting_asks_first_but_for_a_dry_run(monkeypatch: pytest.MonkeyPatch) -> None:
    command = made(method="DELETE", parameters=[NAME], is_change=True, confirm="Delete {name}?", done="Deleted: {name}.")
    refused = invoke(monkeypatch, command, FakeRunner({}), "x", "--json")
    assert refused.exit_code == 2 and "needs --yes" in refused.output
    runner = FakeRunner({"name": "x"})
    assert invoke(monkeypatch, command, runner, "x", "--yes").output == "Deleted: x.\n"
    tried = FakeRunner({"dry_run": True, "changes": [], "warnings": ["w"]})
    shown = invoke(monkeypatch, command, tried, "x", "--dry-run")
    assert shown.exit_code == 0 and "Nothing would change." in shown.output and "Warning: w" in shown.output
    assert tried.requests[0][0].dry_run and not runner.requests[0][0].dry_run


def test_fields_that_exclude_each_other_are_refused_before_anything_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    command = made(parameters=[AMOUNT, ON], takes_body=True, one_of=["amount", "enabled"], needs_one=True)
    for arguments in ((), ("--amount", "1", "--enabled")):
        done = invoke(monkeypatch, command, FakeRunner(), *arguments)
        assert done.exit_code == 2 and "Give exactly one of --amount and --enabled" in done.output


def test_quiet_prints_one_field_and_json_what_is_declared(monkeypatch: pytest.MonkeyPatch) -> None:
    command = made(method="GET", parameters=[NAME], quiet="token", only=["name"])
    document = {"name": "n", "token": "secret"}
    assert invoke(monkeypatch, command, FakeRunner(document), "x", "--quiet").output == "secret\n"
    assert msgspec.json.decode(invoke(monkeypatch, command, FakeRunner(document), "x", "--json").output) == {"name": "n"}
    listed = made(method="GET", path="/things", data="things")
    shown = invoke(monkeypatch, listed, FakeRunner({"data": [1], "next": None}), "--json").output
    assert msgspec.json.decode(shown) == {"things": [1], "next": None}


def test_lists_show_their_columns_and_the_cursor_of_the_next_page(monkeypatch: pytest.MonkeyPatch) -> None:
    search = Parameter(field="search", place="query", flags=["--search"], help="Text.")
    columns = [Column("name"), Column("made_at", "MADE", "time"), Column("disabled", "STATE", "state"), Column("rows", form="count")]
    command = made(method="GET", path="/things", parameters=[search], columns=columns, nothing="There are no things.")
    row = {"name": "a", "made_at": "2026-11-01T10:00:00+00:00", "disabled": True, "rows": 1234}
    shown = invoke(monkeypatch, command, FakeRunner({"data": [row], "next": "c"})).output
    assert "NAME  MADE              STATE     ROWS\na     2026-11-01 10:00  disabled  1,234\n" in shown and "--after c" in shown
    assert invoke(monkeypatch, command, FakeRunner({"data": [], "next": None})).output == "There are no things.\n"
    assert invoke(monkeypatch, command, FakeRunner({"data": [], "next": None}), "--search", "x").output == "None matches.\n"


def test_narrow_terminal_shows_the_first_columns_whole(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", "30")
    show.print_columns([Column("name"), Column("text"), Column("last")], [{"name": "n" * 12, "text": "t" * 12, "last": "l" * 12}])
    shown = capsys.readouterr()
    assert "n" * 12 in shown.out and "LAST" not in shown.out and "LAST" in shown.err


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("There is no team. GET /admin/v1/teams lists them.", "There is no team. `narthex teams list` lists them."),
        ("PATCH /admin/v1/providers/openai changes it.", "`narthex providers change openai` changes it."),
        ("`amount` is too small, unlike `other`.", "--amount is too small, unlike `other`."),
        ("GET /admin/v1/nothing/here", "GET /admin/v1/nothing/here"),
    ],
)
def test_refusals_name_commands_and_options(message: str, expected: str) -> None:
    assert OperationRefused(message, 404, CHANGE).format_message() == expected


def test_commands_without_a_database_use_the_session_of_a_gateway(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    environment = {"NARTHEX_HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path), "DATABASE_URL": "", "NARTHEX_ADMIN_KEY": ""}
    done = CliRunner().invoke(main, ["users", "list"], env=environment)
    assert done.exit_code == 1 and "Which database?" in done.stderr
    (tmp_path / "narthex").mkdir()
    session = {"url": "http://127.0.0.1:9", "token": "nxs-x", "name": "ann", "expires_at": "2099-01-01T00:00:00Z"}
    (tmp_path / "narthex" / "session.json").write_bytes(msgspec.json.encode(session))
    done = CliRunner().invoke(main, ["users", "list"], env=environment)
    assert done.exit_code == 1 and "The gateway on http://127.0.0.1:9 is not reachable" in done.stderr
    done = CliRunner().invoke(main, ["users", "list", "--url", "http://127.0.0.1:8"], env=environment)
    assert done.exit_code == 1 and "narthex login http://127.0.0.1:8" in done.stderr
    done = CliRunner().invoke(main, ["users", "list", "--url", "http://127.0.0.1:8"], env={**environment, "NARTHEX_ADMIN_KEY": "nx-k"})
    assert done.exit_code == 1 and "The gateway on http://127.0.0.1:8 is not reachable" in done.stderr


@pytest.mark.parametrize(
    ("gateway", "url", "refusal"),
    [
        (
            "",
            "http://gateway.test:8787",
            "without TLS whoever is on the way can read it. Use https, or set NARTHEX_ADMIN_URL=http://gateway.test",
        ),
        ("", "http://127.0.0.1.evil.test:9", "without TLS"),
        ("", "http://127.0.0.1@evil.test:9", "without TLS"),
        (
            "https://gateway.test",
            "https://evil.test",
            "is for the gateway at https://gateway.test, as NARTHEX_ADMIN_URL says",
        ),
        ("https://gateway.test", "http://gateway.test", "is not sent to http://gateway.test"),
        ("https://gateway.test", "https://gateway.test:8443", "is not sent to https://gateway.test:8443"),
        ("https://gateway.test", "http://127.0.0.1:9", "is not sent to http://127.0.0.1:9"),
        ("", "https://gateway.test", ""),
        ("", "http://127.0.0.1:9/", ""),
        ("", "http://localhost:9", ""),
        ("http://gateway.test:8787/", "http://gateway.test:8787", ""),
        ("https://Gateway.test:443", "https://gateway.test/", ""),
    ],
)
def test_the_admin_key_is_sent_to_its_gateway_alone(monkeypatch: pytest.MonkeyPatch, gateway: str, url: str, refusal: str) -> None:
    monkeypatch.setenv("NARTHEX_ADMIN_KEY", "nx-k")
    monkeypatch.setenv("NARTHEX_ADMIN_URL", gateway)
    if not refusal:
        assert named_access(url) == AdminAccess(url.rstrip("/"), "nx-k")
        return
    with pytest.raises(OperatorError, match=re.escape(refusal)):
        named_access(url)
