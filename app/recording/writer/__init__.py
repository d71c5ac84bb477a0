"""The writer process: it reads the spool, makes rows of it (rows) and stores them (writes). writer.py is the way in."""
