"""Other gateways' configurations as ours: what `narthex import` writes and reports."""
