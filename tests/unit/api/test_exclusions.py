"""Exclusions follow from the filters that take several values, once."""

from typing import Annotated

import pytest
from msgspec import Meta, Struct

from app.api.admin.records.inference_filters import ChosenInferences, InferenceFilters, to_filter
from app.api.rest.exclusions import excludable, with_exclusions
from app.api.rest.request_parsing import parse_query, repeatable_names
from providers.canonical.errors import InvalidRequest


def test_every_filter_with_several_values_has_an_exclusion_and_no_other() -> None:
    names = set(ChosenInferences.__struct_fields__)
    assert set(InferenceFilters.__struct_fields__) - names == {f"not_{name}" for name in repeatable_names(ChosenInferences)}
    assert {"model", "team", "key", "status", "end_user"} <= set(excludable(ChosenInferences))


def test_exclusions_are_read_as_the_filters_are() -> None:
    query = parse_query(b"model=a&not_model=b&not_model=c&not_status=404&not_status=5xx&not_key=nx-0123456789ab", InferenceFilters)
    filters = to_filter(query, None)
    assert filters.model == "a" and filters.excluded is not None
    assert (filters.excluded.model, filters.excluded.status, filters.excluded.status_class) == (("b", "c"), (404,), (5,))
    assert filters.excluded.key == ("0123456789ab",)
    assert to_filter(parse_query(b"model=a", InferenceFilters), None).excluded is None


def test_a_filter_without_words_for_its_exclusion_is_a_mistake() -> None:
    class Filters(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
        colour: Annotated[str | tuple[str, ...], Meta(description="The colour.")] | None = None

    with pytest.raises(AssertionError, match="is no such filter"):
        with_exclusions(Filters)


def test_the_refusal_of_an_exclusion_names_it() -> None:
    with pytest.raises(InvalidRequest) as refused:
        to_filter(parse_query(b"not_key=sk-1", InferenceFilters), None)
    assert refused.value.param == "not_key" and "`not_key`" in refused.value.message
