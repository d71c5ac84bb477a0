"""OperatorError: something on this machine keeps Narthex from running, in a sentence that says what to do."""


class OperatorError(Exception):
    """Shown to the operator as it is, without a traceback: the message names the problem and the way out."""
