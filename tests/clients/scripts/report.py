"""Shared by the scripts of Python clients: the prompts, and the report of their results."""

import json
import os
import sys
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel

BASE_URL, API_KEY, MODEL, SLOW_MODEL, EMBEDDING_MODEL = (
    os.environ[name] for name in ("BASE_URL", "API_KEY", "MODEL", "SLOW_MODEL", "EMBEDDING_MODEL")
)
SURFACE = os.environ.get("SURFACE", "")
SCENARIO: Mapping[str, str] = json.loads(Path(__file__).with_name("scenario.json").read_text())
PICTURE = f"data:image/png;base64,{SCENARIO['png']}"
DESCRIPTIONS = {"get_weather": "The weather in a city", "get_time": "The time in a city"}
RESULTS = {"get_weather": SCENARIO["sunny"], "get_time": SCENARIO["noon"]}


class Person(BaseModel):
    name: str
    age: int


RequestFunction = Callable[..., Any]


def report(checks: Mapping[str, Callable[[], object]]) -> None:
    """Run each check and print {name: {result} | {error}} as the last line. Arguments of the script select checks by name."""
    outcomes: dict[str, object] = {}
    for name, check in checks.items():
        if len(sys.argv) > 1 and name not in sys.argv:
            continue
        try:
            outcomes[name] = {"result": check()}
        except Exception:
            outcomes[name] = {"error": traceback.format_exc()[-3000:]}
    sys.stdout.write("\n" + json.dumps(outcomes))


def provoked_errors(request: RequestFunction, **bad_request: object) -> dict[str, object]:
    """The errors that users of a client get for an unknown model, a wrong key, and an invalid request."""
    errors: dict[str, object] = {}
    for kind, fields in (("unknown", {"model": "no-such-model"}), ("bad_key", {"key": "nx-wrong"}), ("bad_request", bad_request)):
        try:
            errors[kind] = {"response": str(request(**fields))}
        except Exception as error:
            status = getattr(error, "status_code", None)
            errors[kind] = {"class": type(error).__name__, "status": status, "message": str(error)}
    return errors
