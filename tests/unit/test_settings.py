"""Settings: what an operator writes is what applies, and an invalid value is refused with the name of its setting."""

import dataclasses
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.settings import BadSetting, Settings, environment_name
from tests.support.case_tables import assert_every
from tests.support.strategies.chat_strategies import bounded

HINTS = get_type_hints(Settings)
FIELDS = {each.name: each for each in dataclasses.fields(Settings)}
ENVIRONMENT_NAMES = {name: environment_name(each) for name, each in FIELDS.items()}


def fields_of_type(*kinds: Any) -> list[str]:
    return [name for name, hint in HINTS.items() if hint in kinds or get_origin(hint) in kinds]


def test_empty_environment_gives_the_default_settings() -> None:
    assert Settings.read({}) == Settings()
    assert Settings.read({name: "" for name in ENVIRONMENT_NAMES.values()}) == Settings()


def test_every_setting_has_a_unique_environment_name_and_a_description() -> None:
    assert len(set(ENVIRONMENT_NAMES.values())) == len(FIELDS)
    assert all(each.metadata["meaning"].endswith(".") for each in FIELDS.values())
    assert {name for name in ENVIRONMENT_NAMES.values() if not name.startswith("NARTHEX_")} == {
        "DATABASE_URL",
        "DATABASE_DIRECT_URL",
        "REDIS_URL",
        "HTTPS_PROXY",
        "NO_PROXY",
    }


def test_float_settings_have_a_time_unit_in_their_name() -> None:
    for name in fields_of_type(float):
        assert name.rsplit("_", 1)[-1] in ("s", "ms"), name


@bounded
@given(
    st.fixed_dictionaries(
        {},
        optional={name: st.integers(0, 2**40) for name in fields_of_type(int)}
        | {name: st.floats(0, 1e9) for name in fields_of_type(float)},
    )
)
def test_numeric_settings_are_read_from_the_environment(written: dict[str, float]) -> None:
    settings = Settings.read({ENVIRONMENT_NAMES[name]: str(value) for name, value in written.items()} | {"UNRELATED": "x"})
    for name in FIELDS:
        assert getattr(settings, name) == written.get(name, getattr(Settings(), name))


@pytest.mark.parametrize("name", fields_of_type(Literal))
def test_choice_setting_accepts_its_values_and_lists_them_when_refusing(name: str) -> None:
    for value in get_args(HINTS[name]):
        assert getattr(Settings.read({ENVIRONMENT_NAMES[name]: value}), name) == value
    with pytest.raises(BadSetting) as refused:
        Settings.read({ENVIRONMENT_NAMES[name]: "sometimes"})
    assert ENVIRONMENT_NAMES[name] in str(refused.value)
    assert all(value in str(refused.value) for value in get_args(HINTS[name]))


@pytest.mark.parametrize("name", fields_of_type(str, Path))
def test_text_setting_is_read_unchanged(name: str) -> None:
    assert str(getattr(Settings.read({ENVIRONMENT_NAMES[name]: "some/where"}), name)) == "some/where"


def test_invalid_number_is_refused_with_the_name_of_the_setting() -> None:
    def check(name_and_text: tuple[str, str]) -> None:
        name, text = name_and_text
        with pytest.raises(BadSetting, match=ENVIRONMENT_NAMES[name]):
            Settings.read({ENVIRONMENT_NAMES[name]: text})

    texts = ["-1", "many", "nan", "inf", "-inf", "1.5s", "0x10", " "]
    assert_every(check, [(name, text) for name in [*fields_of_type(int), *fields_of_type(float)] for text in texts])


def test_fractional_worker_count_is_refused() -> None:
    with pytest.raises(BadSetting, match="whole number"):
        Settings.read({"NARTHEX_WORKERS": "1.5"})


def test_ca_bundle_is_loaded_when_settings_are_read(tmp_path: Path) -> None:
    test_ca = str(Path(__file__).parents[1] / "support" / "tls" / "ca.pem")
    assert Settings.read({"NARTHEX_CA_BUNDLE": test_ca}).ca_bundle == test_ca
    for path in (str(tmp_path / "nothing-here.pem"), __file__):
        with pytest.raises(BadSetting, match=r"^NARTHEX_CA_BUNDLE: no certificates can be read from .+: .+") as refused:
            Settings.read({"NARTHEX_CA_BUNDLE": path})
        assert path in str(refused.value)


