"""Regexes of the formats of JSON schema: what matches is valid, and what is usual matches (a quoted e-mail address does not, for example).

The formats: https://json-schema.org/draft/2020-12/json-schema-validation#name-defined-formats, read 2026-11.
"""

from collections.abc import Mapping

_DIVISIBLE_BY_FOUR = "(0[48]|[2468][048]|[13579][26])"
_MONTH_DAYS = (
    "(0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])",
    "(0[469]|11)-(0[1-9]|[12][0-9]|30)",
    "02-(0[1-9]|1[0-9]|2[0-8])",
)
_DATE = f"([0-9]{{4}}-({'|'.join(_MONTH_DAYS)})|([0-9]{{2}}{_DIVISIBLE_BY_FOUR}|{_DIVISIBLE_BY_FOUR}00)-02-29)"
_TIME = r"([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]{1,9})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])"
_LABEL = "[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_BYTE = "(25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"

FORMAT_REGEXES: Mapping[str, str] = {
    "date": _DATE,
    "time": _TIME,
    "date-time": f"{_DATE}T{_TIME}",
    "email": rf"[A-Za-z0-9_+-]+(\.[A-Za-z0-9_+-]+){{0,8}}@{_LABEL}(\.{_LABEL}){{1,4}}",
    "hostname": rf"{_LABEL}(\.{_LABEL}){{0,4}}",
    "ipv4": rf"{_BYTE}(\.{_BYTE}){{3}}",
    "uri": r"[a-z][a-z0-9+.-]*:[A-Za-z0-9._~:/?#@!$&()*+,;=-]+",
    "uuid": r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}",
}
