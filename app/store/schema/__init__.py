"""The database as a whole: its migrations, versions, roles of analysts and state."""
