"""The faults of a template, or of what it is rendered with.

TemplateFault       the template itself, found when it is saved
RenderFault         a request: its input, or what the template makes of it
"""


class TemplateFault(Exception):
    """Raised for a wrong template. `message` is a sentence.

    `line` is the line of the template, from 1, or None if it is no single one.
    """

    def __init__(self, message: str, line: int | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.line = line


class RenderFault(Exception):
    """Raised if a template cannot be rendered. `message` is a sentence.

    `path` is the part of the input that is meant, such as `.name` or `[0]`, or empty for all of it.
    `is_of_template` means that no input would help: the template uses something that does not exist, or takes
    too long.
    """

    def __init__(self, message: str, path: str = "", *, is_of_template: bool = False) -> None:
        super().__init__(message)
        self.message = message
        self.path = path
        self.is_of_template = is_of_template
