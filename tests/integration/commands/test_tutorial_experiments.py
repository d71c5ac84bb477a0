"""docs/tutorial-experiments.md: its files and commands, as they are written."""

import ast
import re
import subprocess
import time
import tomllib
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.support.processes.narthex_on_path import narthex_on_path
from tests.support.processes.service import Service

PAGE = Path(__file__).parents[3] / "docs" / "tutorial-experiments.md"


def code_blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)


@pytest.fixture
def path() -> Generator[str]:
    with narthex_on_path() as path:
        yield path


def test_tutorial_leads_to_a_running_experiment(service: Service, path: str, tmp_path: Path) -> None:
    support, experiment = code_blocks("toml")
    (script,) = code_blocks("python")
    assert (
        tomllib.loads(support)["functions"]["support"]["variants"]["plain"]
        == (tomllib.loads(experiment)["functions"]["support"]["variants"]["plain"])
    )
    (tmp_path / "support.toml").write_text(support)
    (tmp_path / "experiment.toml").write_text(experiment)
    (tmp_path / "feedback.py").write_text(script.replace("http://127.0.0.1:8787", service.url))
    environment = {**service.environment, "PATH": path}

    def run(command: str) -> str:
        process = subprocess.run(
            ["sh", "-ec", command.replace("http://127.0.0.1:8787", service.url)],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert process.returncode == 0, f"{command}\n{process.stdout}\n{process.stderr}"
        return process.stdout

    key, first, call, second, feedback, analytics, pinned, results, decided = code_blocks("sh")
    environment["NARTHEX_KEY"] = run(f"{key}\necho $NARTHEX_KEY").strip()
    assert environment["NARTHEX_KEY"].startswith("nx-")
    assert "Answer in one sentence." in run(first)
    assert '"object":"chat.completion"' in run(call)
    shown = run(second)
    assert "friendly" in shown and "plain" in shown
    served = ast.literal_eval(run(feedback))
    # All 24 by one of two: once in eight million runs.
    assert served.keys() == {"plain", "friendly"} and sum(served.values()) == 24, served
    until = time.monotonic() + 60
    while not all(variant in (output := run(analytics)) for variant in served):  # the writer stores them within seconds
        assert time.monotonic() < until, output
        time.sleep(0.5)
    assert '"object":"chat.completion"' in run(pinned)
    assert "Too early to say anything of solved" in run(results)
    assert "has ended: friendly serves." in run(decided)
