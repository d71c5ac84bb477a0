"""Who may use the admin API: accounts, roles, their tokens and sessions."""
