"""Values as people type them, and the requests that made commands send for them: words, pairs, keys, defaults, parts, reads beside."""

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

from app.api.rest.command import Beside, Parts
from app.cli.operations.make import make_command
from app.cli.operations.manifest import Parameter
from app.cli.operations.requests import OperationRequest, OperationResponse
from tests.unit.cli.test_operation_commands import NAME, FakeRunner, invoke, made

DROP = Parameter(field="drop", place="body", flags=["--drop"], kind="texts", words={"all": "all", "none": []}, help="Fields.")
MASK = Parameter(field="mask/detectors", place="body", flags=["--mask"], kind="texts", choices=["email"], words={"all": None}, help="What.")
FOUND = Parameter(field="mask/patterns", place="body", flags=["--found"], kind="edits", help="Patterns.")
SCOPE = Parameter(field="scope", place="body", flags=["--for"], kind="edits", words={"all": {"all": "each"}}, help="Whom.")
WAIT = Parameter(field="wait_s", place="body", flags=["--wait"], kind="duration", sent="1h", help="How long.")
NETWORK = Parameter(field="networks", place="body", flags=["--network"], kind="networks", help="From where.")
SET = made(
    name="teams set", path="/teams/{name}", parameters=[NAME, DROP, MASK, FOUND, SCOPE, NETWORK], takes_body=True, is_conditional=True
)


def body_of(runner: FakeRunner, number: int = -1) -> Any:
    return msgspec.json.decode(runner.requests[number][0].body or b"")


@pytest.mark.parametrize(
    ("options", "body"),
    [
        (("--drop", "all"), {"drop": "all"}),
        (("--drop", "none"), {"drop": []}),
        (("--drop", "seed", "--drop", "all"), {"drop": ["seed", "all"]}),
        (("--mask", "all"), {"mask": {"detectors": None}}),
        (
            ("--mask", "email", "--found", "a=b=c", "--found", "old="),
            {"mask": {"detectors": ["email"], "patterns": {"a": "b=c", "old": None}}},
        ),
        (("--for", "all"), {"scope": {"all": "each"}}),
        (("--network", "10.0.0.0/8"), {"networks": ["10.0.0.0/8"]}),
    ],
    ids=str,
)
def test_words_and_pairs_stand_for_values(monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], body: Any) -> None:
    runner = FakeRunner({})
    done = invoke(monkeypatch, SET, runner, "x", *options)
    assert done.exit_code == 0 and body_of(runner) == body, done.output


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--mask", "nothing"), "'email', 'all'"),
        (("--for", "team"), "it must be NAME=VALUE, such as team=search, or all"),
        (("--found", "=x"), "it must be NAME=VALUE"),
        (("--network", "10.0.0.1/8"), "host bits set; write it as 10.0.0.0/8"),
        ((), "Nothing to set: give at least one of the options"),
    ],
)
def test_what_stands_for_nothing_is_refused_before_anything_is_sent(
    monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], message: str
) -> None:
    runner = FakeRunner({})
    refused = invoke(monkeypatch, SET, runner, "x", *options)
    assert refused.exit_code == 2 and message in refused.output and runner.requests == []


def test_complete_key_is_cut_to_its_public_part(monkeypatch: pytest.MonkeyPatch) -> None:
    key = Parameter(field="prefix", place="path", kind="key", metavar="PREFIX", is_required=True)
    rotate = made(method="POST", path="/keys/{prefix}/rotate", parameters=[key, WAIT], takes_body=True, confirm="Rotate {prefix}?")
    runner = FakeRunner({})
    assert invoke(monkeypatch, rotate, runner, "nx-0123456789ab-secret", "--yes").exit_code == 0
    assert runner.requests[0][0].path == {"prefix": "nx-0123456789ab"} and body_of(runner) == {"wait_s": 3600.0}
    assert invoke(monkeypatch, rotate, runner, "nx-0123456789ab", "--wait", "0s", "--yes").exit_code == 0
    assert body_of(runner) == {"wait_s": 0.0}


def test_name_must_not_be_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    team = Parameter(field="team", place="body", flags=["--team"], minimum=1, help="Its team.")
    command, runner = made(method="POST", path="/keys", parameters=[team], takes_body=True), FakeRunner({})
    refused = invoke(monkeypatch, command, runner, "--team", "  ")
    assert refused.exit_code == 2 and "it must not be empty" in refused.output and runner.requests == []


