"""Laws of credentials: what is sealed opens under its own name and key alone, and nothing that was sent as a secret is said back."""

import base64
import importlib
import json
import os
import pkgutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct

import providers.credentials
from app.settings import BadSetting, Secrets, Settings
from app.store.config_file import BadConfiguration, parse_config_file
from app.store.config_validation import find_warnings, validate
from app.store.limit_validation import KnownNames
from app.store.snapshots import build_snapshot
from app.store.vault import NoEncryptionKey, Vault, WeakEncryptionKey, encryption_key_id
from app.supervisor import secret_key
from providers.credentials import CredentialError, UnsignedRequest
from providers.credentials.masking import MASK, SecretMask
from providers.credentials.references import check_usable, read
from providers.credentials.secret_record import SecretRecord
from tests.laws.chats import bounded

OLD, NEW = "an old key of the vault, drawn at random", "the new key of the vault, drawn at random"
secrets = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=8, max_size=60)
SERVICE_ACCOUNT = {
    "type": "service_account",
    "project_id": "canary-project",
    "private_key": "-----BEGIN PRIVATE KEY-----\nMIIcanaryLine1/of+key\nMIIcanaryLine2/of+key\n-----END PRIVATE KEY-----\n",
    "token_uri": "https://oauth2.example/token",
}


@bounded
@given(name=st.text(min_size=1, max_size=20), secret=st.text(max_size=200).filter(str.isprintable))
def test_what_is_sealed_opens_under_its_own_name_alone(name: str, secret: str) -> None:
    vault = Vault([OLD])
    sealed = vault.encrypt(name, secret)
    assert vault.decrypt(name, sealed) == secret and vault.encrypt(name, secret) != sealed
    with pytest.raises(CredentialError, match="damaged, or another's"):
        vault.decrypt(name + "2", sealed)


@bounded
@given(data=st.data())
def test_damage_is_told_as_such_wherever_it_is(data: st.DataObject) -> None:
    vault = Vault([OLD])
    sealed = vault.encrypt("openai", "sk-something")
    at = data.draw(st.integers(0, len(sealed) - 1))
    other = data.draw(st.sampled_from("AZaz09+/=.~é").filter(lambda each: each != sealed[at]))
    for damaged in (sealed[:at] + other + sealed[at + 1 :], sealed[:at]):
        try:  # the last digits of base64 may hold bits that say nothing
            assert vault.decrypt("openai", damaged) == "sk-something"
        except CredentialError as told:
            assert "sk-something" not in str(told)


def test_an_older_key_opens_and_the_newest_seals() -> None:
    sealed = Vault([OLD]).encrypt("openai", "sk-something")
    both = Vault([NEW, OLD])
    assert both.decrypt("openai", sealed) == "sk-something" and encryption_key_id(sealed) != both.newest_key_id
    anew = both.encrypt("openai", both.decrypt("openai", sealed))
    assert Vault([NEW]).decrypt("openai", anew) == "sk-something" and encryption_key_id(anew) == both.newest_key_id
    with pytest.raises(CredentialError, match=r"a key .* that NARTHEX_SECRET_KEY does not hold"):
        Vault([OLD]).decrypt("openai", anew)
    assert not Vault([OLD]).can_decrypt("openai", anew)


def test_without_a_key_nothing_is_stored_and_a_weak_one_is_refused() -> None:
    with pytest.raises(NoEncryptionKey, match="NARTHEX_SECRET_KEY"):
        Vault(()).encrypt("openai", "sk-something")
    for weak in ("short", "a" * 64, "abc" * 20):
        with pytest.raises(WeakEncryptionKey) as told:
            Vault([weak])
        assert weak not in str(told.value)


def test_a_home_makes_its_key_once_and_the_environment_wins(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path)
    secret_key.create_if_missing(settings)
    made = secret_key.key_path(settings).read_text().strip()
    secret_key.create_if_missing(settings)
    assert secret_key.key_path(settings).read_text().strip() == made and oct(secret_key.key_path(settings).stat().st_mode)[-3:] == "600"
    assert secret_key.resolve(settings).secret_key.parsed == (made,)
    named = Settings.read({"NARTHEX_HOME": str(tmp_path), "NARTHEX_SECRET_KEY": f"{NEW.replace(' ', '-').replace(',', '')}, {made}"})
    assert secret_key.resolve(named).secret_key.parsed[1] == made and secret_key.open_vault(named).newest_key_id
    with pytest.raises(BadSetting, match="NARTHEX_SECRET_KEY"):
        secret_key.open_vault(Settings(secret_key=Secrets("weak")))


def test_settings_show_no_secret() -> None:
    settings = Settings.read(
        {"NARTHEX_SECRET_KEY": "canary-canary", "DATABASE_URL": "postgresql://u:canary@h/n", "REDIS_URL": "redis://:canary@h"}
    )
    assert "canary" not in f"{settings!r} {settings} {settings.secret_key}"


@pytest.mark.parametrize("said", ["aws:default", " google:default\n", "aws:profile:prod", "", "two\nlines", "é"])
def test_what_callers_bring_is_a_credential_and_not_the_gateways_own(said: str) -> None:
    with pytest.raises(CredentialError):
        check_usable(said, "the header x-key")


