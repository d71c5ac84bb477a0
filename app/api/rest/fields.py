"""Types of fields and parameters that operations of every subject share."""

from typing import Annotated

from msgspec import Meta

from app.store.configuration.validation.prices import MAX_NAME_CHARACTERS

Name = Annotated[str, Meta(min_length=1, max_length=MAX_NAME_CHARACTERS)]


Search = Annotated[str, Meta(max_length=MAX_NAME_CHARACTERS, description="Text in the name, in any case.")]
