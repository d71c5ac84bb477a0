"""Wrong command lines and wrong requests of the admin API: each is refused with the status and in the words of a table."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import httpx2
import msgspec
import pytest
from click.testing import CliRunner
from msgspec import Struct

from app.cli import main
from app.cli.errors import wants_json
from tests.support.processes.service import REQUEST_TIMEOUT_S, Service
from tests.support.processes.wait_until import block_until

TABLES = Path(__file__).with_name("refused")
CONFIGURED = """
[models.tabled]
targets = [{ provider = "sandbox", model = "sandbox" }]
[models.tabled-arm]
targets = [{ provider = "sandbox", model = "sandbox-slow" }]
[models.tabled-split.experiment]
arms = { tabled = 0.5, tabled-arm = 0.5 }
name = "tabled-test"
status = "running"
[functions.tabled-fn]
type = "chat"
[functions.tabled-fn.variants.only]
model = "tabled"
system_template = "Be {{ system_text }}."
[metrics.tabled-metric]
kind = "boolean"
level = "inference"
optimize = "max"
[[limits]]
name = "tabled-limit"
scope = { team = "each" }
resource = "requests"
amount = 1000000
per = "minute"
[[limits]]
name = "tabled-budget"
scope = { team = "tabled-team" }
resource = "cost_usd"
amount = 100
per = "month"
"""


class Row(Struct, frozen=True):
    """A refused line, and how it is refused; `...` in the message stands for anything."""

    line: str
    stdin: str
    status: int
    message: str

    def is_fulfilled_by(self, status: int, message: str) -> bool:
        pattern = ".*".join(re.escape(each) for each in self.message.split("..."))
        return status == self.status and re.fullmatch(pattern, message) is not None


def read_table(name: str) -> Iterator[Row]:
    """Reads entries: `$` and what is refused, `<` and a line of standard input, any number of them, the status and the message."""
    line, stdin = "", list[str]()
    for text in (TABLES / name).read_text().splitlines():
        mark, _, rest = text.partition(" ")
        match mark:
            case "$":
                line, stdin = rest, []
            case "<":
                stdin.append(rest)
            case status if status.isdigit():
                yield Row(line, "\n".join(stdin), int(status), rest)
            case _:
                pass  # a heading


@pytest.fixture(scope="module")
def configured(service: Service) -> Iterator[Service]:
    """The service with something to be wrong about."""
    for command, stdin in (("apply - --yes", CONFIGURED), ("teams set tabled-team --content none", "")):
        assert run(service, command, stdin) == (0, "")
    block_until(lambda: "not in force yet" not in run(service, "experiments promote tabled-test tabled --yes")[1])
    yield service
    for command in ("limits delete tabled-limit --yes", "budgets remove tabled-budget --yes"):
        assert run(service, command) == (0, "")


def run(service: Service, line: str, stdin: str = "") -> tuple[int, str]:
    """A command in this process: its exit status, and the error that it prints."""
    arguments = shlex.split(line)
    done = CliRunner().invoke(main, arguments, input=stdin, prog_name="narthex", env=dict(service.environment))
    error = done.stderr.partition("Error: ")[2] or done.stderr
    if error and wants_json(arguments):
        error = msgspec.json.decode(error)["error"]["message"]
    return done.exit_code, " ".join(error.split())


def request(service: Service, client: httpx2.Client, line: str) -> tuple[int, str]:
    method, path, *body = line.split(" ", 2)
    response = client.request(method, f"{service.url}/admin/v1{path}", content=body[0] if body else None)
    return response.status_code, " ".join(response.json().get("error", {}).get("message", "").split())


def test_wrong_command_lines_are_refused_as_the_table_says(configured: Service) -> None:
    rows = list(read_table("commands.txt"))
    found = {row: run(configured, row.line, row.stdin) for row in rows}
    assert len(rows) >= 350
    assert {row.line: shown for row, shown in found.items() if not row.is_fulfilled_by(*shown)} == {}


def test_wrong_requests_of_operations_are_refused_as_the_table_says(configured: Service) -> None:
    rows = list(read_table("operations.txt"))
    headers = {"authorization": f"Bearer {configured.admin_key}"}
    with httpx2.Client(headers=headers, timeout=REQUEST_TIMEOUT_S, trust_env=False) as client:
        found = {row: request(configured, client, row.line) for row in rows}
    assert len(rows) >= 100
    assert {row.line: shown for row, shown in found.items() if not row.is_fulfilled_by(*shown)} == {}
