"""Every command beside a running service: the text for people, the JSON for programs, and the exit status."""

import asyncio
import contextlib
import functools
import json
import os
import pty
import re
import secrets
import select
import shlex
import signal
import subprocess
import time
import tomllib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import asyncpg
import httpx2
import jsonschema
import pytest
from click.testing import CliRunner, Result

from app.cli import main
from app.doctor import database
from app.domain import uuid7
from app.domain.callers import ALL_DETECTORS
from app.store.postgres.database import connect
from app.store.schema.migrations_folder import newest_revision
from tests.support.processes.service import NARTHEX, PROCESS_TIMEOUT_S, REQUEST_TIMEOUT_S, Service
from tests.support.processes.service_inspection import database_url
from tests.support.processes.wait_until import GENEROUS_S, block_until
from tests.support.scripted_engine import ReceivedRequest, ScriptedEngine, chunk, completion, stream_script

ROLES_PAGE = Path(__file__).parents[3] / "docs" / "roles.md"


def run_command(service: Service, *arguments: str, stdin: str = "") -> Result:
    """A command in this process, which saves a second of start-up. In a thread, if an engine of the test's event loop must answer."""
    return CliRunner().invoke(main, list(arguments), input=stdin, prog_name="narthex", env=dict(service.environment))


def run_json_command(service: Service, *arguments: str, stdin: str = "", status: int = 0) -> Any:
    """The output of a command with --json: one document on standard output, and nothing else there."""
    done = run_command(service, *arguments, "--json", stdin=stdin)
    assert done.exit_code == status, done.output
    return json.loads(done.stdout)


def test_status_reports_processes_stores_and_configuration(service: Service) -> None:
    block_until(lambda: writer_status(service)["connected"])  # the writer reports once a second
    # Other tests end connections of this service and flood it, after which it is unhealthy for seconds.
    block_until(lambda: json.loads(run_command(service, "status", "--json").stdout)["healthy"])
    found = run_json_command(service, "status")
    assert found["ready"] and found["address"] == service.url and found["home"] == str(service.home)
    running = {each["name"]: each["pid"] for each in found["processes"] if each["running"]}
    assert running["gateway-0"] == service.pid("gateway-0") and {"supervisor", "writer", "postgres", "valkey"} <= running.keys()
    assert found["gateway"]["state"] == "ready" and found["gateway"]["configuration"] >= 1
    assert found["postgres"]["reachable"] and found["redis"]["reachable"] and found["writer"]["running"]
    assert {each["version"] <= found["configuration"]["version"] for each in found["workers"]} == {True}
    shown = run_command(service, "status")
    assert shown.exit_code == 0 and f"The gateway on {service.url} is ready." in shown.stdout, shown.stdout
    for text in ("gateway-1", "Configuration  version", "PostgreSQL     1", "Valkey ", "Spool ", "Writer         connected"):
        assert text in shown.stdout
    assert "\x1b" not in shown.stdout
    elsewhere = run_command(replace(service, environment={**service.environment, "NARTHEX_PORT": "9"}), "status")
    assert "Nothing answers on http://127.0.0.1:9. This home's gateway runs: set NARTHEX_PORT" in elsewhere.stdout, elsewhere.stdout


def writer_status(service: Service) -> Any:
    # Exit status 1 until the writer has reported.
    return json.loads(run_command(service, "status", "--json").stdout)["writer"] or {"connected": False, "rows": 0}


def test_doctor_finds_nothing_wrong_with_a_running_service(service: Service) -> None:
    block_until(lambda: writer_status(service)["connected"])
    # Engines and limits belong to other tests, some of which configure one that does not exist.
    shown = run_command(service, "doctor", "--json")
    examined = json.loads(shown.stdout)
    assert shown.exit_code == (0 if examined["healthy"] else 1)
    found = [each for each in examined["findings"] if each["area"] not in ("engines", "limits")]
    assert [each for each in found if each["severity"] == "error"] == []
    assert {each["area"] for each in found} == {"settings", "processes", "machine", "gateway", "postgres", "redis", "records"}
    ok_messages = {each["area"]: each["message"] for each in found if each["severity"] == "ok"}
    assert "tables are current" in ok_messages["postgres"] and "Valkey" in ok_messages["redis"]
    shown = service.run("doctor")
    assert f"✓ postgres: {ok_messages['postgres'][:12]}" in shown.stdout
    assert shown.stdout.rstrip().splitlines()[-1].endswith(("fine.", "error.", "errors.", "warning.", "warnings."))


