"""Errors that are said in other words keep what else they say: class, status, code, details, and the attributes of their class."""

import pytest

from providers.canonical.errors import ConstraintViolation, InvalidRequest, NarthexError, TooManyInputs, Unsupported, UpstreamRejected
from providers.canonical.field_names import rename_field_in_error
from providers.drop_policy import unsupported_error


def test_renamed_field_keeps_the_status_of_its_refusal():
    refusal = unsupported_error("safeguards", "its target", "it has no such field.")
    renamed = rename_field_in_error(refusal, lambda field: f"own_{field}")
    assert (renamed.status, renamed.param) == (400, "own_safeguards")
    assert "`own_safeguards`" in str(renamed) == renamed.message and "x-narthex-drop: own_safeguards" in renamed.message


def test_renamed_field_keeps_class_and_attributes_of_the_refusal():
    refusal = TooManyInputs("`texts` takes 96 of them.", param="texts", maximum=96)
    refusal.code, refusal.details, refusal.retry_after_s = "too_many", {"rule": "r"}, 2.0
    renamed = rename_field_in_error(refusal, lambda _: "input")
    assert type(renamed) is TooManyInputs
    assert (renamed.message, renamed.param, renamed.maximum) == ("`input` takes 96 of them.", "input", 96)
    assert (renamed.code, renamed.details, renamed.retry_after_s) == ("too_many", {"rule": "r"}, 2.0)
    assert (refusal.message, refusal.param) == ("`texts` takes 96 of them.", "texts")


def test_field_that_keeps_its_name_leaves_the_error_as_it_is():
    refusal = Unsupported("`a` is not taken.", param="a")
    assert rename_field_in_error(refusal, lambda field: field) is refusal


@pytest.mark.parametrize(
    "error",
    [
        InvalidRequest("It is wrong.", param="a"),
        UpstreamRejected("It is wrong.", upstream_status=418, param="a"),
        ConstraintViolation("It is no JSON.", param="a", response_text="{", usage=None),
    ],
    ids=lambda error: type(error).__name__,
)
def test_reworded_error_differs_in_its_words_alone(error: NarthexError):
    reworded = error.reworded("Said otherwise.", param="b")
    assert type(reworded) is type(error) and str(reworded) == "Said otherwise."
    assert {**vars(reworded), "message": error.message, "param": error.param} == vars(error)
