"""YAML as LiteLLM reads it: the same values as PyYAML's safe loader, and bounds on what a file can make of little text."""

import time
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from app.domain.errors import BadConfiguration
from app.imports.litellm.yaml_text import parse_yaml

# One line more would be nine times as much.
BOMB = "a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1]\n" + "".join(f"a{at}: &a{at} [{', '.join([f'*a{at - 1}'] * 9)}]\n" for at in range(1, 12))
MERGE_BOMB = "a0: &a0 { k: 1 }\n" + "".join(f"a{at}: &a{at} {{ <<: [{', '.join([f'*a{at - 1}'] * 9)}] }}\n" for at in range(1, 12))


def parse(text: str) -> tuple[Any, list[str]]:
    duplicates: list[str] = []
    return parse_yaml(text, duplicates.append), duplicates


documents = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**12), 10**12) | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=12,
)


@given(documents)
def test_documents_are_read_as_by_the_safe_loader(document: Any) -> None:
    text = yaml.safe_dump(document)
    assert parse(text)[0] == yaml.safe_load(text)


def test_merged_keys_come_before_own_ones() -> None:
    text = "a: &a { x: 1, y: 1 }\nb: &b { y: 2, z: 2 }\nc: { <<: [*a, *b], z: 3 }\nd: { y: 0, <<: *a }\n"
    assert parse(text)[0] == yaml.safe_load(text)


def test_key_that_occurs_twice_is_reported() -> None:
    assert parse("a: { b: 1, b: 2 }\nc: 1") == ({"a": {"b": 2}, "c": 1}, ["a.b"])


def test_dates_and_odd_numbers_stay_texts() -> None:
    assert parse("[2024-10-21, 1:30, 08, .inf, 0x1F, 017, 1_000]")[0] == ["2024-10-21", "1:30", "08", ".inf", 31, 15, 1000]


@pytest.mark.parametrize(
    "text",
    [
        BOMB,
        MERGE_BOMB,
        "a: &a [*a]",
        "a: &a { b: *a }",
        "[" * 50_000,
        "[" * 50_000 + "]" * 50_000,
        "- " * 2_000 + "x",
        f"a: {'1:' * 200_000}1",
        f"{'k' * 301}: 1",
        "a: !!python/object/apply:os.system [echo]",
        "a: !!binary aGk=",
        "a: !!set { x }",
        "? [a, b]\n: c",
        "a: *nowhere",
        "a: b: c",
        "a: 1\n---\nb: 2",
        "<<: x",
        "\x01",
    ],
    ids=lambda text: text[:24],
)
def test_hostile_text_is_refused_quickly(text: str) -> None:
    began = time.process_time()
    with pytest.raises(BadConfiguration) as refused:
        document, _ = parse(text)
        assert document == {"a": "1:" * 200_000 + "1"}  # no number of a hundred thousand digits
        raise BadConfiguration("it is a text")
    assert time.process_time() - began < 10 and len(str(refused.value)) < 400


def test_error_does_not_quote_the_file() -> None:
    with pytest.raises(BadConfiguration) as refused:
        parse("api_key: [sk-literal-secret\nmore: 1")
    assert "secret" not in str(refused.value) and "line" in str(refused.value)