def test_doctor_reports_every_problem_where_nothing_runs(service: Service, tmp_path: Path) -> None:
    unreachable = {"NARTHEX_HOME": str(tmp_path), "NARTHEX_PORT": "9", "DATABASE_URL": "postgresql://me:secret@127.0.0.1:9/x"}
    broken = Service(
        tmp_path, "", service.process, {**service.environment, **unreachable, "REDIS_URL": "redis://127.0.0.1:9", "NARTHEX_WORKERS": "x"}
    )
    (tmp_path / "first-key").write_text("nx-1")
    (tmp_path / "first-key").chmod(0o644)
    found = run_json_command(broken, "doctor", status=1)
    assert found["healthy"] is False
    wrong = {each["area"]: each for each in found["findings"] if each["severity"] == "error"}
    assert wrong.keys() == {"settings", "processes", "machine", "gateway", "postgres", "redis"}
    assert "NARTHEX_WORKERS='x'" in wrong["settings"]["message"] and "first-key" in wrong["machine"]["message"]
    assert all(each["advice"] for each in wrong.values())
    shown = run_command(broken, "doctor")
    assert shown.exit_code == 1 and "secret" not in shown.output and "6 errors" in shown.stdout


async def test_migrate_creates_tables_that_the_doctor_finds_current(service: Service) -> None:
    blank = await _blank_database(service)
    before = database.diagnose(await database.collect_facts(blank))
    assert [each.message for each in before] == ["The database has no tables of Narthex."]
    beside = Service(service.home, service.url, service.process, {**service.environment, "DATABASE_URL": blank})
    migrated = await asyncio.to_thread(run_json_command, beside, "migrate")
    assert migrated == {"before": None, "now": newest_revision(), "changed": True}
    again = await asyncio.to_thread(run_command, beside, "migrate")
    assert again.exit_code == 0 and "up to date already" in again.stdout
    assert [each.severity for each in database.diagnose(await database.collect_facts(blank))] == ["ok"]


async def _blank_database(service: Service) -> str:
    name, url = f"blank_{secrets.token_hex(4)}", database_url(service)
    connection: asyncpg.Connection[Any] = await connect(url)
    try:
        await connection.execute(f"CREATE DATABASE {name}")
    finally:
        await connection.close()
    return url.replace("/narthex?", f"/{name}?")


def test_configuration_file_is_dry_run_applied_and_exported(service: Service) -> None:
    file = '[models.typed]\ntargets = [{ provider = "sandbox", model = "sandbox" }]\nfallbacks = ["sandbox-slow"]\n'
    dry_run = run_json_command(service, "apply", "-", "--dry-run", stdin=file)
    assert dry_run["applied"] is False and "+[models.typed]" in dry_run["difference"]
    assert "typed" not in run_json_command(service, "export")["models"]
    applied = run_json_command(service, "apply", "-", "--yes", stdin=file)
    assert applied["applied"] is True and "Applied as version" in applied["message"]
    assert run_json_command(service, "apply", "-", "--yes", stdin=file) == {
        "applied": False,
        "difference": "",
        "message": "Nothing to change.",
        "warnings": [],
    }
    exported = run_command(service, "export")
    assert tomllib.loads(exported.stdout) == run_json_command(service, "export")
    assert exported.stdout.startswith("#:schema narthex.schema.json\n")
    schema = run_command(service, "schema").stdout
    jsonschema.Draft7Validator(json.loads(schema)).validate(tomllib.loads(exported.stdout))  # pyright: ignore[reportUnknownMemberType]
    assert run_json_command(service, "export")["models"]["typed"]["fallbacks"] == ["sandbox-slow"]
    wrong = run_command(
        service, "apply", "-", "--yes", "--json", stdin='[models.typed]\ntargets = [{ provider = "nobody", model = "x" }]\n'
    )
    assert wrong.exit_code == 1 and wrong.stdout == "" and "nobody" in json.loads(wrong.stderr)["error"]["message"]
    not_utf8 = subprocess.run(
        [NARTHEX, "apply", "-", "--yes"], input=b"\xff", env=dict(service.environment), capture_output=True, check=False
    )
    assert not_utf8.returncode == 1 and b"UTF-8" in not_utf8.stderr


def test_a_version_that_does_not_exist_is_refused_with_those_that_do(service: Service) -> None:
    newest = run_json_command(service, "history", "--limit", "1")["versions"][0]["version"]
    for command in ("history", "rollback"):
        unknown = run_command(service, command, str(newest + 10_000))
        known = re.search(r"The history has versions (?:from )?\d+ to (\d+)", unknown.stderr)
        # For a rollback there are also versions of credentials and nodes, which the history does not list.
        assert unknown.exit_code == 1 and known and int(known[1]) >= newest, unknown.stderr
        for text in ("abc", "9" * 30):
            wrong = run_command(service, command, text)
            assert wrong.exit_code == 2 and f"'{text}' is not the number of a version, such as 41" in wrong.stderr


