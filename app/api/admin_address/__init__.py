"""All that is on the address of the admin API, which is the callers' unless the setting `admin_port` gives it one of its own."""
