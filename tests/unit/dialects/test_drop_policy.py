"""What a target goes without: named where it stands, or by its kind where there is no end of it."""

from msgspec import Raw

from providers.dialect import DropPolicy


def test_caller_paths_are_looked_up_at_most_max_paths_times():
    lookups: list[str] = []

    def caller_path(path: str) -> str:
        lookups.append(path)
        return path.replace("messages", "input")

    drop_policy = DropPolicy(lambda _: True, {}, "a target", caller_path, max_paths=2)
    for at in range(5_000):
        drop_policy.drop_hint(f"messages[{at}].name")
        drop_policy.drop_extra_field(f"messages[{at}].cache_control", Raw(b"{}"), "it has none.")
    assert drop_policy.dropped == ["input[0].name", "input[0].cache_control", "messages[].name", "messages[].cache_control"]
    assert len(lookups) == 2


def test_neutral_extra_field_is_neither_refused_nor_reported():
    drop_policy = DropPolicy(lambda _: False, {}, "a target")
    for value in (b"null", b"[]", b'""', b'[ "direct" ]', b'{"enabled": false}'):
        drop_policy.drop_extra_field("tools[0].allowed_callers", Raw(value), "it has none.")
    assert drop_policy.dropped == []