def test_the_newest_change_is_taken_back_without_its_number(service: Service) -> None:
    before = run_command(service, "export").stdout
    service.apply('[models.mistaken]\ntargets = [{ provider = "sandbox", model = "sandbox" }]\n')
    assert "mistaken" in run_command(service, "export").stdout
    taken_back = run_command(service, "rollback", "previous", "--yes")
    assert taken_back.exit_code == 0 and "mistaken" in taken_back.stdout
    assert run_command(service, "export").stdout == before


def test_analytics_names_its_own_options_in_errors(service: Service) -> None:
    for arguments, message in (
        (("--by", "nonsense"), "Error: --by may be team, key, "),
        (("--time-zone", "Mars"), "Error: --time-zone: there is no time zone 'Mars'"),
        (("--since", "300d", "--interval", "minute"), "choose a later --since, or hours."),
    ):
        refused = run_command(service, "analytics", *arguments)
        assert refused.exit_code == 2 and message in refused.stderr and "`" not in refused.stderr


def test_droppable_fields_are_listed_and_exported(service: Service) -> None:
    file = """
        [providers.listed]
        adapter = "openai"
        base_url = "http://127.0.0.1:9"
        drop = ["logit_bias", "seed"]
        [models.listed]
        targets = [{ provider = "listed", model = "x" }]
        drop = "all"
    """
    run_json_command(service, "apply", "-", "--yes", stdin=file)
    assert {each["name"]: each["drop"] for each in run_json_command(service, "models")["models"]}["listed"] == "all"
    assert any(line.split() == ["listed", "listed/x", "-", "all"] for line in run_command(service, "models").stdout.splitlines())
    drops = {each["name"]: each["drop"] for each in run_json_command(service, "providers")["providers"]}
    assert (drops["listed"], drops["sandbox"]) == (["logit_bias", "seed"], [])
    assert any(
        line.startswith("listed ") and line.endswith("  logit_bias, seed") for line in run_command(service, "providers").stdout.splitlines()
    )
    exported = run_json_command(service, "export")
    assert (exported["models"]["listed"]["drop"], exported["providers"]["listed"]["drop"]) == ("all", ["logit_bias", "seed"])


def test_models_providers_and_adapters_are_listed(service: Service) -> None:
    models = {each["name"]: each for each in run_json_command(service, "models")["models"]}
    assert models["sandbox"]["targets"][0]["provider"] == "sandbox" and models["sandbox"]["fallbacks"] == []
    assert any(
        line.split() == ["sandbox-slow", "sandbox/sandbox-slow", "-", "-"] for line in run_command(service, "models").stdout.splitlines()
    )
    listed = run_json_command(service, "providers")
    assert "sandbox" in [each["name"] for each in listed["providers"]]
    assert {"openai", "vllm", "sandbox"} <= {each["name"] for each in listed["adapters"]}
    shown = run_command(service, "providers").stdout
    assert "PROVIDER" in shown and "Adapters that a [providers.NAME] may name, and their own options:" in shown
    assert run_json_command(service, "providers", "--adapters") == {"adapters": listed["adapters"]}


def test_key_is_created_listed_changed_rotated_and_revoked(service: Service) -> None:
    restrictions = ("--model", "sandbox*", "--network", "127.0.0.0/8", "--expires", "30d")
    created = run_json_command(service, "keys", "create", "--team", "typing", "--name", "one", *restrictions)
    assert created["key"].startswith(created["prefix"] + "-") and (created["team"], created["models"]) == ("typing", ["sandbox*"])
    assert _models_status(service, created["key"]) == 200
    listed = _listed_key(service, created["prefix"])
    assert (listed["models"], listed["networks"], listed["routes"], listed["revoked_at"]) == (["sandbox*"], ["127.0.0.0/8"], None, None)
    assert listed["expires_at"] is not None
    shown = run_command(service, "keys", "list", "--team", "typing").stdout
    assert created["prefix"] in shown and "models sandbox*; from 127.0.0.0/8" in shown and "until 20" in shown

    changed = run_json_command(service, "keys", "change", created["prefix"], "--any-model", "--name", "two", "--never-expires")
    assert changed == {"changed": created["prefix"], "models": None, "name": "two", "expires_at": None}
    listed = _listed_key(service, created["prefix"])
    assert (listed["models"], listed["name"], listed["networks"], listed["expires_at"]) == (None, "two", ["127.0.0.0/8"], None)

    rotated = run_json_command(service, "keys", "rotate", created["prefix"], "--overlap", "1h")
    assert rotated["replaces"] == created["prefix"] and _models_status(service, rotated["key"]) == 200 == _models_status(
        service, created["key"]
    )
    assert _listed_key(service, created["prefix"])["replaced_by"] == rotated["prefix"]
    assert _listed_key(service, rotated["prefix"])["networks"] == ["127.0.0.0/8"]

    assert run_json_command(service, "keys", "revoke", created["prefix"], "--yes") == {"revoked": created["prefix"]}
    block_until(lambda: _models_status(service, created["key"]) == 401)
    assert created["prefix"] not in run_command(service, "keys", "list").stdout
    assert "revoked 20" in run_command(service, "keys", "list", "--all").stdout
    for command in (("revoke", "--yes"), ("rotate",)):
        again = run_command(service, "keys", *command, created["prefix"])
        assert again.exit_code == 1 and f"No valid key begins with {created['prefix']!r}" in again.stderr
    assert (
        run_command(service, "keys", "list", "--team", "nobody").stdout
        == "There is no valid key of team nobody (--all shows the others).\n"
    )


