"""BenchmarkError: why a system cannot be measured, in a sentence for the person who runs the benchmark."""


class BenchmarkError(Exception):
    """The message says what is missing and what to do."""
