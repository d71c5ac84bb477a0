"""Option `drop` of teams and keys: how it is stored, what two of them allow together, and what is refused."""

import pytest

from app.domain.callers import DroppableFields
from app.domain.errors import InvalidKeyField
from app.store.keys.droppable_fields import drop_column, from_drop_column, unite_drops


@pytest.mark.parametrize(("drop", "stored"), [((), None), ("all", ["all"]), (("seed", "logit_bias"), ["seed", "logit_bias"])])
def test_drop_is_read_back_from_its_column(drop: DroppableFields, stored: list[str] | None):
    assert drop_column(drop) == stored and from_drop_column(stored) == drop


@pytest.mark.parametrize(
    ("one", "other", "united"),
    [
        ((), (), ()),
        (("seed",), (), ("seed",)),
        (("seed",), ("stop", "seed"), ("seed", "stop")),
        (("seed",), "all", "all"),
        ("all", (), "all"),
    ],
)
def test_either_drop_suffices(one: DroppableFields, other: DroppableFields, united: DroppableFields):
    assert unite_drops(one, other) == united
    assert set(unite_drops(other, one)) == set(united)


@pytest.mark.parametrize("drop", [("all",), ("seed", "none"), ("",), ("a,b",), (" a",), ("a\0",), ("\ud800",), tuple(map(str, range(101)))])
def test_what_is_no_name_of_a_field_is_refused(drop: tuple[str, ...]):
    with pytest.raises(InvalidKeyField, match=r"^`drop`") as refused:
        drop_column(drop)
    assert refused.value.field == "drop"