def test_quiet_prints_only_the_key(service: Service) -> None:
    created = service.run("keys", "create", "--team", "typing", "--quiet")
    key = created.stdout.strip()
    assert (created.returncode, created.stdout, created.stderr) == (0, key + "\n", "")
    rotated = run_command(service, "keys", "rotate", key, "--overlap", "0s", "--quiet")
    assert rotated.stderr == "" and _models_status(service, rotated.stdout.strip()) == 200
    block_until(lambda: _models_status(service, key) == 401)


def test_teams_set_changes_the_content_policy(service: Service) -> None:
    changed = run_json_command(service, "teams", "set", "typists", "--content", "none")
    mask = changed.pop("mask")
    restrictions: dict[str, Any] = {"models": None, "routes": None, "networks": None, "fallbacks": "any", "limits": []}
    assert changed == {"name": "typists", "content": "none", "drop": [], "priority": 0, "search": False, **restrictions}
    assert mask["patterns"] == {}
    run_json_command(service, "keys", "create", "--team", "typists")
    teams = {each["name"]: each for each in run_json_command(service, "teams", "list")["teams"]}
    assert (teams["typists"]["content"], teams["typists"]["keys"]) == ("none", 1)
    assert "redacted" in run_command(service, "teams", "set", "typists", "--content", "redacted").stdout
    assert any(line.split()[:3] == ["typists", "redacted", "1"] for line in run_command(service, "teams", "list").stdout.splitlines())


def test_teams_set_changes_what_the_keys_of_a_team_are_held_to(service: Service) -> None:
    def set_terms(*options: str) -> dict[str, Any]:
        changed = run_json_command(service, "teams", "set", "held typists", *options)
        return {name: changed[name] for name in ("models", "routes", "networks", "limits", "fallbacks")}

    terms = set_terms(
        *("--model", "sandbox*", "--route", "/v1/*", "--network", "127.0.0.0/8", "--network", "::1/128", "--fallbacks", "allowed"),
        *(
            "--limit",
            "requests=100/minute",
            "--limit",
            "cost_usd=2.5/day,model=sandbox,time_zone=Europe/Berlin",
            "--limit",
            "concurrency=4",
        ),
    )
    assert terms == {
        "models": ["sandbox*"],
        "routes": ["/v1/*"],
        "networks": ["127.0.0.0/8", "::1/128"],
        "fallbacks": "allowed",
        "limits": [
            {"resource": "requests", "amount": 100.0, "per": "minute"},
            {"resource": "cost_usd", "amount": 2.5, "per": "day", "model": "sandbox", "time_zone": "Europe/Berlin"},
            {"resource": "concurrency", "amount": 4.0},
        ],
    }
    key = run_json_command(service, "keys", "create", "--team", "held typists")["key"]
    block_until(lambda: _models_status(service, key) == 200)
    refused = run_command(service, "keys", "create", "--team", "held typists", "--model", "scripted")
    assert refused.exit_code == 1 and "is more than the keys of team" in refused.stderr
    # What is not given stays.
    assert set_terms("--priority", "5") == terms
    shown = run_command(service, "teams", "set", "held typists", "--limit", "requests=7/hour").stdout
    assert "held to models sandbox*" in shown and "limits 7 requests per hour" in shown and "fallbacks that they may use" in shown
    assert set_terms("--any-model", "--any-route", "--any-network", "--no-limits", "--fallbacks", "any") == {
        **dict.fromkeys(("models", "routes", "networks")),
        "limits": [],
        "fallbacks": "any",
    }


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--limit", "requests"), "is not RESOURCE=AMOUNT/PERIOD"),
        (("--limit", "tokens=many/day"), "is not RESOURCE=AMOUNT/PERIOD"),
        (("--limit", "requests=5/year"), "PERIOD one of second, minute"),
        (("--limit", "requests=5/day,models=x"), "is not model=NAME or time_zone=ZONE"),
        (("--limit", "requests=5"), "per is required"),
        (("--limit", "concurrency=5/day"), "has no period"),
        (("--limit", "requests=5/day", "--no-limits"), "exclude each other"),
        (("--model", "x", "--any-model"), "exclude each other"),
        (("--network", "10.0.0.0/99"), "write it as 10.0.0.0/8"),
        (("--route", "/admin/v1/keys"), "route"),
        ((), "Nothing to set"),
    ],
    ids=["no amount", "no number", "no period", "no field", "per", "a period", "limits", "models", "network", "route", "nothing"],
)
def test_teams_set_says_what_is_wrong(service: Service, options: tuple[str, ...], message: str) -> None:
    refused = run_command(service, "teams", "set", "unset typists", *options)
    assert refused.exit_code in (1, 2) and message in refused.stderr
    assert "unset typists" not in run_command(service, "teams", "list").stdout


