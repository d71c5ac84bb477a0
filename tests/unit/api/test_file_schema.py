"""The JSON Schema of the configuration file says of a file what `apply` says, as far as one entry alone tells."""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from app.api.admin.configuration.file_schema import file_schema
from app.domain.errors import BadConfiguration
from app.store.configuration.config_file import parse_config_file

DOCS = Path("docs").glob("*.md")
SCHEMA = file_schema()


def faults(text: str) -> list[str]:
    validator: Any = jsonschema.Draft7Validator(SCHEMA)
    return ["/".join(map(str, each.path)) for each in validator.iter_errors(tomllib.loads(text))]


def examples() -> Iterator[str]:
    """The files in the documentation that `apply` takes."""
    for page in DOCS:
        for block in re.findall(r"^```toml\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE):
            try:
                parse_config_file(block)
            except BadConfiguration:
                continue
            yield block


def test_it_accepts_every_file_of_the_documentation() -> None:
    files = list(examples())
    assert len(files) > 20
    assert {text: found for text in files if (found := faults(text))} == {}


REFUSED = [
    ("[teams.legal]\nrecords = true", "teams/legal"),
    ('[teams.legal]\ncontent = "some"', "teams/legal/content"),
    ("[teams.legal]\npriority = 101", "teams/legal/priority"),
    ('[providers.gpu]\nbase_url = "http://127.0.0.1"', "providers/gpu"),
    ('[models.chat]\ntargets = [{ provider = 1, model = "m" }]', "models/chat/targets/0/provider"),
    ("[function.answer]", ""),
    ('[[limits]]\nname = "a"\nscope = "some"\nresource = "requests"\namount = 1', "limits/0/scope"),
]


@pytest.mark.parametrize(("text", "place"), REFUSED)
def test_it_refuses_what_a_section_cannot_have_at_its_place(text: str, place: str) -> None:
    assert faults(text) == [place]


def test_it_describes_every_field_of_every_record() -> None:
    records: dict[str, Any] = {**SCHEMA["definitions"], "the file": SCHEMA}
    silent = {
        f"{name}.{field}"
        for name, record in records.items()
        for field, schema in record["properties"].items()
        if not (schema.get("description") or "$ref" in str(schema))
    }
    assert silent == set()


def test_it_is_complete_in_itself() -> None:
    jsonschema.Draft7Validator.check_schema(SCHEMA)
    assert {f"#/definitions/{name}" for name in SCHEMA["definitions"]} == set(re.findall(r"'\$ref': '(.*?)'", str(SCHEMA)))
