"""The spool on local disk: what was answered is in it before its caller has the last byte. spool.py is the way in."""
