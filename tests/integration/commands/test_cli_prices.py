"""The prices commands: suggestions from the price list, which an operator corrects, applies and lists."""

import json
import tomllib
from typing import Any

from click.testing import CliRunner, Result

from app.cli import main
from tests.support.processes.service import Service

# No request is sent to these hosts.
PROVIDERS = """\
[providers.priced]
adapter = "openai"
[providers.priced-elsewhere]
adapter = "openai"
base_url = "http://127.0.0.1:9"
[models.priced]
targets = [
  { provider = "priced", model = "gpt-5-mini-2025-08-07" },
  { provider = "priced", model = "no-such-model" },
  { provider = "priced-elsewhere", model = "gpt-5-mini" },
]
"""
DATED = "gpt-5-mini-2025-08-07"


def run_command(service: Service, *arguments: str, stdin: str = "", status: int = 0) -> Result:
    done = CliRunner().invoke(main, list(arguments), input=stdin, prog_name="narthex", env=dict(service.environment))
    assert done.exit_code == status, done.output
    return done


def run_json_command(service: Service, *arguments: str) -> Any:
    return json.loads(run_command(service, *arguments, "--json").stdout)


def test_suggested_prices_can_be_corrected_applied_and_listed(service: Service) -> None:
    run_command(service, "apply", "-", "--yes", stdin=PROVIDERS)
    before = run_json_command(service, "prices", "list")
    assert {"provider": "priced", "model": DATED} in before["unpriced"] and not [each for each in before["prices"] if _is_dated_model(each)]

    suggested = run_command(service, "prices", "suggest", "--provider", "priced").stdout
    assert f"# priced/{DATED}: the list's price for gpt-5-mini." in suggested and "it is not in the list" in suggested
    (row,) = tomllib.loads(suggested)["prices"]
    assert (row["provider"], row["model"], row["input"], row["output"]) == ("priced", DATED, 0.25, 2) and "read 20" in row["source"]
    everything = run_json_command(service, "prices", "suggest")
    assert row.items() <= next(each for each in everything["prices"] if _is_dated_model(each)).items()
    reasons = {(each["provider"], each["model"]): each["reason"] for each in everything["skipped"]}
    assert "127.0.0.1:9" in reasons["priced-elsewhere", "gpt-5-mini"] and "sandbox" in reasons["sandbox", "sandbox"]

    corrected = suggested.replace("input = 0.25", "input = 0.2")
    assert "Applied as version" in run_command(service, "apply", "-", "--yes", stdin=corrected).stdout
    after = run_json_command(service, "prices", "list")
    assert [each["input"] for each in after["prices"] if _is_dated_model(each)] == [0.2]
    assert {"provider": "priced", "model": DATED} not in after["unpriced"]
    shown = run_command(service, "prices", "list").stdout
    assert any(line.split() == ["priced", DATED, "0.2", "2", "0.025", "-"] for line in shown.splitlines())
    assert "priced-elsewhere/gpt-5-mini" in shown and "no-such-model" in shown


def test_priced_model_is_suggested_again_only_with_all(service: Service) -> None:
    run_command(service, "apply", "-", "--yes", stdin=PROVIDERS)
    own_price = f'[[prices]]\nprovider = "priced"\nmodel = "{DATED}"\ninput = 1\noutput = 1\n'
    run_command(service, "apply", "-", "--yes", stdin=own_price)
    quiet = run_command(service, "prices", "suggest", "--provider", "priced").stdout
    assert tomllib.loads(quiet) == {} and f"{DATED}: it has a price already" in quiet and quiet.startswith("# There is nothing to suggest.")
    again = tomllib.loads(run_command(service, "prices", "suggest", "--provider", "priced", "--all").stdout)
    assert [each["input"] for each in again["prices"]] == [0.25]
    unknown = run_command(service, "prices", "suggest", "--provider", "nobody", status=1)
    assert "There is no provider 'nobody'" in unknown.stderr


def _is_dated_model(price: Any) -> bool:
    return (price["provider"], price["model"]) == ("priced", DATED)
