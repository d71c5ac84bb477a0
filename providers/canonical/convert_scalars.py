"""Numbers and strings in each other's place: `"temperature": "0.7"`, `"max_tokens": "100"`, `"stream": "true"`, `"user": 123`.

Forms, environment variables and low-code tools send them so, and many engines read them so; hosts answer 400. Only the fields at the top
level are converted, and only where the text says nothing but the number; whatever else has a wrong type is refused by its path.
"""

import functools
import re
from collections.abc import Mapping
from typing import Any

from msgspec import Raw, inspect

from providers.canonical.raw_json import DECODE_ERRORS, Body

_NUMBER = re.compile(rb"-?\d{1,18}(?:\.\d{1,18})?")
_DECIMAL = re.compile(rb"-?(?:0|[1-9]\d{0,17})(?:\.\d{1,18})?")
_BOOLEANS: Mapping[bytes, Raw] = {b'"true"': Raw(b"true"), b'"True"': Raw(b"true"), b'"false"': Raw(b"false"), b'"False"': Raw(b"false")}
# Texts that are names of somebody, for which some clients send the number of a row.
_NAMES = frozenset({"user", "safety_identifier", "prompt_cache_key"})


def convert_scalars(raw: bytes, schema: Any) -> bytes | None:
    """The body with its scalars of a wrong type converted. None: there is none to convert. `schema` is the Struct that it is decoded as."""
    try:
        body = Body.read(raw)
    except DECODE_ERRORS:
        return None
    kinds = _scalar_kinds(schema)
    converted = {field: value for field in kinds.keys() & body.keys() if (value := _convert(bytes(body[field]), kinds[field])) is not None}
    if not converted:
        return None
    body.update(converted)
    return body.write()


def _convert(value: bytes, kinds: frozenset[type]) -> Raw | None:
    if str in kinds:
        return Raw(b'"' + value + b'"') if _NUMBER.fullmatch(value) else None
    if bool in kinds:
        return _BOOLEANS.get(value)
    number = value[1:-1].strip() if value[:1] == b'"' else b""
    if not _DECIMAL.fullmatch(number) or (b"." in number and float not in kinds):
        return None
    return Raw(number)


@functools.cache
def _scalar_kinds(schema: Any) -> Mapping[str, frozenset[type]]:
    """The fields that are one scalar or null, with the types that it may have; of texts only those of `_NAMES`."""
    info = inspect.type_info(schema)
    assert isinstance(info, inspect.StructType)
    kinds: dict[str, frozenset[type]] = {}
    for field in info.fields:
        types = field.type.types if isinstance(field.type, inspect.UnionType) else (field.type,)
        scalars = frozenset(_PYTHON_TYPES[type(each)] for each in types if type(each) in _PYTHON_TYPES)
        others = [each for each in types if type(each) not in _PYTHON_TYPES and not isinstance(each, inspect.NoneType)]
        if scalars and not others and (str not in scalars or field.encode_name in _NAMES):
            kinds[field.encode_name] = scalars
    return kinds


_PYTHON_TYPES: Mapping[type[inspect.Type], type] = {
    inspect.IntType: int,
    inspect.FloatType: float,
    inspect.BoolType: bool,
    inspect.StrType: str,
}