def test_folders_of_credentials_are_absolute_and_include_that_of_the_home(tmp_path: Path) -> None:
    settings = Settings.read({"NARTHEX_HOME": str(tmp_path), "NARTHEX_CREDENTIAL_FOLDERS": "/mnt/one, /mnt/two"})
    assert settings.folders_of_credentials == (Path("/mnt/one"), Path("/mnt/two"), tmp_path / "credentials")
    assert Settings(home=tmp_path).folders_of_credentials == (
        Path("/run/secrets/narthex"),
        Path("/etc/narthex/credentials"),
        tmp_path / "credentials",
    )
    with pytest.raises(BadSetting, match=r"NARTHEX_CREDENTIAL_FOLDERS.*absolute"):
        Settings.read({"NARTHEX_CREDENTIAL_FOLDERS": "/mnt/one,secrets"})


def test_standard_variables_of_opentelemetry_count_where_ours_are_not_set():
    standard = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318/", "OTEL_EXPORTER_OTLP_HEADERS": "Authorization=Bearer%20a, x-b=c"}
    settings = Settings.read(standard)
    assert settings.otlp_endpoint == "http://collector:4318"
    assert settings.otlp_headers.parsed == {"authorization": "Bearer a", "x-b": "c"} and "Bearer" not in repr(settings)
    assert Settings.read({**standard, "NARTHEX_OTLP_ENDPOINT": "https://other/otlp"}).otlp_endpoint == "https://other/otlp"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("NARTHEX_OTLP_ENDPOINT", "http://user:secret@collector"),
        ("NARTHEX_OTLP_ENDPOINT", "collector:4318"),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector/?secret=1"),
        ("NARTHEX_OTLP_HEADERS", "a b=secret"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "a=secret%0d%0ab"),
        ("NARTHEX_TRACE_SHARE", "1.5"),
        ("NARTHEX_TRACE_SHARE", "nan"),
    ],
)
def test_bad_settings_of_telemetry_are_refused_without_their_value(name: str, value: str):
    with pytest.raises(BadSetting, match=name) as raised:
        Settings.read({name: value})
    assert "secret" not in str(raised.value)


def test_setting_without_a_variable_is_read_from_its_file_among_the_credentials(tmp_path: Path) -> None:
    (tmp_path / "DATABASE_URL").write_text("postgresql://narthex:secret@db/narthex\n")
    (tmp_path / "NARTHEX_PORT").write_text("9000")
    (tmp_path / "unrelated").write_text("x")
    environment = {"CREDENTIALS_DIRECTORY": str(tmp_path), "NARTHEX_PORT": "9001", "DATABASE_URL": ""}
    settings = Settings.read(environment)
    assert settings == dataclasses.replace(Settings(), database_url="postgresql://narthex:secret@db/narthex", port=9001)
    assert Settings.read({"CREDENTIALS_DIRECTORY": str(tmp_path / "nowhere")}) == Settings()
    (tmp_path / "REDIS_URL").write_bytes(b"\xff")
    with pytest.raises(BadSetting, match=r"^REDIS_URL: .*/REDIS_URL cannot be read: it is not text\.$"):
        Settings.read(environment)


def test_direct_address_of_something_else_is_refused_without_showing_it() -> None:
    with pytest.raises(BadSetting, match=r"^DATABASE_DIRECT_URL: it must be the address of a PostgreSQL server") as refused:
        Settings.read({"DATABASE_DIRECT_URL": "mysql://ann:canary@db"})
    assert "canary" not in str(refused.value)


def test_what_needs_a_session_takes_the_direct_address_if_there_is_one() -> None:
    pooled = {"DATABASE_URL": "postgresql://pooler/narthex"}
    assert Settings.read(pooled).session_url == "postgresql://pooler/narthex"
    assert Settings.read(pooled | {"DATABASE_DIRECT_URL": "postgresql://db/narthex"}).session_url == "postgresql://db/narthex"
