"""An engine of which it is not said which it is: what probing finds it to be; until then anything that speaks OpenAI's dialect."""

from typing import ClassVar

from providers.provider import Provider


class Auto(Provider):
    name: ClassVar[str] = "auto"
    default_base_url: ClassVar[str | None] = None
