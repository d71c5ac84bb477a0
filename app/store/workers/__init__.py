"""The versions that each gateway process serves, waiting for all of them, and repeated requests of the admin API."""
