"""Words of full-text search: a text and a search for a part of it have the same, and any search is one that Postgres takes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.errors import InvalidKeyField
from app.store.records.search_words import MAX_SEARCH_CHARACTERS, read_search, split_words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Hello, World!", "hello world"),
        ("ÄRGER Straße STRASSE", "ärger strasse strasse"),
        ("e\u0301té ﬁn １２", "été fin 12"),
        ("get_weather foo.bar@example.com/x?y=1", "get weather foo bar example com x y 1"),
        ("“quoted”—dash…\u2028line\u00a0space\0nul\ud800", "quoted dash line space nul"),
        ("東京タワーへ行く。go", "東京 京タ タワ ワー ーへ へ行 行く go"),
        ("水 한국어", "水 한국 국어"),
    ],
)
def test_text_is_split_into_words(text: str, words: str) -> None:
    assert split_words(text).split() == words.split()


@pytest.mark.parametrize(
    ("search", "query"),
    [
        ("refund late", '"refund" "late"'),
        ('"Late delivery" -test', '"late delivery" -"test"'),
        ('-"not this" yes', '-"not this" "yes"'),
        ("a or b OR c", '"a" or "b" or "c"'),
        ("or a or", '"a"'),
        ('"or" a', '"or" "a"'),
        ("get_weather", '"get weather"'),
        ("'); DROP TABLE x; --", '"drop" "table" "x"'),
        ('open "quote', '"open" "quote"'),
        ("東京タワー", '"東京 京タ タワ ワー"'),
        ("a:* & !b | <->", '"a" "b"'),
    ],
)
def test_search_is_read(search: str, query: str) -> None:
    assert read_search(search) == query


@pytest.mark.parametrize("search", ["", " ", "or", '"', "-", "!&|", "\0", "x" * (MAX_SEARCH_CHARACTERS + 1), "a " * 60])
def test_search_without_words_or_with_too_many_is_refused(search: str) -> None:
    with pytest.raises(InvalidKeyField) as refused:
        read_search(search)
    assert refused.value.field == "text"


@given(st.text(min_size=1, max_size=50))
def test_text_is_found_by_itself(text: str) -> None:
    words = split_words(text).split()
    phrase = '"' + text.replace('"', " ") + '"'
    if words:
        assert read_search(phrase) == f'"{" ".join(words)}"'


@given(st.text())
def test_split_words_has_letters_digits_and_spaces_only(text: str) -> None:
    words = split_words(text)
    assert all(each == " " or each.isalnum() for each in words)
    assert split_words(words).split() == words.split() or not words.isascii()
