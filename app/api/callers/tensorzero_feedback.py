"""TensorZero's feedback as ours: its client sends every field, null where it is not set, and two that ours does not have."""

import msgspec

from providers.canonical.errors import InvalidRequest
from providers.canonical.raw_json import DECODE_ERRORS, NULL, Body


def read_tensorzero_feedback(raw: bytes) -> tuple[bytes, bool]:
    """The feedback, and whether it is a dry run: checked and not stored. `internal` is the client's own mark. Raises InvalidRequest."""
    try:
        body = Body.read(raw)
    except DECODE_ERRORS:
        return raw, False  # whoever reads it next says what is wrong
    is_dry_run = False
    for name in ("dryrun", "internal"):
        if (value := body.pop(name, NULL)) != NULL:
            try:
                flag = msgspec.json.decode(value, type=bool)
            except DECODE_ERRORS as fault:
                raise InvalidRequest(f"{fault} at `{name}`.", param=name) from None
            is_dry_run = is_dry_run or (flag and name == "dryrun")
    return Body({name: value for name, value in body.items() if value != NULL or name == "value"}).write(), is_dry_run
