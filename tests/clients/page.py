"""Writes the generated part of docs/clients.md: `python -m tests.clients.page`.

The table of what works states what `make test-clients` proves: every check passes, but for those of expected_failures.py, which must fail.
"""

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.clients.clients import CHECKS_FOR_ONE_MODEL, CLIENTS, MODELS, Client
from tests.clients.expected_failures import expected_failure
from tests.clients.install import HERE, REQUIREMENTS
from tests.clients.setups import SETUPS, Setup

PAGE = HERE.parents[1] / "docs" / "clients.md"
_BEGIN, _END = "<!-- generated: python -m tests.clients.page -->\n", "<!-- end of what is generated -->\n"
_BY_NAME = {str(client): client for client in CLIENTS}


def generated() -> str:
    return "\n".join([*_setups_table(), "", "### What works", "", _WORDS, "", *_results_table()]) + "\n"


_WORDS = (
    "A client makes the checks of its kind with a model of each kind: the sandbox, and hosts that speak Chat, Responses, Anthropic "
    "Messages, Gemini and Bedrock Converse. Checks that do not depend on the model "
    "(errors, embeddings, disconnecting) run with the sandbox alone."
)


def page() -> str:
    before, _, rest = PAGE.read_text("utf-8").partition(_BEGIN)
    return before + _BEGIN + "\n" + generated() + "\n" + _END + rest.partition(_END)[2]


def _setups_table() -> Iterator[str]:
    yield from _table(
        ("client", "tested version", "configuration"),
        [(setup.title, ", ".join(_versions(setup)), setup.configuration) for setup in SETUPS],
    )


def _results_table() -> Iterator[str]:
    yield from _table(
        ("client", *MODELS.values()),
        [
            (
                setup.title if len(setup.clients) == 1 else f"{setup.title}: `{name}`",
                *(_cell(_BY_NAME[name], model) for model in MODELS),
            )
            for setup in SETUPS
            for name in setup.clients
        ],
    )


def _cell(client: Client, model: str) -> str:
    checks = sorted(client.checks if model == "sandbox" else client.checks - CHECKS_FOR_ONE_MODEL)
    failures = {check: reason for check in checks if (reason := expected_failure(client, model, check)) is not None}
    passed = len(checks) - len(failures)
    if not failures:
        return "passes its check" if passed == 1 else f"passes all {passed}"
    return f"passes {passed} of {len(checks)}; not " + "; ".join(f"`{check}`: {reason}" for check, reason in failures.items())


def _versions(setup: Setup) -> list[str]:
    interpreter = _BY_NAME[setup.clients[0]].interpreter[0]
    own_pins = [_pins(file) for venv, file in REQUIREMENTS.items() if interpreter.startswith(f"{venv}/")]
    # Programs that a script of ours starts have folders of their own.
    manifests = [json.loads((folder / "package.json").read_text())["dependencies"] for folder in (HERE, HERE / "agents")]
    known: dict[str, str] = {}
    for versions in (*map(_pins, REQUIREMENTS.values()), *manifests, *own_pins):
        known |= versions
    return [f"{package} {known[package]}" for package in setup.packages]


def _pins(file: Path) -> dict[str, str]:
    return dict(re.findall(r"^([\w.-]+)==(\S+)", file.read_text(), re.M))


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield "| " + " | ".join(head) + " |"
    yield "|" + "---|" * len(head)
    for row in rows:
        yield "| " + " | ".join(row) + " |"


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