def test_teams_set_changes_the_rules_of_masked_content(service: Service) -> None:
    def set_masks(*options: str) -> Any:
        return run_json_command(service, "teams", "set", "maskers", *options)["mask"]

    assert set_masks("--content", "masked", "--mask", "email", "--mask-pattern", "staff=E[0-9]{6}") == {
        "detectors": ["email"],
        "patterns": {"staff": "E[0-9]{6}"},
    }
    assert set_masks("--mask-pattern", "case=C[0-9]+")["patterns"] == {"staff": "E[0-9]{6}", "case": "C[0-9]+"}
    assert set_masks("--mask", "all", "--mask-pattern", "staff=") == {"detectors": list(ALL_DETECTORS), "patterns": {"case": "C[0-9]+"}}
    refused = run_command(service, "teams", "set", "maskers", "--mask-pattern", "staff=(?=x)")
    assert refused.exit_code == 1 and "not a regular expression of RE2" in refused.stderr
    exported = run_command(service, "export").stdout
    assert "[teams.maskers.mask.patterns]" in exported


def test_service_account_gets_a_token_and_roles_and_loses_them(service: Service) -> None:
    def session_status(token: str, path: str = "session") -> int:
        headers = {"authorization": f"Bearer {token}"}
        return httpx2.get(f"{service.url}/admin/v1/{path}", headers=headers, trust_env=False, verify=False).status_code

    run_json_command(service, "teams", "set", "cli accounts", "--priority", "0")
    created = run_json_command(service, "service-accounts", "create", "cli/one", "--role", "viewer", "--team", "cli accounts")
    assert created["roles"] == [{"role": "viewer", "team": "cli accounts"}]
    assert run_command(service, "service-accounts", "create", "cli/one").exit_code == 1
    token = run_json_command(service, "service-accounts", "tokens", "create", "cli/one", "--name", "ci", "--expires", "30d")
    assert session_status(token["token"]) == 200 and session_status(token["token"], "users") == 403
    by_name = ("--service-account", "cli/one")
    given = run_json_command(service, "roles", "grant", "auditor", *by_name)
    assert (given["role"], given["team"], given["service_account"]) == ("auditor", None, "cli/one")
    assert session_status(token["token"], "users") == 200
    shown = run_command(service, "roles", "list", *by_name).stdout
    assert "service account cli/one" in shown and "viewer" in shown and "auditor" in shown
    assert run_json_command(service, "roles", "revoke", "auditor", *by_name) == {"revoked": given["id"]}
    again = run_command(service, "roles", "revoke", "auditor", *by_name)
    assert again.exit_code == 1 and "was not given the role auditor of the whole company" in again.stderr
    assert run_json_command(service, "service-accounts", "disable", "cli/one") == {"name": "cli/one", "disabled": True}
    assert session_status(token["token"]) == 401
    assert run_command(service, "service-accounts", "enable", "cli/one").stdout == "cli/one is enabled.\n"
    assert session_status(token["token"]) == 200
    assert "viewer of cli accounts" in run_command(service, "service-accounts", "list", "--search", "cli/").stdout
    run_json_command(service, "service-accounts", "tokens", "revoke", "cli/one", token["id"], "--yes")
    assert session_status(token["token"]) == 401
    [listed] = run_json_command(service, "service-accounts", "tokens", "list", "cli/one")["tokens"]
    assert listed["name"] == "ci" and listed["revoked_at"] is not None
    assert run_command(service, "service-accounts", "delete", "cli/one", "--yes").stdout == "Deleted.\n"
    events = run_json_command(service, "audit", "--resource", "service_account", "--name", "cli/one")["events"]
    assert [(each["action"], each["via"]) for each in events] == [(each, "cli") for each in ("delete", "update", "update", "create")]


