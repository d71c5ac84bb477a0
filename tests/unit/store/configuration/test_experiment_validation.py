"""Experiments of a configuration file: what cannot be run is refused with its place and the reason."""

import msgspec
import pytest

from app.domain.errors import BadConfiguration
from app.domain.experiments import ExperimentConfig
from app.store.configuration.config_file import parse_config_file, write_file
from app.store.configuration.snapshots import build_snapshot
from app.store.configuration.validation.validate import validate

MODELS = """
[providers.sandbox]
adapter = "openai"
base_url = "http://127.0.0.1:1"
[models]
small.targets = [{ provider = "sandbox", model = "small" }]
large.targets = [{ provider = "sandbox", model = "large" }]
"""
EXPERIMENT = (
    MODELS
    + """
[models.fast]
targets = [{ provider = "sandbox", model = "medium" }]
[models.fast.experiment]
name = "size"
arms = { small = 0.5, large = 0.3, "sandbox/medium" = 0.2 }
control = "small"
enrolment = 0.1
ramp = [{ after_hours = 24, enrolment = 0.5 }, { after_hours = 48, enrolment = 1 }]
eligible = { team = ["legal", "sales"], key = ["nx-0123456789ab"], "tag:tier" = ["pro"] }
holdout = 0.05
layer = "checkout"
slots = [0, 5000]
stopped = ["large"]
"""
)
SECOND = '[models.slow.experiment]\narms = { small = 1, large = 1 }\nlayer = "checkout"\nslots = [5000, 9000]\n'


def check(content: str) -> ExperimentConfig:
    file = parse_config_file(content)
    snapshot = build_snapshot(1, file.providers or {}, file.models or {}, metrics=file.metrics or {})
    validate(snapshot)
    again = parse_config_file(write_file(snapshot, {}))
    assert again.models == file.models
    experiment = snapshot.models["fast"].experiment
    assert experiment is not None
    return experiment


def test_every_setting_is_written_and_read_back():
    experiment = check(EXPERIMENT)
    left_at_default = {name for name in ("status", "unit", "salt", "winner", "analysis", "adaptive")}
    assert set(msgspec.to_builtins(experiment)) == set(ExperimentConfig.__struct_fields__) - left_at_default


def test_model_itself_is_an_arm_of_all_its_targets_and_the_control():
    own = EXPERIMENT.replace('"sandbox/medium" = 0.2', "fast = 0.2").replace('control = "small"\n', "")
    assert check(own).control_arm("fast") == "fast"


def test_slots_of_one_layer_may_touch():
    check(EXPERIMENT + SECOND)


def test_slots_of_an_ended_experiment_are_free():
    check(EXPERIMENT + SECOND.replace("[5000, 9000]", '[0, 9000]\nstatus = "ended"'))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("small = 0.5", "small = -0.5", "models.fast.experiment.arms.small: a weight is a number of 0 or more"),
        ("small = 0.5", "small = inf", "models.fast.experiment.arms.small: a weight is a number of 0 or more"),
        ("small = 0.5", "small = 1e-300", "models.fast.experiment.arms.small: a weight is a number of 0 or more"),
        ('0.5, large = 0.3, "sandbox/medium" = 0.2', "0, large = 0", "arms: at least one weight must be more than 0"),
        ("large = 0.3", "huge = 0.3", "arms: there is no 'huge'"),
        ('"sandbox/medium" = 0.2', '"sandbox/mini" = 0.2', "arms: there is no 'sandbox/mini'"),
        ("[models.fast]", '[models."sandbox/medium"]\nexperiment.arms = { small = 1 }\n[models.fast]', "Rename the model"),
        ('control = "small"', 'control = "tiny"', "control: 'tiny' is not one of its arms"),
        ('name = "size"', 'name = " size"', "name has 1 to"),
        ("enrolment = 0.1", "enrolment = -0.1", "enrolment is the share of units that take part, from 0 to 1, not -0.1"),
        ("enrolment = 0.1", 'unit = "device"', "'device' is not one of: episode, user, team, tag:NAME"),
        ("after_hours = 48", "after_hours = 24", "ramp[1].after_hours: steps come one after the other"),
        ("enrolment = 0.5", "enrolment = 5", "ramp[0].enrolment is the share"),
        ("team =", "user =", "eligible: 'user' is not one of: key, team, tag:NAME"),
        ('["pro"]', "[]", "eligible.tag:tier: 1 to 1000 values"),
        ('"nx-0123456789ab"', '"secret"', "is not the public part of a key"),
        ("holdout = 0.05", "holdout = 2", "holdout is the share"),
        ("slots = [0, 5000]", "", "slots is missing"),
        ('layer = "checkout"', "", "layer is missing"),
        ("[0, 5000]", "[5000, 0]", "slots: the first slot"),
        ("[0, 5000]", "[0, 10001]", "slots: the first slot"),
        ('stopped = ["large"]', 'stopped = ["small"]', "stopped: 'small' is the control"),
        ('stopped = ["large"]', 'stopped = ["huge"]', "stopped: 'huge' is not one of its arms"),
        ('stopped = ["large"]', 'winner = "large"', 'winner serves once the experiment has ended: set `status = "ended"`'),
        ('stopped = ["large"]', 'status = "ended"\nwinner = "huge"', "winner: 'huge' is not one of its arms"),
        ('stopped = ["large"]', SECOND.replace("5000", "4999"), "slots: [4999, 9000] overlaps with [0, 5000] of models.fast.experiment"),
        ('stopped = ["large"]', SECOND + 'unit = "user"', "unit: experiments of the layer 'checkout' randomise the same unit"),
        ('stopped = ["large"]', SECOND + 'name = "size"', "models.fast.experiment has the name 'size', too"),
    ],
)
def test_invalid_experiment_is_refused_with_its_place(old: str, new: str, message: str):
    assert old in EXPERIMENT
    with pytest.raises(BadConfiguration) as refused:
        check(EXPERIMENT.replace(old, new, 1))
    assert message in str(refused.value)


