"""The schema of the configuration file, as editors read it."""

from collections.abc import Mapping
from typing import Any

from app.cli.output import print_json


def file_schema(document: Mapping[str, Any], arguments: Mapping[str, Any]) -> None:
    print_json(document)
