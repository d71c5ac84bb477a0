"""Facts of this machine that commands need: folders, users, ports, secrets, certificates."""
