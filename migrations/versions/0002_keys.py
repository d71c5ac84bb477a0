"""Keys: restrictions, expiry, rotation; and a version that every change to keys and teams increments, whoever makes it."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import ARRAY

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

# The row of keys_version is locked until the change commits, so versions become visible in order: whoever has seen one has seen all
# before it. These are triggers because a change made by hand must reach the workers too.
_RAISE = """
CREATE FUNCTION narthex_raise_keys_version() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE keys_version SET version = version + 1;
    RETURN NULL;
END $$
"""
_SWEEP = """
CREATE FUNCTION narthex_sweep_keys() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE keys_version SET version = version + 1, swept = version + 1;
    RETURN NULL;
END $$
"""
_MARK = """
CREATE FUNCTION narthex_mark_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.changed := (SELECT version FROM keys_version);
    RETURN NEW;
END $$
"""
_TRIGGERS = (
    "CREATE TRIGGER keys_raise BEFORE INSERT OR UPDATE ON keys FOR EACH STATEMENT EXECUTE FUNCTION narthex_raise_keys_version()",
    "CREATE TRIGGER keys_mark_new BEFORE INSERT ON keys FOR EACH ROW EXECUTE FUNCTION narthex_mark_changed()",
    "CREATE TRIGGER keys_mark BEFORE UPDATE ON keys FOR EACH ROW WHEN (OLD IS DISTINCT FROM NEW) EXECUTE FUNCTION narthex_mark_changed()",
    "CREATE TRIGGER keys_sweep AFTER DELETE OR TRUNCATE ON keys FOR EACH STATEMENT EXECUTE FUNCTION narthex_sweep_keys()",
    "CREATE TRIGGER teams_raise BEFORE UPDATE ON teams FOR EACH STATEMENT EXECUTE FUNCTION narthex_raise_keys_version()",
    "CREATE TRIGGER teams_mark BEFORE UPDATE ON teams FOR EACH ROW WHEN (OLD IS DISTINCT FROM NEW) EXECUTE FUNCTION narthex_mark_changed()",
)


def upgrade() -> None:
    op.create_table(
        "keys_version",
        sa.Column("id", sa.SmallInteger(), nullable=False, autoincrement=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("swept", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="keys_version_pkey"),
    )
    op.execute("INSERT INTO keys_version (id, version, swept) VALUES (1, 1, 0)")
    for column in ("models", "routes", "networks"):
        op.add_column("keys", sa.Column(column, ARRAY(sa.Text())))
    op.add_column("keys", sa.Column("expires_at", sa.DateTime(timezone=True)))
    op.add_column("keys", sa.Column("replaced_by", sa.Text()))
    for table in ("keys", "teams"):
        op.add_column(table, sa.Column("changed", sa.BigInteger(), nullable=False, server_default="0"))
        op.create_index(f"{table}_changed_idx", table, ["changed"])
    op.create_index("keys_team_id_idx", "keys", ["team_id"])
    for statement in (_RAISE, _SWEEP, _MARK, *_TRIGGERS):
        op.execute(statement)
