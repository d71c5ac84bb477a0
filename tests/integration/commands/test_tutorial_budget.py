"""docs/tutorial-budget.md: its file and commands, as they are written, on a service of its own, because it prices the sandbox."""

import re
import subprocess
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.support.processes import service as services
from tests.support.processes.narthex_on_path import narthex_on_path

PAGE = Path(__file__).parents[3] / "docs" / "tutorial-budget.md"


def code_blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)


@pytest.fixture
def path() -> Generator[str]:
    with narthex_on_path() as path:
        yield path


def test_tutorial_leads_to_a_budget_that_is_used_up(path: str, tmp_path: Path) -> None:
    service = services.start(workers=1)
    try:
        (prices,) = code_blocks("toml")
        (tmp_path / "prices.toml").write_text(prices)
        environment = {**service.environment, "PATH": path}

        def run(command: str) -> str:
            command = command.replace("http://127.0.0.1:8787", service.url)
            process = subprocess.run(
                ["sh", "-ec", command], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300, check=False
            )
            assert process.returncode == 0, f"{command}\n{process.stdout}\n{process.stderr}"
            return process.stdout

        key, price, budget, use, look, more = code_blocks("sh")
        environment["NARTHEX_KEY"] = run(f"{key}\necho $NARTHEX_KEY").strip()
        assert re.search(r"x-narthex-cost-usd: 0\.0\d", run(price))
        assert "shop in a day" in run(budget)
        used = run(use)
        statuses = re.findall(r"^(\d{3})$", used, re.MULTILINE)
        assert len(statuses) == 8 and statuses == sorted(statuses) and set(statuses) == {"200", "429"}, used
        assert "cost_limit_reached" in used and "shop in a day" in used
        looked = run(look)
        assert "shop in a day" in looked
        assert "shop" in run(more + "\nnarthex budgets list")
        assert re.findall(r"^(\d{3})$", run(use), re.MULTILINE) == ["200"] * 8
    finally:
        services.stop(service)
