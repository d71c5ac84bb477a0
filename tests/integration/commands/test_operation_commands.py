"""Commands made from operations, beside a running service: in their own process, over REST, and with what had no command before."""

import json
from dataclasses import replace
from typing import Any

import pytest
from click.testing import CliRunner, Result

from app.cli import main
from app.cli.operations.manifest import load_manifest
from tests.support.processes.service import Service

# Lists and documents that answer at once, and that nothing else in the service changes while they are compared.
SHOWN = (
    ("roles", "permissions"),
    ("users", "list"),
    ("service-accounts", "list"),
    ("webhooks", "list"),
    ("limits", "list"),
    ("limits", "overrides"),
    ("snapshots", "list", "--limit", "1"),
    ("prices", "show", "nobody", "nothing", "always"),
    ("teams", "show", "nobody"),
    ("datasets", "list"),
    ("datasets", "show", "nothing"),
    ("experiments", "list"),
    ("experiments", "power", "--effect", "0.1", "--deviation", "0.8"),
    ("experiments", "results", "nothing"),
)


def run(service: Service, *arguments: str, stdin: str = "") -> Result:
    return CliRunner().invoke(main, list(arguments), input=stdin, prog_name="narthex", env=dict(service.environment))


def run_json(service: Service, *arguments: str, stdin: str = "") -> Any:
    done = run(service, *arguments, "--json", stdin=stdin)
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def elsewhere(service: Service) -> Service:
    """The service as somebody sees it who has neither its home nor its database, but a key."""
    away = {"NARTHEX_HOME": "/nonexistent", "DATABASE_URL": "", "NARTHEX_ADMIN_KEY": service.admin_key}
    return replace(service, environment={**service.environment, **away})


@pytest.mark.parametrize("arguments", SHOWN, ids=" ".join)
def test_command_answers_over_rest_what_it_answers_beside_the_database(service: Service, arguments: tuple[str, ...]) -> None:
    here = run(service, *arguments, "--json")
    there = run(elsewhere(service), *arguments, "--url", service.url, "--json")
    assert (here.exit_code, here.stdout, here.stderr) == (there.exit_code, there.stdout, there.stderr)
    assert here.exit_code in (0, 1)


@pytest.mark.parametrize("is_remote", [False, True], ids=["here", "over REST"])
def test_team_is_created_shown_replaced_tried_and_deleted(service: Service, is_remote: bool) -> None:
    name = f"made team {is_remote}"
    more = ("--url", service.url) if is_remote else ()
    world = elsewhere(service) if is_remote else service
    created = run_json(world, "teams", "create", name, "--content", "redacted", "--models", "small-*", "--models", "m", *more)
    assert (created["name"], created["content"], created["models"]) == (name, "redacted", ["small-*", "m"])
    again = run(world, "teams", "create", name, *more)
    assert again.exit_code == 1 and "`narthex teams " in again.stderr, again.stderr
    tried = run(world, "teams", "put", name, "--content", "none", "--dry-run", *more)
    assert tried.exit_code == 0 and "update team" in tried.stdout and "Nothing was changed." in tried.stdout, tried.output
    assert run_json(world, "teams", "show", name, *more)["content"] == "redacted"
    assert run_json(world, "teams", "put", name, "--content", "none", *more)["models"] is None
    stale = run(world, "teams", "delete", name, "--if-match", '"stale"', "--yes", *more)
    assert stale.exit_code == 1 and "Somebody else has changed it" in stale.stderr
    assert name in run(world, "teams", "delete", name, "--yes", *more).stdout
    assert run(world, "teams", "show", name, *more).exit_code == 1
    events = run_json(service, "audit", "--resource", "team", "--name", name)["events"]
    assert {each["via"] for each in events} == {"rest" if is_remote else "cli"}
    assert [each["action"] for each in events][:2] == ["delete", "update"]


def test_provider_and_model_with_targets_are_made_edited_and_removed(service: Service) -> None:
    run_json(service, "providers", "put", "made-gpu", "--adapter", "vllm", "--base-url", "http://127.0.0.1:9", "--drop", "all")
    assert run_json(service, "providers", "show", "made-gpu")["drop"] == "all"
    assert run_json(service, "providers", "change", "made-gpu", "--unset", "drop")["drop"] == []
    body = 'fallbacks = ["sandbox"]\n[[targets]]\nprovider = "made-gpu"\nmodel = "a"\n'
    assert run_json(service, "models", "create", "made-model", "--file", "-", stdin=body)["fallbacks"] == ["sandbox"]
    targets = run_json(service, "models", "targets", "add", "made-model", "--provider", "made-gpu", "--model", "b", "--weight", "2")
    assert [each["model"] for each in targets["data"]] == ["a", "b"]
    assert "made-gpu" in run(service, "models", "targets", "list", "made-model").stdout
    refused = run(service, "providers", "delete", "made-gpu", "--yes")
    assert refused.exit_code == 1 and "refer to the provider" in refused.stderr
    assert run(service, "models", "targets", "remove", "made-model", "1", "--yes").exit_code == 0
    assert run(service, "models", "delete", "made-model", "--yes").stdout == "Deleted: made-model.\n"
    assert run(service, "providers", "delete", "made-gpu", "--yes").exit_code == 0


