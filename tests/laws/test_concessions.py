"""What a target goes without: named where it stands, or by its kind where there is no end of it."""

from msgspec import Raw

from providers.dialect import DropPolicy


def test_places_are_looked_for_so_often_and_no_more():
    looked: list[str] = []

    def place(path: str) -> str:
        looked.append(path)
        return path.replace("messages", "input")

    concessions = DropPolicy(lambda _: True, {}, "a target", place, max_paths=2)
    for at in range(5_000):
        concessions.drop_hint(f"messages[{at}].name")
        concessions.drop_extra_field(f"messages[{at}].cache_control", Raw(b"{}"), "it has none.")
    assert concessions.dropped == ["input[0].name", "input[0].cache_control", "messages[].name", "messages[].cache_control"]
    assert len(looked) == 2


def test_a_field_that_asks_for_nothing_is_neither_refused_nor_reported():
    concessions = DropPolicy(lambda _: False, {}, "a target")
    for value in (b"null", b"[]", b'""', b'[ "direct" ]', b'{"enabled": false}'):
        concessions.drop_extra_field("tools[0].allowed_callers", Raw(value), "it has none.")
    assert concessions.dropped == []