def test_first_steps_of_the_roles_page_work_before_anybody_has_signed_in(service: Service) -> None:
    steps = ROLES_PAGE.read_text("utf-8").partition("## First steps")[2].partition("## Tokens")[0]
    *commands, last = (shlex.split(line)[1:] for line in re.findall(r"^narthex .*", steps, re.MULTILINE))
    assert len(commands) >= 6
    for command in commands:
        done = run_command(service, *command)
        assert done.exit_code == 0, f"{command}: {done.output}"
        if "tokens" in command:
            answer = httpx2.get(f"{service.url}/admin/v1/session", headers={"authorization": f"Bearer {done.stdout.strip()}"}, verify=False)
            assert [each["role"] for each in answer.json()["roles"]] == ["editor"]
    nobody = run_command(service, *last)
    assert "--user" in last and nobody.exit_code == 1 and "A user exists from the first sign-in on." in nobody.stderr
    for command in (
        ("service-accounts", "delete", "terraform", "--yes"),
        *(
            ("roles", "revoke", *options)
            for options in (("owner", "--group", "platform"), ("admin", "--team", "search", "--group", "search-leads"))
        ),
    ):
        assert run_command(service, *command).exit_code == 0


def test_user_is_listed_shown_disabled_and_enabled(service: Service) -> None:
    async def sign_in() -> None:  # a user comes by signing in, which is tested elsewhere
        connection = await connect(database_url(service))
        insert = "INSERT INTO principals (id, kind, name, issuer, subject) VALUES ($1, 'user', 'ann', 'https://issuer.test', 'ann')"
        await connection.execute(insert, uuid7.mint())
        await connection.close()

    asyncio.run(sign_in())
    run_json_command(service, "roles", "grant", "viewer", "--user", "ann")
    [user] = run_json_command(service, "users", "list", "--search", "ann")["users"]
    assert user["roles"][0]["role"] == "viewer" and run_json_command(service, "users", "show", user["id"]) == user
    shown = run_command(service, "users", "show", "ann").stdout
    assert "state: enabled" in shown and "role: viewer of the whole company" in shown
    assert run_json_command(service, "users", "disable", "ann") == {"name": "ann", "disabled": True}
    assert "state: disabled" in run_command(service, "users", "show", "ann").stdout
    assert run_command(service, "users", "enable", user["id"]).stdout == "ann is enabled.\n"
    unknown = run_command(service, "users", "show", "nobody")
    assert unknown.exit_code == 1 and "There is no user 'nobody'" in unknown.stderr


def test_chat_prints_the_answer_on_stdout_and_usage_on_stderr(service: Service) -> None:
    shown = service.run("chat", "sandbox", "Hello", "there", "--max-tokens", "12")
    assert shown.returncode == 0 and "Narthex" in shown.stdout and shown.stdout.endswith("\n")
    assert (
        "Cut off" in shown.stderr
        and "12 out" in shown.stderr
        and "served by sandbox/sandbox" in shown.stderr
        and "inference 0" in shown.stderr
    )
    document = run_json_command(service, "chat", "sandbox", "-", "--no-stream", "--temperature", "0", stdin="From a pipe.")
    assert "From a pipe." in document["text"] and document["first_token_s"] is None and document["served"] == "sandbox/sandbox"
    assert document["usage"]["output_tokens"] > 0 and document["finish_reason"] == "stop" and document["inference_id"]
    # Without a message argument, standard input is the message.
    assert "Piped." in run_command(service, "chat", "sandbox", stdin="Piped.").stdout


