"""New names have one form, can be named by a path, and look like no other name."""

import pytest

from app.store.postgres.name_forms import check_form, find_homograph, looks_like_ascii


@pytest.mark.parametrize("name", ["sandbox", "org/model", "a//b", "a/", "a%2Fb", "100 %", "Größe", "модель", "...", "模型"])
def test_usual_names_are_taken(name: str):
    assert check_form(name) is None and find_homograph(name, ["other", name]) is None


@pytest.mark.parametrize(("name", "reason"), [(".", "path"), ("..", "path"), ("cafe\u0301", "normal form")])
def test_name_that_nobody_can_send_reliably_is_refused(name: str, reason: str):
    assert reason in (check_form(name) or "")


@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("s\u0430ndbox", "sandbox"),  # a Cyrillic a
        ("\uff47pt-5", "gpt-5"),  # a full-width g
        ("sandbox", "\u0455andbox"),
        ("\u039f\u03a1\u03a5\u0455", "OPYs"),
        *((f"pay{invisible}ments", "payments") for invisible in "\ufe0f\u034f\u3164\u115f\u180b\u2800\U000e0100"),
        ("b\u0131\u04cf\u04cfin\u0261", "billing"),
        ("non\u2011stop", "non-stop"),
    ],
)
def test_name_that_looks_like_another_is_found(name: str, other: str):
    assert find_homograph(name, ["first", other, name]) == other


@pytest.mark.parametrize(("name", "other"), [("gpt-4o", "gpt-40"), ("Team", "team"), ("модель", "модели")])
def test_names_that_differ_to_the_eye_are_two(name: str, other: str):
    assert find_homograph(name, [other]) is None


def test_name_that_looks_like_one_of_ascii_is_found():
    assert looks_like_ascii("boss@corp.example\ufe0f") and looks_like_ascii("\u0430da")
    assert not any(map(looks_like_ascii, ("boss@corp.example", "Größe", "модель", "模型")))
