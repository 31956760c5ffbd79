"""Jobs in PostgreSQL: connections, transactions, claims, ends. Not here: all other verbs (`stores.sql`)."""

from redrive.errors import UsageError

try:
    import psycopg as _psycopg
except ImportError as error:
    msg = f"a store in PostgreSQL needs psycopg ({error}); install redrive[postgres]"
    raise UsageError(msg) from error

if int(_psycopg.__version__.partition(".")[0]) < 3:  # noqa: PLR2004 - the major version
    msg = f"a store in PostgreSQL needs psycopg 3, found {_psycopg.__version__}; update it"
    raise UsageError(msg)

from redrive.stores.postgres.store import PostgresStore

__all__ = ["PostgresStore"]
