"""Shadows of a configuration file: what cannot be is refused with its place and the reason."""

import pytest

from app.domain.errors import BadConfiguration
from app.domain.limits import Limit
from app.store.configuration.config_file import parse_config_file, write_file
from app.store.configuration.entries import find_references
from app.store.configuration.rows import State
from app.store.configuration.snapshots import build_snapshot
from app.store.configuration.validation.shadows import check_shadow_teams, shadow_limits
from app.store.configuration.validation.validate import validate

FILE = """
[providers.sandbox]
adapter = "openai"
base_url = "http://127.0.0.1:1"
[models]
small.targets = [{ provider = "sandbox", model = "small" }]
large = { targets = [{ provider = "sandbox", model = "large" }], fallbacks = ["small"] }
split.experiment = { arms = { small = 1, large = 1 } }
[models.fast]
targets = [{ provider = "sandbox", model = "medium" }]
shadow = { to = "large", team = "lab", share = 0.25, max_concurrent = 2, per_minute = 30, usd_per_day = 1.5 }
[functions.task]
default = "plain"
[functions.task.variants]
plain.model = "small"
polite.model = "large"
[functions.task.shadow]
to = "polite"
team = "lab"
share = 1
"""


def read(content: str = FILE):
    file = parse_config_file(content)
    snapshot = build_snapshot(1, file.providers or {}, file.models or {}, file.limits or (), functions=file.functions or {})
    validate(snapshot)
    return snapshot


def test_every_setting_is_written_and_read_back():
    snapshot = read()
    again = parse_config_file(write_file(snapshot, {}))
    assert (again.models, again.functions) == (dict(snapshot.models), dict(snapshot.functions))


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ('to = "large"', 'to = "nothing"', "models.fast.shadow.to: there is no model 'nothing'."),
        ('to = "large"', 'to = "fast"', "models.fast.shadow.to: the model itself answers already"),
        ('to = "large"', 'to = "split"', "models.fast.shadow.to: the model 'split' has an experiment and no targets"),
        (
            '"sandbox", model = "large" }',
            '"sandbox", model = "large", weight = 0 }',
            "models.fast.shadow.to: the targets of the model 'large' all",
        ),
        ('to = "polite"', 'to = "rude"', "functions.task.shadow.to: 'rude' is not one of its variants: plain, polite."),
        ('to = "polite"', 'to = "plain"', "functions.task.shadow.to: the variant 'plain' answers every request already"),
        ("share = 0.25", "share = 1.5", "models.fast.shadow.share: the share of requests is a number from 0 to 1, not 1.5."),
        ("share = 0.25", "share = nan", "models.fast.shadow.share"),
        ("max_concurrent = 2", "max_concurrent = 0", "models.fast.shadow.max_concurrent: 1 to 1000 shadows at once, not 0."),
        ("per_minute = 30", "per_minute = 0", "models.fast.shadow.per_minute: 1 to 1000000 shadows in a minute, not 0."),
        ("usd_per_day = 1.5", "usd_per_day = 0", "models.fast.shadow.usd_per_day: US dollars from 0.000001"),
        ("share = 0.25, ", "", "missing required field"),
        ("share = 0.25", "share = 0.25, shares = 1", "unknown field"),
        (
            'base_url = "http://127.0.0.1:1"',
            "base_url = 'http://127.0.0.1:1'\n[[limits]]\nname = 'shadow/task/per_minute'\nscope = 'all'\n"
            "resource = 'requests'\namount = 1\nper = 'day'",
            "is the name of a bound of a shadow",
        ),
    ],
)
def test_what_cannot_be_is_refused_with_its_place(old: str, new: str, fault: str):
    with pytest.raises(BadConfiguration) as refused:
        read(FILE.replace(old, new, 1))
    assert fault in str(refused.value)


def test_team_that_does_not_exist_is_refused():
    check_shadow_teams(read(), {"lab"})
    with pytest.raises(BadConfiguration, match=r"models\.fast\.shadow\.team: there is no team 'lab'"):
        check_shadow_teams(read(), {"sales"})


def test_bounds_are_limits_that_refuse_while_redis_is_away():
    limits = {limit.name: limit for limit in shadow_limits(read())}
    assert limits["shadow/fast/usd_per_day"] == Limit(
        "shadow/fast/usd_per_day", {"shadow": "fast"}, "cost_usd", 1.5, "day", on_outage="refuse"
    )
    assert {name: limit.amount for name, limit in limits.items()} == {
        "shadow/fast/max_concurrent": 2,
        "shadow/fast/per_minute": 30,
        "shadow/fast/usd_per_day": 1.5,
        "shadow/task/max_concurrent": 4,
        "shadow/task/per_minute": 60,
    }


def test_model_that_a_shadow_names_cannot_be_removed():
    assert "models.fast.shadow.to" in find_references(State(read(), {}), "models", "large")