def test_a_reference_is_read_where_it_says(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("of-a-file\n")
    os.environ["NARTHEX_TEST_REFERENCE"] = "of-the-environment"
    try:
        told = [
            read(each, lambda name: f"stored-{name}")
            for each in (None, "env:NARTHEX_TEST_REFERENCE", f"file:{tmp_path}/key", "store:a", "aws:default")
        ]
    finally:
        del os.environ["NARTHEX_TEST_REFERENCE"]
    assert told == [None, "of-the-environment", "of-a-file", "stored-a", "aws:default"]


@bounded
@given(secret=secrets, before=st.text(max_size=20), after=st.text(max_size=20))
def test_a_secret_is_hidden_whatever_it_looks_like(secret: str, before: str, after: str) -> None:
    hiding = SecretMask([secret])
    coded = base64.b64encode(f"user:{secret}".encode()).decode()
    assert secret not in hiding.mask(f"{before}{secret}{after}")
    assert MASK in hiding.mask(f"Basic {coded} was refused")
    assert secret.encode() not in hiding.mask_bytes(f"{before} {secret} {after}".encode())


@pytest.mark.parametrize(
    "said",
    [
        "key zebra.crossing!in-july is bad",
        "key zebr***july is bad",
        "key zebr...july is bad",
        "key=zebraXXXXXXXX",
        "bad key zebra.crossing!i",
        "bad key zebra.cr",
        "zebra.crossing%21in-july",
        base64.b64encode(b"zebra.crossing!in-july").decode(),
    ],
)
def test_a_part_that_a_host_leaves_is_hidden_too(said: str) -> None:
    hidden = SecretMask(["zebra.crossing!in-july"]).mask(said)
    assert MASK in hidden and "zebr" not in hidden and "july" not in hidden


@pytest.mark.parametrize("said", ["The model is overloaded...", "a zebra crossed", "xxxx", "july", "", "*** no ***"])
def test_what_is_no_secret_is_left(said: str) -> None:
    assert SecretMask(["zebra.crossing!in-july"]).mask(said) == said
    assert SecretMask([]).mask(said) == said


def test_the_parts_of_a_json_credential_are_secrets_and_its_names_and_addresses_are_not() -> None:
    secret = json.dumps(SERVICE_ACCOUNT, indent=2)
    hiding = SecretMask([secret])
    for leaked in (
        secret,
        SERVICE_ACCOUNT["private_key"],
        "MIIcanaryLine2/of+key",
        json.dumps({"e": SERVICE_ACCOUNT["private_key"]}),
    ):
        assert "canary" not in hiding.mask(leaked) and "canary" not in hiding.mask_bytes(leaked.encode()).decode()
    for told in ("service_account at https://oauth2.example/token", f"no such project: {SERVICE_ACCOUNT['project_id']}"):
        assert hiding.mask(told) == told


def test_hiding_is_quick_whatever_a_host_says() -> None:
    hiding = SecretMask(["zebra.crossing!in-july", json.dumps(SERVICE_ACCOUNT)])
    for said in (b"zebra.crossi" * 50_000, b"x" * 600_000, b"\xff" * 600_000):
        assert b"zebra.crossi" not in hiding.mask_bytes(said)
    for said in ("a**" * 600, "x" * 2000, "zebr" * 500):
        assert isinstance(hiding.mask(said), str)


@pytest.mark.parametrize("address", ["https://user:canary@host/v1", "https://host/v1?key=canary", "https://host/v1#canary"])
def test_an_address_with_a_secret_in_it_is_refused_unrepeated(address: str) -> None:
    file = parse_config_file(f'[providers.a]\nadapter = "openai"\nbase_url = "{address}"')
    with pytest.raises(BadConfiguration) as told:
        validate(build_snapshot(1, file.providers or {}, {}))
    assert "canary" not in str(told.value)


@pytest.mark.parametrize("said", ["canary-literal", "env:", "store:../x", "header:authorization", "header:x-narthex-key", "aws:canary"])
def test_a_literal_in_the_place_of_a_reference_is_refused_unrepeated(said: str) -> None:
    file = parse_config_file(f'[providers.a]\nadapter = "openai"\ncredential = ["env:GOOD", "{said}"]')
    with pytest.raises(BadConfiguration) as told:
        validate(build_snapshot(1, file.providers or {}, {}))
    assert "canary" not in str(told.value)


def test_what_is_named_and_not_stored_is_warned_of() -> None:
    file = parse_config_file('[providers.a]\nadapter = "openai"\ncredential = ["store:there", "store:later"]')
    wanted = build_snapshot(1, file.providers or {}, {}, credentials={"there": Vault([OLD]).encrypt("there", "sk")})
    validate(wanted)
    (warning,) = find_warnings(wanted, KnownNames())
    assert "providers.a.credential" in warning and "'later'" in warning and "narthex credentials set later" in warning


MODULES = [importlib.import_module(f"providers.credentials.{each.name}") for each in pkgutil.iter_modules(providers.credentials.__path__)]


@pytest.mark.parametrize("record", SecretRecord.__subclasses__(), ids=lambda each: each.__name__)
def test_a_record_that_holds_a_secret_does_not_show_it(record: type[SecretRecord]) -> None:
    held = record(*["canary" for _ in record.__struct_fields__])
    assert "canary" in str([getattr(held, each) for each in record.__struct_fields__])
    assert "canary" not in repr(held) + str(held) + f"{held}" + repr([held])


def test_every_record_of_credentials_is_one_of_those_or_holds_none() -> None:
    """What a token server says is wrong, and the account that a file names."""
    records = {each for module in MODULES for each in vars(module).values() if isinstance(each, type) and issubclass(each, Struct)}
    assert {each.__name__ for each in records - {Struct} if not issubclass(each, SecretRecord)} == {"_TokenError", "_Account"}
    assert UnsignedRequest in records
