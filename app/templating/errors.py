"""What can be wrong with a template, or with what it is rendered with.

TemplateFault       the template itself, found when it is saved
RenderFault         a request: its input, or what the template makes of it
"""


class TemplateFault(Exception):
    """`message`: a sentence. `line`: of the template, from 1; None: of no single one."""

    def __init__(self, message: str, line: int | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.line = line


class RenderFault(Exception):
    """`message`: a sentence. `path`: of the part of the input that is meant, as `.name` or `[0]`; empty: all of it.

    `is_of_template`: no input would help, as the template uses something that does not exist, or takes too long.
    """

    def __init__(self, message: str, path: str = "", *, is_of_template: bool = False) -> None:
        super().__init__(message)
        self.message = message
        self.path = path
        self.is_of_template = is_of_template
