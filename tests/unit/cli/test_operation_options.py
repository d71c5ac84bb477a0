"""Options that commands made from operations have beyond fields: parts of a path, waits, questions, and values with a form of their own."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

from app.api.rest.command import Wait
from app.cli import main
from app.cli.operations.manifest import Parameter
from app.cli.operations.requests import OperationRequest, OperationResponse
from tests.unit.cli.test_operation_commands import NAME, FakeRunner, invoke, made

NUMBER = Parameter(field="number", place="path", flags=["--version"], kind="integer", help="Which.", minimum=1, maximum=9, sent="newest")
WEIGHTS = Parameter(field="arms", place="body", kind="number_pairs", metavar="ARM=WEIGHT...", is_required=True)
SHARE = Parameter(field="share", place="body", flags=["--share"], kind="share", help="How many.", minimum=0, maximum=1)
RATE = Parameter(
    field="rate",
    place="body",
    flags=["--rate"],
    kind="number",
    help="A rate.",
    minimum=0,
    maximum=1,
    excludes_minimum=True,
    excludes_maximum=True,
)
FEEDBACK = Parameter(field="selection/feedback", place="body", flags=["--feedback"], kind="conditions", help="Conditions.")
OUTCOME = Parameter(
    field="selection/outcome",
    place="body",
    flags=["--outcome"],
    kind="choice",
    choices=["answered", "any"],
    null="any",
    help="How it ended.",
)
SET = made(method="POST", parameters=[NAME, WEIGHTS, SHARE, RATE, FEEDBACK, OUTCOME], takes_body=True, fixed={"selection": {}})


@pytest.mark.parametrize(("options", "number"), [((), "newest"), (("--version", "2"), "2")])
def test_option_for_a_part_of_the_path_has_a_default(monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], number: str) -> None:
    runner = FakeRunner({})
    command = made(method="GET", path="/things/{name}/versions/{number}", parameters=[NAME, NUMBER])
    assert invoke(monkeypatch, command, runner, "x", *options).exit_code == 0
    assert runner.requests[0][0].path == {"name": "x", "number": number}


@pytest.mark.parametrize(
    ("options", "body"),
    [
        ((), {}),
        (("--share", "25%"), {"share": 0.25}),
        (("--share", "0.5", "--rate", "0.1"), {"share": 0.5, "rate": 0.1}),
        (
            ("--feedback", "helpful=true", "--feedback", "comment"),
            {"selection": {"feedback": [{"metric": "helpful", "value": True}, {"metric": "comment"}]}},
        ),
        (("--feedback", "score >= 0.8"), {"selection": {"feedback": [{"metric": "score", "min": 0.8}]}}),
        (("--feedback", "score<=2"), {"selection": {"feedback": [{"metric": "score", "max": 2}]}}),
        (("--outcome", "any"), {"selection": {"outcome": None}}),
    ],
    ids=str,
)
def test_values_are_sent_as_the_body_has_them(monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], body: Any) -> None:
    runner = FakeRunner({})
    done = invoke(monkeypatch, SET, runner, "x", *options, "a=1", "b=0.5")
    assert done.exit_code == 0, done.output
    assert msgspec.json.decode(runner.requests[0][0].body or b"") == {"arms": {"a": 1, "b": 0.5}, "selection": {}, **body}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("a=x",), "'x' is not a valid float"),
        (("a",), "it must be NAME=VALUE"),
        ((), "Missing argument 'ARM=WEIGHT...'"),
        (("a=1", "--share", "25"), "'25' is not a share from 0 to 1, such as 0.5 or 50%"),
        (("a=1", "--rate", "1"), "is not in the range 0<x<1"),
        (("a=1", "--feedback", "score>=nan"), "'score>=nan' is no condition"),
        (("a=1", "--feedback", "helpful=1"), "'helpful=1' is no condition"),
    ],
    ids=str,
)
def test_other_values_are_refused_before_anything_is_sent(monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], message: str) -> None:
    runner = FakeRunner({})
    done = invoke(monkeypatch, SET, runner, "x", *options)
    assert done.exit_code == 2 and message in done.output and runner.requests == [], done.output


class Building:
    """Answers that a version is being built, until it has been looked at often enough."""

    def __init__(self, *statuses: str) -> None:
        self.paths: list[Any] = []
        self._statuses = list(statuses)

    def run(self, request: OperationRequest, if_match: str | None) -> OperationResponse:
        self.paths.append(dict(request.path))
        status = self._statuses.pop(0) if len(self.paths) > 1 else "building"
        return OperationResponse({"dataset": "d", "number": 3, "status": status})


@pytest.mark.parametrize(
    ("statuses", "options", "status", "exit_code"),
    [
        (("building", "building", "complete"), (), "complete", 0),
        (("building", "failed"), (), "failed", 1),
        (("building",), ("--no-wait",), "building", 0),
    ],
    ids=["until it is complete", "until it has failed", "not at all"],
)
def test_command_waits_for_what_it_has_begun(
    monkeypatch: pytest.MonkeyPatch, statuses: tuple[str, ...], options: tuple[str, ...], status: str, exit_code: int
) -> None:
    monkeypatch.setattr("app.cli.operations.make._POLL_S", 0)
    wait = Wait(id="get_dataset_version", path={"name": "dataset", "number": "number"}, until_not="building", failure="failed")
    runner: Any = Building(*statuses)
    done = invoke(monkeypatch, made(method="POST", parameters=[NAME], wait=wait), runner, "x", *options, "--json")
    assert (done.exit_code, msgspec.json.decode(done.stdout)["status"]) == (exit_code, status)
    assert runner.paths == [{"name": "x"}, *[{"name": "d", "number": "3"}] * len(statuses)]


def test_question_is_about_what_was_given(monkeypatch: pytest.MonkeyPatch) -> None:
    arm = Parameter(field="arm", place="body", metavar="ARM")
    questions = ["Stop {arm} of {name}?", "End {name}?"]
    command = made(method="POST", parameters=[NAME, arm], takes_body=True, confirm=questions)
    asked: list[str] = []

    def agree(question: str = "", **_: object) -> None:
        asked.extend([question] if question else [])

    monkeypatch.setattr("app.cli.operations.make.refuse_unconfirmed", agree)  # as on a terminal
    monkeypatch.setattr("app.cli.operations.make.confirm", agree)
    for arguments in (("x", "a"), ("x",)):
        assert invoke(monkeypatch, command, FakeRunner({}), *arguments).exit_code == 0
    assert asked == ["Stop a of x?", "End x?"]


def test_command_that_needs_no_database_runs_without_one(tmp_path: Path) -> None:
    environment = {"NARTHEX_HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path), "DATABASE_URL": ""}
    arguments = ["experiments", "power", "--effect", "0.01", "--rate", "0.05", "--per-day", "2000", "--json"]
    done = CliRunner().invoke(main, arguments, env=environment)
    assert done.exit_code == 0 and msgspec.json.decode(done.stdout)["days"] % 7 == 0, done.output
