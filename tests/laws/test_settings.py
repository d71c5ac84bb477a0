"""Laws of settings: what an operator writes is what is in force, and what cannot be is refused by the name that was set."""

import dataclasses
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.settings import BadSetting, Settings, environment_name
from tests.laws.chats import bounded

HINTS = get_type_hints(Settings)
FIELDS = {each.name: each for each in dataclasses.fields(Settings)}
NAMES = {name: environment_name(each) for name, each in FIELDS.items()}


def named(*kinds: Any) -> list[str]:
    return [name for name, hint in HINTS.items() if hint in kinds or get_origin(hint) in kinds]


def test_nothing_set_is_the_defaults() -> None:
    assert Settings.read({}) == Settings()
    assert Settings.read({name: "" for name in NAMES.values()}) == Settings()


def test_every_setting_has_a_name_of_its_own_and_a_meaning() -> None:
    assert len(set(NAMES.values())) == len(FIELDS)
    assert all(each.metadata["meaning"].endswith(".") for each in FIELDS.values())
    assert {name for name in NAMES.values() if not name.startswith("NARTHEX_")} == {"DATABASE_URL", "REDIS_URL", "HTTPS_PROXY", "NO_PROXY"}


def test_units_are_in_the_names() -> None:
    for name in named(float):
        assert name.rsplit("_", 1)[-1] in ("s", "ms"), name


@bounded
@given(
    st.fixed_dictionaries(
        {}, optional={name: st.integers(0, 2**40) for name in named(int)} | {name: st.floats(0, 1e9) for name in named(float)}
    )
)
def test_numbers_are_what_was_written(said: dict[str, float]) -> None:
    settings = Settings.read({NAMES[name]: str(value) for name, value in said.items()} | {"UNRELATED": "x"})
    for name in FIELDS:
        assert getattr(settings, name) == said.get(name, getattr(Settings(), name))


@pytest.mark.parametrize("name", named(Literal))
def test_one_of_a_few_is_any_of_them_and_nothing_else(name: str) -> None:
    for value in get_args(HINTS[name]):
        assert getattr(Settings.read({NAMES[name]: value}), name) == value
    with pytest.raises(BadSetting) as refused:
        Settings.read({NAMES[name]: "sometimes"})
    assert NAMES[name] in str(refused.value)
    assert all(value in str(refused.value) for value in get_args(HINTS[name]))


@pytest.mark.parametrize("name", named(str, Path))
def test_text_is_taken_as_it_is(name: str) -> None:
    assert str(getattr(Settings.read({NAMES[name]: "some/where"}), name)) == "some/where"


@pytest.mark.parametrize("text", ["-1", "many", "nan", "inf", "-inf", "1.5s", "0x10", " "])
@pytest.mark.parametrize("name", [*named(int), *named(float)])
def test_what_is_no_number_is_refused_by_name(name: str, text: str) -> None:
    with pytest.raises(BadSetting, match=NAMES[name]):
        Settings.read({NAMES[name]: text})


def test_half_a_worker_is_refused() -> None:
    with pytest.raises(BadSetting, match="whole number"):
        Settings.read({"NARTHEX_WORKERS": "1.5"})


def test_authorities_are_read_when_the_settings_are(tmp_path: Path) -> None:
    ours = str(Path(__file__).with_name("tls") / "ca.pem")
    assert Settings.read({"NARTHEX_CA_BUNDLE": ours}).ca_bundle == ours
    for said in (str(tmp_path / "nothing-here.pem"), __file__):
        with pytest.raises(BadSetting, match=r"^NARTHEX_CA_BUNDLE: no certificates can be read from .+: .+") as refused:
            Settings.read({"NARTHEX_CA_BUNDLE": said})
        assert said in str(refused.value)
