"""Settings as the admin API shows them: all of them, and no secret."""

from dataclasses import fields
from typing import Any, get_type_hints

import msgspec

from app.api.admin.configuration.settings import describe
from app.settings import ProxyUrl, Secrets, Settings

SECRET = "hunter2hunter2hunter2hunter2hunter2hunter2hu"


def test_every_setting_is_shown_without_secrets() -> None:
    hints = get_type_hints(Settings)
    values: dict[str, Any] = {each.name: Secrets(SECRET) for each in fields(Settings) if hints[each.name] is Secrets}
    values |= {
        each.name: f"postgresql://narthex:{SECRET}@db/narthex" for each in fields(Settings) if not each.repr and each.name not in values
    }
    values |= {"https_proxy": ProxyUrl(f"http://user:{SECRET}@proxy:3128"), "port": 9000}
    settings = Settings(**values)
    shown = {each.name: each for each in describe(settings).data}
    assert len(shown) == len(fields(Settings)) and SECRET.encode() not in msgspec.json.encode(describe(settings))
    port, database, proxy = shown["NARTHEX_PORT"], shown["DATABASE_URL"], shown["HTTPS_PROXY"]
    assert (port.value, port.is_set, port.secret) == (9000, True, False)
    assert (database.value, database.is_set, database.secret) == (None, True, True)
    assert "proxy:3128" in str(proxy.value) and not shown["NARTHEX_HOST"].is_set