def test_arm_with_an_experiment_of_its_own_is_refused():
    with pytest.raises(BadConfiguration, match="'small' has an experiment of its own"):
        check(EXPERIMENT + "[models.small.experiment]\narms = { large = 1 }")


def test_what_has_only_an_experiment_is_refused_as_a_fallback():
    only_experiment = MODELS + "[models.fast.experiment]\narms = { small = 1, large = 1 }\n"
    backed = '[models.backed]\ntargets = [{ provider = "sandbox", model = "x" }]\nfallbacks = ["fast"]\n'
    with pytest.raises(BadConfiguration, match=r"models\.backed\.fallbacks: the model 'fast' has an experiment and no targets of its own"):
        check(only_experiment + backed)
    check(only_experiment.replace("[models.fast.exp", 'fast.targets = [{ provider = "sandbox", model = "y" }]\n[models.fast.exp') + backed)


ANALYSED = (
    MODELS
    + """
[metrics]
helpful = { kind = "boolean", level = "inference", optimize = "max" }
stars = { kind = "float", level = "episode" }
remark = { kind = "comment", level = "inference" }
[models.fast.experiment]
arms = { small = 0.5, large = 0.5 }
adaptive = { rule = "thompson", every_minutes = 30, minimum_share = 0.1 }
[models.fast.experiment.analysis]
metrics = ["helpful", "stars", "cost", "error"]
alpha = 0.1
planned_units = 20000
caps = { cost = 0.05 }
slices = ["country"]
window_minutes = 120
feedback_hours = 48
guardrails = { error = 0.01, helpful = 0.05 }
minimum_units = 1000
minimum_days = 14
"""
)


def test_every_setting_of_the_analysis_is_written_and_read_back():
    experiment = check(ANALYSED)
    assert experiment.adaptive is not None
    for settings in (experiment.analysis, experiment.adaptive):
        assert set(msgspec.to_builtins(settings)) == set(settings.__struct_fields__)


def test_analysis_without_metrics_is_of_the_built_in_ones():
    check(ANALYSED.replace('metrics = ["helpful", "stars", "cost", "error"]\n', "").replace(", helpful = 0.05", ""))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"cost", "error"]', '"cost", "speed"]', "analysis.metrics: there is no metric 'speed'. It may be one of: error, "),
        ('"cost", "error"]', '"cost", "remark"]', "'remark' is of kind comment"),
        ('"cost", "error"]', '"cost", "cost"]', "each once"),
        ("helpful = {", 'error = { kind = "float", level = "episode" }\nhelpful = {', "[metrics.error] has the same name. Rename that one"),
        ('["helpful", "stars"', '["stars", "helpful"', "[metrics.stars] has no `optimize`, and the first metric is the primary one"),
        ("alpha = 0.1", "alpha = 0", "analysis.alpha: the chance of a false statement"),
        ("planned_units = 20000", "planned_units = 10", "analysis.planned_units: at least 100"),
        ("minimum_units = 1000", "minimum_units = 99", "analysis.minimum_units: at least 100"),
        ("minimum_days = 14", "minimum_days = -1", "analysis.minimum_days: 0 to 366"),
        ("caps = { cost", "caps = { latency", "analysis.caps: 'latency' is not one of its metrics"),
        ("caps = { cost", "caps = { error", "analysis.caps.error: a unit's value of this metric is at most 1"),
        ("caps = { cost = 0.05 }", "caps = { cost = nan }", "analysis.caps.cost: a number above 0"),
        (
            '"helpful", "stars", "cost", "error"]\nalpha = 0.1\nplanned_units = 20000\ncaps = { cost = 0.05 }',
            '"cost", "helpful", "error"]',
            "adaptive: weights that follow 'cost' become unequal",
        ),
        ('["country"]', '["a", "b", "c", "d", "e", "f"]', "analysis.slices: at most 5"),
        ("window_minutes = 120", "window_minutes = 0", "analysis.window_minutes: 1 to"),
        ("feedback_hours = 48", "feedback_hours = 1", "analysis.feedback_hours: from the window (120 minutes)"),
        ("error = 0.01", "latency = 0.01", "analysis.guardrails: 'latency' is not one of its metrics"),
        ("error = 0.01", "stars = 0.01", "[metrics.stars] has no `optimize`, and a guardrail must know what is worse"),
        ("error = 0.01", "error = -0.01", "analysis.guardrails.error: how much worse"),
        ("error = 0.01", "error = 1", "analysis.guardrails.error: a share of units cannot be worse by 1"),
        ("every_minutes = 30", "every_minutes = 1", "adaptive.every_minutes: 10 to"),
        ("minimum_share = 0.1", "minimum_share = 0.6", "adaptive.minimum_share: no arm goes below it, so it is 0.001 to 0.5 with 2 arms"),
        ("minimum_share = 0.1", "minimum_share = 0", "adaptive.minimum_share"),
        ("[models.fast.experiment]", '[models.fast.experiment]\nunit = "user"', "Only weights of episodes can follow the results"),
    ],
)
def test_invalid_analysis_is_refused_with_its_place(old: str, new: str, message: str):
    assert old in ANALYSED
    with pytest.raises(BadConfiguration) as refused:
        check(ANALYSED.replace(old, new, 1))
    assert message in str(refused.value)
