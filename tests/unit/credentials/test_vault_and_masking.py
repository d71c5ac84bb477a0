"""Credentials: a stored secret decrypts only under its own name and key, and nothing sent as a secret is repeated in messages."""

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
from app.domain.errors import BadConfiguration
from app.settings import BadSetting, Secrets, Settings
from app.store.configuration.config_file import parse_config_file
from app.store.configuration.snapshots import build_snapshot
from app.store.configuration.validation.known_names import KnownNames
from app.store.configuration.validation.validate import find_warnings, validate
from app.store.postgres.vault import NoEncryptionKey, Vault, WeakEncryptionKey, encryption_key_id
from app.supervisor.machine import secret_key
from providers.credentials import CredentialError, UnsignedRequest
from providers.credentials.masking import MASK, SecretMask
from providers.credentials.references import CredentialReader, check, check_usable
from providers.credentials.secret_record import SecretRecord
from tests.support.strategies.chat_strategies import bounded

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
def test_encrypted_secret_decrypts_only_under_its_own_name(name: str, secret: str) -> None:
    vault = Vault([OLD])
    encrypted = vault.encrypt(name, secret)
    assert vault.decrypt(name, encrypted) == secret and vault.encrypt(name, secret) != encrypted
    with pytest.raises(CredentialError, match="damaged, or of another name"):
        vault.decrypt(name + "2", encrypted)


@bounded
@given(place=st.floats(0, 1, exclude_max=True), other=st.sampled_from("AZaz09+/=.~é"))
def test_damaged_ciphertext_is_refused_without_showing_the_secret(place: float, other: str) -> None:
    vault = Vault([OLD])
    encrypted = vault.encrypt("openai", "sk-something")
    at = int(place * len(encrypted))
    other = "!" if other == encrypted[at] else other
    for damaged in (encrypted[:at] + other + encrypted[at + 1 :], encrypted[:at]):
        try:  # the last base64 digits may hold unused bits
            assert vault.decrypt("openai", damaged) == "sk-something"
        except CredentialError as error:
            assert "sk-something" not in str(error)


def test_older_keys_decrypt_and_the_newest_encrypts() -> None:
    encrypted = Vault([OLD]).encrypt("openai", "sk-something")
    both = Vault([NEW, OLD])
    assert both.decrypt("openai", encrypted) == "sk-something" and encryption_key_id(encrypted) != both.newest_key_id
    reencrypted = both.encrypt("openai", both.decrypt("openai", encrypted))
    assert Vault([NEW]).decrypt("openai", reencrypted) == "sk-something" and encryption_key_id(reencrypted) == both.newest_key_id
    with pytest.raises(CredentialError, match=r"a key .* that NARTHEX_SECRET_KEY does not hold"):
        Vault([OLD]).decrypt("openai", reencrypted)
    assert not Vault([OLD]).can_decrypt("openai", reencrypted)


def test_encryption_needs_a_key_and_weak_keys_are_refused() -> None:
    with pytest.raises(NoEncryptionKey, match="NARTHEX_SECRET_KEY"):
        Vault(()).encrypt("openai", "sk-something")
    for weak in ("short", "a" * 64, "abc" * 20):
        with pytest.raises(WeakEncryptionKey) as raised:
            Vault([weak])
        assert weak not in str(raised.value)


def test_home_key_is_created_once_and_the_environment_takes_precedence(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path)
    secret_key.create_if_missing(settings)
    home_key = secret_key.key_path(settings).read_text().strip()
    secret_key.create_if_missing(settings)
    assert secret_key.key_path(settings).read_text().strip() == home_key and oct(secret_key.key_path(settings).stat().st_mode)[-3:] == "600"
    assert secret_key.resolve(settings).secret_key.parsed == (home_key,)
    env_settings = Settings.read(
        {"NARTHEX_HOME": str(tmp_path), "NARTHEX_SECRET_KEY": f"{NEW.replace(' ', '-').replace(',', '')}, {home_key}"}
    )
    assert secret_key.resolve(env_settings).secret_key.parsed[1] == home_key and secret_key.open_vault(env_settings).newest_key_id
    with pytest.raises(BadSetting, match="NARTHEX_SECRET_KEY"):
        secret_key.open_vault(Settings(secret_key=Secrets("weak")))


