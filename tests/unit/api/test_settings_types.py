"""Types of REST follow from records of the configuration file."""

from typing import Annotated, Any

import msgspec
import pytest
from msgspec import Meta, Struct

from app.api.rest.settings_types import entry_type, new_type, settings_type


class Step(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A step."""

    share: float = 1.0


class PathConfig(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A path."""

    name: str
    steps: Annotated[tuple[Step, ...], Meta(description="In order.", extra_json_schema={"maxItems": 2})] = ()
    first: Step = Step(0.5)
    named: dict[str, Step | None] = {}
    height: Annotated[int, Meta(description="In metres.", extra_json_schema={"minimum": 0, "maximum": 9})] = 3


def shown(value: Any) -> Any:
    return msgspec.json.decode(msgspec.json.encode(value))


def test_settings_have_every_field_also_at_its_default() -> None:
    settings = msgspec.convert({"steps": [{}], "named": {"a": {}, "b": None}}, settings_type(PathConfig, ("name",)))
    assert shown(settings) == {
        **{"steps": [{"share": 1.0}], "first": {"share": 0.5}, "named": {"a": {"share": 1.0}, "b": None}, "height": 3},
    }
    assert shown(PathConfig("a")) == {"name": "a"}


def test_settings_that_are_not_nested_keep_the_records_within_them() -> None:
    assert shown(settings_type(PathConfig, nested=False)(name="a", steps=(Step(),)))["steps"] == [{}]


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"height": 10}, "<= 9"),
    ({"height": -1}, ">= 0"),
    ({"steps": [{}, {}, {}]}, "length <= 2"),
    ({"name": "a"}, "unknown field `name`"),
    ({"steps": [{"place": 1}]}, "unknown field `place`"),
]


@pytest.mark.parametrize(("body", "problem"), REFUSED)
def test_bodies_are_held_to_the_bounds_that_a_record_describes(body: dict[str, Any], problem: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=problem):
        msgspec.convert(body, settings_type(PathConfig, ("name",)))
    assert msgspec.convert({"name": "a", "height": 10}, PathConfig).height == 10


def test_descriptions_are_those_of_the_record() -> None:
    schema = msgspec.json.schema(settings_type(PathConfig, ("name",), noun="path"))["$defs"]
    assert schema["PathSettings"]["properties"]["height"] == msgspec.json.schema(PathConfig)["$defs"]["PathConfig"]["properties"]["height"]
    assert schema["PathSettings"]["description"].startswith("Everything that can be set of a path")
    assert schema["StepSettings"]["description"] == "A step."


def test_entries_are_created_by_their_key_and_shown_with_it() -> None:
    settings, key = settings_type(PathConfig, ("name",), noun="path"), {"id": Annotated[str, Meta(max_length=2)], "since": str | None}
    new, entry = new_type(settings, "path", **key), entry_type(settings, "path", "A path.", **key)
    assert (new.__name__, entry.__name__, entry.__doc__) == ("NewPath", "PathEntry", "A path.")
    assert shown(msgspec.convert({"id": "a", "height": 4}, new))["since"] is None
    with pytest.raises(msgspec.ValidationError, match="length <= 2"):
        msgspec.convert({"id": "abc"}, new)
    stored = {"id": "abc", "since": None, "created_at": "now", "updated_at": "now"}
    assert shown(msgspec.convert(stored, entry)).items() >= {**stored, "height": 3}.items()
    with pytest.raises(msgspec.ValidationError, match="missing required field `since`"):
        msgspec.convert({name: value for name, value in stored.items() if name != "since"}, entry)


def test_a_type_is_made_once_so_that_the_document_has_one_of_its_name() -> None:
    assert settings_type(PathConfig) is settings_type(PathConfig)
    settings = settings_type(PathConfig, noun="path")
    assert entry_type(settings, "path", "A path.", name=str) is entry_type(settings, "path", "A path.", name=str)
