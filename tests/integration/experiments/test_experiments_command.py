"""narthex experiments: the life of an experiment by commands."""

import json
import re

from tests.support.processes.service import Service

CONFIGURATION = """
[models]
expcmd-a = { targets = [{ provider = "sandbox", model = "sandbox" }] }
expcmd-b = { targets = [{ provider = "sandbox", model = "sandbox" }] }
[models.expcmd.experiment]
arms = { expcmd-a = 1, expcmd-b = 1 }
control = "expcmd-a"
status = "draft"
"""


def test_experiment_is_started_changed_and_ended(service: Service) -> None:
    service.apply(CONFIGURATION)

    def run(*arguments: str) -> str:
        done = service.run("experiments", *arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def refused(*arguments: str) -> str:
        done = service.run("experiments", *arguments)
        assert done.returncode != 0, done.stdout
        return done.stderr

    assert "is not running" in refused("stop", "expcmd", "expcmd-b", "--yes")
    assert re.search(r"Version 1 of the experiment 'expcmd' takes effect at \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC\.", run("start", "expcmd"))
    assert "is running already" in refused("start", "expcmd")
    unknown = refused("start", "expcmd-none")
    assert "There is no experiment 'expcmd-none'. `narthex experiments list` lists them." in unknown
    run("weights", "expcmd", "expcmd-b=0.5")
    run("enrol", "expcmd", "25%")
    for bad in ("25", "-1", "0.5x", "5%%", "nan", "%"):
        assert f"{bad!r} is not a share from 0 to 1, such as 0.5 or 50%" in refused("enrol", "expcmd", "--", bad)
    assert "is the control" in refused("stop", "expcmd", "expcmd-a", "--now", "--yes")
    assert "--now is for one arm" in refused("stop", "expcmd", "--now", "--yes")
    assert "not both" in refused("stop", "expcmd", "expcmd-b", "--winner", "expcmd-a", "--yes")
    assert "has no arm 'huge'" in refused("stop", "expcmd", "huge", "--yes")
    assert "a weight is a number of 0 or more" in refused("weights", "expcmd", "expcmd-b=-1")
    run("stop", "expcmd", "expcmd-b", "--now", "--yes")
    shown = json.loads(run("show", "expcmd", "--json"))
    assert shown["experiment"]["status"] == "running"
    versions = [(each["number"], each["arms"]["expcmd-b"], each["enrolment"]) for each in shown["versions"]]
    assert versions == [(4, 0, 0.25), (3, 0.5, 0.25), (2, 0.5, 1), (1, 1, 1)]
    assert "expcmd" in run("list") and "IN FORCE FROM" in run("show", "expcmd")
    run("stop", "expcmd", "--winner", "expcmd-b", "--yes")
    assert json.loads(run("show", "expcmd", "--json"))["experiment"]["winner"] == "expcmd-b"
    assert "There is no experiment 'expcmd-none'" in refused("show", "expcmd-none")


def test_dry_run_refuses_what_a_running_experiment_does_not_permit(service: Service) -> None:
    drafted = CONFIGURATION.replace("expcmd", "expdry")
    service.apply(drafted)
    started = service.run("apply", "-", "--yes", stdin=drafted.replace('"draft"', '"running"'))
    assert "Version 1 of the experiment 'expdry' takes effect at " in started.stdout
    before = json.loads(service.run("history", "--limit", "2", "--json").stdout)["versions"][1]["version"]
    for command, stdin in (
        (("apply", "-", "--dry-run"), drafted),
        (("apply", "-", "--dry-run"), drafted.replace("expdry-b = 1 ", "expdry-b = 1, sandbox = 1 ").replace('"draft"', '"running"')),
        (("rollback", str(before), "--dry-run"), ""),
        (("rollback", str(before), "--yes"), ""),
    ):
        refused = service.run(*command, stdin=stdin)
        assert refused.returncode != 0 and not refused.stdout, refused.stdout
        assert "'expdry'" in refused.stderr and "`narthex experiments stop expdry` ends it" in refused.stderr
    assert service.run("experiments", "stop", "expdry", "--yes").returncode == 0
    assert service.run("rollback", str(before), "--yes").returncode == 0


def test_function_is_shown_with_its_experiment(service: Service) -> None:
    configuration = """
    [functions.expcmd-function.variants]
    plain = { model = "sandbox" }
    other = { model = "sandbox" }
    [functions.expcmd-function.experiment]
    arms = { plain = 3, other = 1 }
    control = "plain"
    """
    service.apply(configuration)
    shown = service.run("functions", "show", "expcmd-function").stdout
    assert "Experiment expcmd-function, running: other 1, plain 3." in shown and "plain (control): sandbox" in shown
    service.run("experiments", "stop", "expcmd-function", "--winner", "other", "--yes")
    assert "other (won): sandbox" in service.run("functions", "show", "expcmd-function").stdout