def test_settings_never_show_secrets() -> None:
    settings = Settings.read(
        {
            "NARTHEX_SECRET_KEY": "canary-canary",
            "DATABASE_URL": "postgresql://u:canary@h/n",
            "DATABASE_DIRECT_URL": "postgresql://u:canary@d/n",
            "REDIS_URL": "redis://:canary@h",
        }
    )
    assert "canary" not in f"{settings!r} {settings} {settings.secret_key}"


@pytest.mark.parametrize("credential", ["aws:default", " google:default\n", "aws:profile:prod", "", "two\nlines", "é"])
def test_unusable_caller_credential_is_refused(credential: str) -> None:
    with pytest.raises(CredentialError):
        check_usable(credential, "the header x-key")


def test_credential_reference_is_read_from_its_source(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("of-a-file\n")
    os.environ["TEST_REFERENCE"] = "of-the-environment"
    try:
        values = [
            CredentialReader(lambda name: f"stored-{name}", (tmp_path,)).read(each)
            for each in (None, "env:TEST_REFERENCE", f"file:{tmp_path}/key", "store:a", "aws:default")
        ]
    finally:
        del os.environ["TEST_REFERENCE"]
    assert values == [None, "of-the-environment", "of-a-file", "stored-a", "aws:default"]


@pytest.mark.parametrize("name", ["NARTHEX_SECRET_KEY", "DATABASE_URL", "DATABASE_DIRECT_URL", "REDIS_URL", "https_proxy"])
def test_secrets_of_the_gateway_itself_are_no_credentials(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "canary")
    with pytest.raises(CredentialError, match=f"{name} is the gateway's own"):
        check(f"env:{name}")
    with pytest.raises(CredentialError, match=f"{name} is the gateway's own"):
        CredentialReader(lambda name: "", ()).read(f"env:{name}")


@pytest.mark.parametrize("location", ["secret", "folder/../../secret", "folder/link", "folder-beside/secret", "folder/loop"])
def test_file_outside_of_the_folders_of_credentials_is_not_read(location: str, tmp_path: Path) -> None:
    for folder in ("folder", "folder-beside"):
        (tmp_path / folder).mkdir()
    for name in ("secret", "folder-beside/secret"):
        (tmp_path / name).write_text("canary")
    (tmp_path / "folder" / "link").symlink_to(tmp_path / "secret")
    (tmp_path / "folder" / "loop").symlink_to(tmp_path / "folder" / "loop")
    reader = CredentialReader(lambda name: "", (tmp_path / "missing", tmp_path / "folder"))
    with pytest.raises(CredentialError, match="file") as refused:
        reader.read(f"file:{tmp_path}/{location}")
    assert "canary" not in str(refused.value) and str(tmp_path / "folder") in str(refused.value)


def test_file_is_read_through_links_within_the_folders_of_credentials(tmp_path: Path) -> None:
    """Kubernetes mounts a secret through such links; the folder itself may be a link too."""
    (tmp_path / "mounted" / "..2026").mkdir(parents=True)
    (tmp_path / "mounted" / "..2026" / "key").write_text("a-secret")
    (tmp_path / "mounted" / "..data").symlink_to("..2026")
    (tmp_path / "mounted" / "key").symlink_to("..data/key")
    (tmp_path / "folder").symlink_to(tmp_path / "mounted")
    for folder in ("folder", "mounted"):
        assert CredentialReader(lambda name: "", (tmp_path / folder,)).read(f"file:{tmp_path}/folder/key") == "a-secret"


@bounded
@given(secret=secrets, before=st.text(max_size=20), after=st.text(max_size=20))
def test_secret_is_masked_whatever_it_looks_like(secret: str, before: str, after: str) -> None:
    secret_mask = SecretMask([secret])
    encoded = base64.b64encode(f"user:{secret}".encode()).decode()
    assert secret not in secret_mask.mask(f"{before}{secret}{after}")
    assert MASK in secret_mask.mask(f"Basic {encoded} was refused")
    assert secret.encode() not in secret_mask.mask_bytes(f"{before} {secret} {after}".encode())


@pytest.mark.parametrize(
    "text",
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
def test_partly_redacted_secret_is_masked_too(text: str) -> None:
    masked = SecretMask(["zebra.crossing!in-july"]).mask(text)
    assert MASK in masked and "zebr" not in masked and "july" not in masked


@pytest.mark.parametrize("text", ["The model is overloaded...", "a zebra crossed", "xxxx", "july", "", "*** no ***"])
def test_text_without_the_secret_is_left_unchanged(text: str) -> None:
    assert SecretMask(["zebra.crossing!in-july"]).mask(text) == text
    assert SecretMask([]).mask(text) == text


def test_secret_parts_of_a_json_credential_are_masked_and_public_ones_are_not() -> None:
    secret = json.dumps(SERVICE_ACCOUNT, indent=2)
    secret_mask = SecretMask([secret])
    for leaked in (
        secret,
        SERVICE_ACCOUNT["private_key"],
        "MIIcanaryLine2/of+key",
        json.dumps({"e": SERVICE_ACCOUNT["private_key"]}),
    ):
        assert "canary" not in secret_mask.mask(leaked) and "canary" not in secret_mask.mask_bytes(leaked.encode()).decode()
    for public_text in ("service_account at https://oauth2.example/token", f"no such project: {SERVICE_ACCOUNT['project_id']}"):
        assert secret_mask.mask(public_text) == public_text


def test_masking_handles_large_and_repetitive_texts() -> None:
    secret_mask = SecretMask(["zebra.crossing!in-july", json.dumps(SERVICE_ACCOUNT)])
    for text in (b"zebra.crossi" * 50_000, b"x" * 600_000, b"\xff" * 600_000):
        assert b"zebra.crossi" not in secret_mask.mask_bytes(text)
    for text in ("a**" * 600, "x" * 2000, "zebr" * 500):
        assert isinstance(secret_mask.mask(text), str)


@pytest.mark.parametrize("address", ["https://user:canary@host/v1", "https://host/v1?key=canary", "https://host/v1#canary"])
def test_base_url_containing_a_secret_is_refused_without_quoting_it(address: str) -> None:
    file = parse_config_file(f'[providers.a]\nadapter = "openai"\nbase_url = "{address}"')
    with pytest.raises(BadConfiguration) as raised:
        validate(build_snapshot(1, file.providers or {}, {}))
    assert "canary" not in str(raised.value)


@pytest.mark.parametrize(
    "reference", ["canary-literal", "env:", "store:../x", "header:authorization", "header:x-narthex-key", "aws:canary"]
)
def test_literal_instead_of_a_credential_reference_is_refused_without_quoting_it(reference: str) -> None:
    file = parse_config_file(f'[providers.a]\nadapter = "openai"\ncredential = ["env:GOOD", "{reference}"]')
    with pytest.raises(BadConfiguration) as raised:
        validate(build_snapshot(1, file.providers or {}, {}))
    assert "canary" not in str(raised.value)


def test_missing_stored_credential_is_warned_about() -> None:
    file = parse_config_file('[providers.a]\nadapter = "openai"\ncredential = ["store:there", "store:later"]')
    snapshot = build_snapshot(1, file.providers or {}, {}, credentials={"there": Vault([OLD]).encrypt("there", "sk")})
    validate(snapshot)
    (warning,) = find_warnings(snapshot, KnownNames())
    assert "providers.a.credential" in warning and "'later'" in warning and "narthex credentials set later" in warning


MODULES = [importlib.import_module(f"providers.credentials.{each.name}") for each in pkgutil.iter_modules(providers.credentials.__path__)]


@pytest.mark.parametrize("record", SecretRecord.__subclasses__(), ids=lambda each: each.__name__)
def test_secret_records_never_show_their_values(record: type[SecretRecord]) -> None:
    instance = record(*["canary" for _ in record.__struct_fields__])
    assert "canary" in str([getattr(instance, each) for each in record.__struct_fields__])
    assert "canary" not in repr(instance) + str(instance) + f"{instance}" + repr([instance])


def test_every_credential_record_is_a_secret_record_or_holds_no_secret() -> None:
    """The two that hold none: a token server's error, and the account that a file names."""
    records = {each for module in MODULES for each in vars(module).values() if isinstance(each, type) and issubclass(each, Struct)}
    assert {each.__name__ for each in records - {Struct} if not issubclass(each, SecretRecord)} == {"_TokenError", "_Account"}
    assert UnsignedRequest in records