def test_change_of_what_does_not_exist_creates_it_where_the_command_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    options = ("new/team", "--drop", "seed", "--mask", "all", "--found", "old=", "--found", "a=b")
    runner = FakeRunner({}, refusals=(404,))
    done = invoke(monkeypatch, msgspec.structs.replace(SET, creates="create_team"), runner, *options)
    assert done.exit_code == 0, done.output
    [_, (created, if_match)] = runner.requests
    assert (created.command.method, created.command.path, created.command.id, created.path) == ("POST", "/teams", "create_team", {})
    assert if_match is None and body_of(runner) == {"name": "new/team", "drop": ["seed"], "mask": {"patterns": {"a": "b"}}}
    refused = invoke(monkeypatch, SET, FakeRunner({}, refusals=(404,)), *options)
    assert refused.exit_code == 1


def test_pairs_replace_all_that_there_are_where_the_command_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    command = msgspec.structs.replace(SET, name="budgets set", path="/budgets/{name}", replaces=["scope"])
    runner = FakeRunner({"scope": {"key": "each"}})
    assert invoke(monkeypatch, command, runner, "x", "--for", "team=a").exit_code == 0
    assert [each[0].command.method for each in runner.requests] == ["GET", "PATCH"]
    assert body_of(runner) == {"scope": {"key": None, "team": "a"}}


def test_work_in_parts_is_done_to_its_end_and_shown_as_one_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    answers: list[dict[str, Any]] = [
        {"next": "b", "left": {"rows": 1}, "ids": ["1"], "days": 2, "status": "running", "matches": None},
        {"next": "c", "left": {"copies": 0}, "ids": [], "days": 3, "status": "running", "matches": None},
        {"next": None, "left": {"rows": 2}, "ids": ["2"], "days": 4, "status": "complete", "matches": None},
    ]

    class Parted(FakeRunner):
        def run(self, request: OperationRequest, if_match: str | None) -> OperationResponse:
            super().run(request, if_match)
            return OperationResponse(answers[len(self.requests) - 1])

    parts = Parts("next", "after", ("left", "ids", "days"))
    user = Parameter(field="user", place="body", flags=["--user"], help="Whose.")
    command = made(method="POST", path="/checks", parameters=[user], takes_body=True, parts=parts, fails="erasures.is_left")
    runner = Parted()
    shown = invoke(monkeypatch, command, runner, "--user", "ann", "--json")
    assert [body_of(runner, number) for number in range(3)] == [
        {"user": "ann"},
        {"user": "ann", "after": "b"},
        {"user": "ann", "after": "c"},
    ]
    counted = {"left": {"rows": 3, "copies": 0}, "ids": ["1", "2"], "days": 9}
    assert msgspec.json.decode(shown.output) == {"next": None, **counted, "status": "complete", "matches": None}
    assert shown.exit_code == 1, "something is left"