def test_chat_prints_gateway_refusals_as_sentences(service: Service, tmp_path: Path) -> None:
    unknown = run_command(service, "chat", "nothing", "hi", "--json")
    error = json.loads(unknown.stderr)["error"]
    assert unknown.exit_code == 1 and unknown.stdout == "" and error["status"] == 404 and "This key may use: " in error["message"]
    refused = run_command(service, "chat", "sandbox", "hi", "--key", "nx-000000000000-x")
    assert refused.exit_code == 1 and "not valid" in refused.stderr and "--key" in refused.stderr
    unreadable = run_command(service, "chat", "sandbox", "hi", "--key", "schlüssel")
    assert unreadable.exit_code == 1 and "cannot be a key" in unreadable.stderr and "schl" not in unreadable.stderr
    unreachable = run_command(service, "chat", "sandbox", "hi", "--url", "http://127.0.0.1:9/v1")
    assert (
        unreachable.exit_code == 1 and "Nothing answers on http://127.0.0.1:9 " in unreachable.stderr and "narthex up" in unreachable.stderr
    )
    elsewhere = Service(tmp_path, "", service.process, {**service.environment, "NARTHEX_HOME": str(tmp_path)})
    keyless = run_command(elsewhere, "chat", "sandbox", "hi")
    assert keyless.exit_code == 1 and "No API key found" in keyless.stderr


async def test_chat_prints_reasoning_tool_calls_and_refusals(service: Service, engine: ScriptedEngine) -> None:
    call = {"index": 0, "id": "call_1", "type": "function", "function": {"name": "weather", "arguments": '{"city"'}}
    engine.script = stream_script(
        chunk({"role": "assistant", "reasoning_content": "Let me "}),
        chunk({"reasoning_content": "think."}),
        chunk({"content": "It is\x1b[31m raining."}),
        chunk({"tool_calls": [call]}),
        chunk({"tool_calls": [{"index": 0, "function": {"arguments": ': "Oslo"}'}}]}),
        chunk({}, "tool_calls"),
        chunk(None, usage={"prompt_tokens": 3, "completion_tokens": 9, "completion_tokens_details": {"reasoning_tokens": 4}}),
    )
    shown = await asyncio.to_thread(run_command, service, "chat", "scripted", "How is it?", "--system", "Be brief.")
    assert shown.stdout == 'It is\x1b[31m raining.\n→ weather({"city": "Oslo"})\n'
    assert shown.stderr.startswith("Let me think.\n") and "3 tokens in, 9 out (4 reasoning)" in shown.stderr
    assert _chat_requests(engine)[0]["messages"] == [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "How is it?"}]
    document = await asyncio.to_thread(run_json_command, service, "chat", "scripted", "How is it?")
    assert (document["reasoning"], document["text"]) == ("Let me think.", "It is\x1b[31m raining.")
    assert document["tool_calls"] == [{"id": "call_1", "name": "weather", "arguments": '{"city": "Oslo"}'}]

    async def refuse(request: ReceivedRequest) -> None:
        await request.respond(200, json.dumps(completion(None, refusal="I may not.")).encode())

    engine.script = refuse
    refused = await asyncio.to_thread(run_command, service, "chat", "scripted", "hi", "--no-stream")
    assert refused.exit_code == 0 and refused.stdout == "Refused: I may not.\n"


async def test_chat_reports_a_truncated_stream(service: Service, engine: ScriptedEngine) -> None:
    async def break_midway(request: ReceivedRequest) -> None:
        request.begin_stream()
        request.send_event(chunk({"content": "So far"}))
        await request.writer.drain()
        request.reset_connection()

    engine.script = break_midway
    broken = await asyncio.to_thread(run_command, service, "chat", "scripted", "hi")
    assert (broken.exit_code, broken.stdout) == (1, "So far\n") and "ended early" in broken.stderr


async def test_chat_prints_the_retry_after_of_a_busy_engine(service: Service, engine: ScriptedEngine) -> None:
    async def busy(request: ReceivedRequest) -> None:
        await request.respond(429, b'{"error": {"message": "Too much to do."}}', "content-type: application/json\r\nretry-after: 7\r\n")

    engine.script = busy
    refused = await asyncio.to_thread(run_command, service, "chat", "scripted", "hi")
    assert refused.exit_code == 1 and "Too much to do." in refused.stderr and refused.stderr.endswith("Try again in 7 s.\n")
    error = json.loads((await asyncio.to_thread(run_command, service, "chat", "scripted", "hi", "--json")).stderr)["error"]
    assert (error["status"], error["retry_after_s"]) == (429, 7)


def test_chat_prints_a_limit_message_without_a_second_retry_hint(service: Service) -> None:
    """The message contains the time already."""
    rule = '[[limits]]\nname = "one an hour"\nscope = { team = "chat cli" }\nresource = "requests"\namount = 1\nper = "hour"\n'
    key = run_command(service, "keys", "create", "--team", "chat cli", "--quiet").stdout.strip()
    assert run_command(service, "apply", "--yes", "-", stdin=rule).exit_code == 0
    try:
        assert run_command(service, "chat", "sandbox", "hi", "--key", key).exit_code == 0
        refused = run_command(service, "chat", "sandbox", "hi", "--key", key)
        error = json.loads(run_command(service, "chat", "sandbox", "hi", "--key", key, "--json").stderr)["error"]
    finally:
        assert run_command(service, "apply", "--yes", "--prune", "-", stdin="limits = []\n").exit_code == 0
    assert refused.exit_code == 1 and "'one an hour'" in refused.stderr and "It passes in" in refused.stderr
    assert "Try again" not in refused.stderr
    assert error["code"] == "requests_limit_reached" and error["retry_after_s"] > 60


