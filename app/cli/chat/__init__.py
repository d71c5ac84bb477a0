"""The command `narthex chat`."""
