"""narthex experiments: the life of an experiment by commands."""

import json

from tests.support.service import Service

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

    assert "is not running" in refused("stop", "expcmd", "expcmd-b")
    run("start", "expcmd")
    assert "is running already" in refused("start", "expcmd")
    assert "There are: " in (unknown := refused("start", "expcmd-none")) and "expcmd" in unknown
    run("weights", "expcmd", "expcmd-b=0.5")
    run("enrol", "expcmd", "0.25")
    assert "is the control" in refused("stop", "expcmd", "expcmd-a", "--now")
    assert "has no arm 'huge'" in refused("stop", "expcmd", "huge")
    assert "a weight is a number of 0 or more" in refused("weights", "expcmd", "expcmd-b=-1")
    run("stop", "expcmd", "expcmd-b", "--now")
    shown = json.loads(run("show", "expcmd", "--json"))
    assert shown["experiment"]["status"] == "running"
    versions = [(each["number"], each["arms"]["expcmd-b"], each["enrolment"]) for each in shown["versions"]]
    assert versions == [(4, 0, 0.25), (3, 0.5, 0.25), (2, 0.5, 1), (1, 1, 1)]
    assert "expcmd" in run("list") and "IN FORCE FROM" in run("show", "expcmd")
    run("stop", "expcmd", "--winner", "expcmd-b")
    assert json.loads(run("show", "expcmd", "--json"))["experiment"]["winner"] == "expcmd-b"
    assert "There is no experiment 'expcmd-none'" in refused("show", "expcmd-none")


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
    service.run("experiments", "stop", "expcmd-function", "--winner", "other")
    assert "other (won): sandbox" in service.run("functions", "show", "expcmd-function").stdout