async def test_ctrl_c_stops_the_answer_and_disconnects_from_the_engine(service: Service, engine: ScriptedEngine) -> None:
    disconnected = asyncio.Event()

    async def endless(request: ReceivedRequest) -> None:
        request.begin_stream()
        while not request.disconnected.is_set():  # goes on, so that no timeout ends the stream first
            request.send_event(chunk({"content": "And then"}))
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(request.disconnected.wait(), 0.2)
        disconnected.set()

    engine.script = endless
    process = await asyncio.create_subprocess_exec(
        NARTHEX,
        "chat",
        "scripted",
        "hi",
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=dict(service.environment),
        # Tests that run in the background of a shell inherit SIGINT ignored.
        preexec_fn=functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
    )
    assert process.stdout is not None
    assert await asyncio.wait_for(process.stdout.readexactly(8), PROCESS_TIMEOUT_S) == b"And then"
    process.send_signal(signal.SIGINT)
    _, stderr = await asyncio.wait_for(process.communicate(), PROCESS_TIMEOUT_S)
    assert (process.returncode, stderr) == (130, b"Stopped.\n")
    await asyncio.wait_for(disconnected.wait(), GENEROUS_S)


async def test_interactive_chat_sends_its_history_and_stays_one_episode(service: Service, engine: ScriptedEngine) -> None:
    terminal, end = pty.openpty()
    environment = {**service.environment, "TERM": "dumb", "NO_COLOR": "1"}
    process = await asyncio.to_thread(_start_interactive_chat, end, environment)
    answers = iter(("One\x07.", "Two."))

    async def respond_with_next_answer(request: ReceivedRequest) -> None:
        if not request.body:  # a probe of the gateway
            await request.respond_completion()
            return
        await stream_script(chunk({"role": "assistant", "content": next(answers)}), chunk({}, "stop"))(request)

    engine.script = respond_with_next_answer
    shown = ""
    try:
        await asyncio.to_thread(_read_until, terminal, "> ")
        for message in ("first", "second"):
            os.write(terminal, f"{message}\n".encode())
            shown += await asyncio.to_thread(_read_until, terminal, "inference ", "> ")
        os.write(terminal, b"\x04")
        assert await asyncio.to_thread(process.wait, PROCESS_TIMEOUT_S) == 0
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        os.close(terminal)
    assert "One\ufffd." in shown and "Two." in shown
    first, second = (body["messages"] for body in _chat_requests(engine))
    assert first == [{"role": "user", "content": "first"}]
    assert [each["content"] for each in second] == ["first", "One\x07.", "second"]
    recorded = [await service.wait_for_record(id) for id in re.findall(r"inference ([0-9a-f-]{36})", shown)]
    assert len(recorded) == 2 and len({each["episode_id"] for each in recorded}) == 1


def _chat_requests(engine: ScriptedEngine) -> list[dict[str, Any]]:
    """The bodies of the chats it received, without the gateway's probes."""
    return [request.body for request in engine.requests if request.body]


def _start_interactive_chat(end: int, environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen([NARTHEX, "chat", "scripted"], stdin=end, stdout=end, stderr=end, env=environment, start_new_session=True)
    finally:
        os.close(end)


def _read_until(terminal: int, *texts: str) -> str:
    """Returns what a terminal shows until it has shown each of these texts, in this order."""
    raw, deadline = b"", time.monotonic() + PROCESS_TIMEOUT_S
    while not re.search(".*".join(re.escape(text) for text in texts), raw.decode("utf-8", "replace"), re.DOTALL):
        assert time.monotonic() < deadline, raw
        if select.select([terminal], [], [], 0.1)[0]:
            raw += os.read(terminal, 4096)
    return raw.decode("utf-8", "replace")


def _models_status(service: Service, key: str) -> int:
    headers = {"authorization": f"Bearer {key}"}
    return httpx2.get(f"{service.url}/v1/models", headers=headers, timeout=REQUEST_TIMEOUT_S, trust_env=False).status_code


def _listed_key(service: Service, prefix: str) -> Any:
    return next(each for each in run_json_command(service, "keys", "list", "--all")["keys"] if each["prefix"] == prefix)
