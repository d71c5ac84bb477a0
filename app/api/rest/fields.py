"""Types of fields and parameters that operations of every subject share."""

from typing import Annotated

from msgspec import Meta

from app.store.configuration.validation.prices import MAX_NAME_CHARACTERS

Name = Annotated[str, Meta(min_length=1, max_length=MAX_NAME_CHARACTERS)]


Warnings = Annotated[list[str], Meta(description="Probable mistakes that this change adds; left out: none.")]

Search = Annotated[str, Meta(max_length=MAX_NAME_CHARACTERS, description="Text in the name, in any case.")]

# A filter takes a value, or several of which any will do: in a query the parameter is repeated.
SEVERAL = Meta(min_length=1, max_length=50)

_Value = Annotated[str, Meta(max_length=512)]
Values = _Value | Annotated[tuple[_Value, ...], SEVERAL]

_Status = Annotated[str, Meta(pattern="^([1-5][0-9]{2}|[1-5]xx)$")]
Statuses = _Status | Annotated[tuple[_Status, ...], SEVERAL]