def test_dry_run_is_shown_before_the_question(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.cli.operations.make.refuse_unconfirmed", _allow)
    monkeypatch.setattr("app.cli.operations.make.confirm", _allow)
    runner = FakeRunner({"changes": [{"after": {"expected_records": 1234}}]})
    user = Parameter(field="end_user", place="body", flags=["--user"], help="Whose.")
    command = made(method="POST", parameters=[user], takes_body=True, confirm="Erase?", preview="erasures.expected", done="Begun.")
    shown = invoke(monkeypatch, command, runner, "--user", "ann")
    assert "about 1,234 records of the end user ann" in shown.output and "Begun." in shown.output
    assert [each[0].dry_run for each in runner.requests] == [True, False]
    assert invoke(monkeypatch, command, runner, "--user", "ann", "--yes").output == "Begun.\n"


def _allow(*_: object, **__: object) -> None:
    """Does what somebody at a terminal does who says yes."""


def test_command_of_several_operations_runs_that_of_which_most_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    team = Parameter(field="team", place="query", flags=["--team"], help="Whose.")
    format = Parameter(field="format", place="query", flags=["--export"], kind="choice", choices=["csv"], help="As a file.", decides=True)
    id = Parameter(field="id", place="path", metavar="ID", is_required=True)
    listing = made(name="log", id="list", method="GET", path="/log", parameters=[team])
    export = made(name="log", id="export", method="GET", path="/log/export", parameters=[team, format], media_type="text/csv")
    show = made(name="log", id="show", method="GET", path="/log/{id}", parameters=[id])
    runner = FakeRunner({})

    def choose_runner(*_: object) -> FakeRunner:
        return runner

    def run(*arguments: str) -> Any:
        monkeypatch.setattr("app.cli.operations.make._runner", choose_runner)
        return CliRunner().invoke(make_command(listing, export, show), list(arguments))

    for arguments in (("--team", "a"), ("--team", "a", "--export", "csv"), ("17",)):
        assert run(*arguments).exit_code == 0
    assert [each.command.id for each, _ in runner.requests] == ["list", "export", "show"]
    for arguments in (("17", "--team", "a"), ("--export", "csv", "--json")):
        refused = run(*arguments)
        assert refused.exit_code == 2 and "cannot be given together" in refused.output


def test_answers_of_other_reads_stand_beside_that_of_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    team = Parameter(field="team", place="query", flags=["--team"], help="Whose.")
    since = Parameter(field="since", place="query", flags=["--since"], kind="past_moment", sent="1d", help="From when.")
    request_id = Parameter(field="request_id", place="query", flags=["--id"], help="Which.")
    beside = {"counts": Beside("get_analytics", ("team", "since", "rule"), {"outcome": "refused"}, unless="request_id")}
    command = made(method="GET", path="/refusals", parameters=[team, since, request_id], beside=beside)
    runner = FakeRunner({"data": []})
    shown = invoke(monkeypatch, command, runner, "--team", "a", "--json")
    assert msgspec.json.decode(shown.output) == {"data": [], "counts": {"data": []}}
    (own, _), (counted, _) = runner.requests
    assert own.query["since"] == counted.query["since"] and datetime.fromisoformat(own.query["since"]) < datetime.now(UTC)
    assert counted.command.id == "get_analytics" and counted.query.items() >= {"team": "a", "outcome": "refused"}.items()
    alone = invoke(monkeypatch, command, runner, "--id", "x", "--json")
    assert msgspec.json.decode(alone.output)["counts"] is None


def test_secret_is_read_from_standard_input_and_a_sentence_says_who_serves_the_change(monkeypatch: pytest.MonkeyPatch) -> None:
    secret = Parameter(field="value", place="body", kind="secret", help="Secret for {name}")
    command = made(method="PUT", parameters=[NAME, secret], takes_body=True, done="{name} is stored; {applied}")

    class Served(FakeRunner):
        def run(self, request: OperationRequest, if_match: str | None) -> OperationResponse:
            super().run(request, if_match)
            return OperationResponse({"name": "x"}, "the change is stored, but 1 of 2 serve it", "1 of 2 serve it.")

    runner = Served()
    done = invoke(monkeypatch, command, runner, "x", stdin="hidden\n")
    assert done.output == "x is stored; 1 of 2 serve it.\n" and body_of(runner) == {"value": "hidden\n"}
    assert "Warning: the change is stored, but" in invoke(monkeypatch, command, runner, "x", "--json", stdin="hidden").output


def test_flag_that_only_its_renderer_reads_is_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    line = {"day": "2026-11-01", "model": "m", "kind": "input", "our_tokens": 5, "their_tokens": 5, "token_difference": 0}
    line |= {"our_microusd": 7, "their_microusd": 7, "microusd_difference": 0}
    document = {"first_day": "2026-11-01", "last_day": "2026-11-01", "providers": ["p"], "our_microusd": 7, "their_microusd": 7}
    runner = FakeRunner({**document, "unpriced": 0, "data": [line]})
    shows = {"--all": "Also lines without a difference."}
    command = made(method="GET", path="/costs", shows=shows, render="costs.reconciled", fails="costs.differs")
    brief, whole = invoke(monkeypatch, command, runner), invoke(monkeypatch, command, runner, "--all")
    assert "input" not in brief.output and "input" in whole.output and "0.000007" in whole.output
    assert [each.query for each, _ in runner.requests] == [{}, {}] and (brief.exit_code, whole.exit_code) == (0, 0)
