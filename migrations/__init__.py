"""Alembic's migrations, as a package so that an installed service finds them."""
