"""`narthex chat`."""
