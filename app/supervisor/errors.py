"""Trouble: what keeps this machine from running Narthex, told as a sentence that says what to do."""


class OperatorError(Exception):
    """Shown to the operator as it is, without a traceback; so the message names the thing and the way out."""