def test_limit_is_made_and_changed_with_a_warning_about_a_mistake(service: Service) -> None:
    options = ("--scope", "team=each", "--resource", "requests", "--amount", "1000000", "--per", "minute")
    made = run_json(service, "limits", "create", "made limit", *options)
    assert made["scope"] == {"team": "each"} and made["amount"] == 1_000_000
    assert run_json(service, "limits", "change", "made limit", "--amount", "2000000")["amount"] == 2_000_000
    assert "made limit" in run(service, "limits", "list", "--search", "made").stdout
    wrong = run(service, "limits", "change", "made limit", "--amount", "-1")
    assert wrong.exit_code == 1 and "made limit" in wrong.stderr
    assert run(service, "limits", "delete", "made limit", "--yes").exit_code == 0


def test_endpoint_is_drained_and_put_back_by_the_running_gateway(service: Service) -> None:
    run_json(service, "providers", "put", "made-drain", "--adapter", "vllm", "--base-url", "http://127.0.0.1:9")
    run_json(service, "models", "put", "made-drained", "--targets", '[{"provider": "made-drain", "model": "a"}]')
    drained = run_json(service, "engines", "drain", "http://127.0.0.1:9", "--provider", "made-drain")
    assert drained["data"] == [{"provider": "made-drain", "endpoint": "http://127.0.0.1:9", "drained": True}]
    assert {"provider": "made-drain", "endpoint": "http://127.0.0.1:9"} in run_json(service, "engines", "fleet")["drained"]
    assert "no" in run(service, "engines", "undrain", "http://127.0.0.1:9", "--provider", "made-drain").stdout
    unknown = run(service, "engines", "drain", "http://127.0.0.1:1")
    assert unknown.exit_code == 1 and "is not an endpoint" in unknown.stderr and "`narthex engines fleet` lists all" in unknown.stderr
    assert run(service, "models", "delete", "made-drained", "--yes").exit_code == 0
    assert run(service, "providers", "delete", "made-drain", "--yes").exit_code == 0


def test_sessions_settings_workers_and_exports_have_commands(service: Service) -> None:
    assert "NARTHEX_HOME" in run(service, "settings").stdout
    assert run_json(service, "workers", "list")["data"]
    assert run(service, "users", "sessions", "list", "nobody").exit_code == 1
    assert run(service, "feedback", "export", "--format", "csv").stdout.startswith("id,")
    remote = run(elsewhere(service), "feedback", "export", "--format", "csv", "--url", service.url)
    assert remote.exit_code == 0 and remote.stdout.startswith("id,")
    assert "no" in run(service, "users", "sessions", "end", "nobody", "--yes").output


def test_role_of_a_session_decides_what_a_command_over_rest_may_do(service: Service) -> None:
    run_json(service, "service-accounts", "create", "made viewer", "--role", "viewer")
    token = run(service, "service-accounts", "tokens", "create", "made viewer", "--quiet").stdout.strip()
    viewer = replace(service, environment={**elsewhere(service).environment, "NARTHEX_ADMIN_KEY": token})
    assert run(viewer, "teams", "show", "nobody", "--url", service.url).exit_code == 1
    refused = run(viewer, "teams", "create", "made by a viewer", "--url", service.url)
    assert refused.exit_code == 1 and "Your role does not include 'teams:write'" in refused.stderr
    run_json(service, "service-accounts", "delete", "made viewer", "--yes")


def test_every_list_can_be_shown_to_people(service: Service) -> None:
    """Lists without required options print a table, or say that there is nothing; none fails on a field that it lacks."""
    lists = [
        each
        for each in load_manifest().commands
        if each.method == "GET" and each.media_type == "application/json" and not any(one.is_required for one in each.parameters)
    ]
    assert len(lists) >= 15
    failed = {each.name: done.output for each in lists if (done := run(service, *each.name.split(" "))).exit_code or done.exception}
    assert failed == {}
