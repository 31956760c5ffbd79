"""PostgreSQL's errors as ours: what happened, where, and what to do.

Its messages name hosts, users and tables, never a password, so they are passed on.
"""

from __future__ import annotations

import psycopg

from redrive.errors import (
    RedriveError,
    StoreBusy,
    StoreDamaged,
    StoreError,
    StoreFull,
    StoreLost,
    StoreMissing,
    StoreReadOnly,
    UsageError,
)

_GONE = frozenset({"57P01", "57P02", "57P03", "57P04", "57P05", "25P03", "25P04", "08"})
"""The session is over, or the server not ready yet."""
_AGAIN = frozenset({"40001", "40P01", "55P03", "53300", "40003"})
"""Repeating may help: serialization, deadlock, a lock or a connection that was not to be had."""


def code_of(error: psycopg.Error) -> str:
    """Return the server's error code; empty if the server did not answer."""
    return error.sqlstate or ""


def is_gone(error: psycopg.Error) -> bool:
    """Return True if the connection is lost, or could not be made."""
    code = code_of(error)
    if code:
        return code in _GONE or code[:2] in _GONE
    return isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)


def is_passing(error: Exception) -> bool:
    """Return True if a repeat may work in a moment; nothing was stored."""
    return isinstance(error, psycopg.Error) and (is_gone(error) or code_of(error) in _AGAIN)


def translate(error: Exception, place: str) -> Exception:
    """Return our error for one of the driver or the values; others stay as they are."""
    if isinstance(error, psycopg.Error):
        return _from_driver(error, place)
    if isinstance(error, OverflowError | UnicodeError):
        return UsageError(f"a value cannot be kept in {place} ({error}); nothing was stored")
    return error


def _from_driver(error: psycopg.Error, place: str) -> RedriveError:
    code, message = code_of(error), _message(error)
    match code[:2], code:
        case ("53", "53100"):
            return StoreFull(f"{place} has no room ({message}); free some space, then repeat")
        case (_, "25006"):
            return StoreReadOnly(
                f"{place} is a standby, or may only be read ({message}); name the primary server"
            )
        case (_, "42501"):
            return StoreReadOnly(
                f"not allowed to use {place} ({message}); grant this user the schema, its tables and sequences"
            )
        case ("42", "42P01" | "42P02" | "42703" | "42883") | ("3F", _) | ("3D", _):
            return StoreMissing(f"no store at {place} ({message}); `redrive init` creates one")
        case ("22" | "23" | "21" | "54", _):
            return UsageError(f"a value does not fit into {place} ({message}); nothing was stored")
        case ("XX", "XX001" | "XX002"):
            return StoreDamaged(f"{place} is damaged ({message}); restore a backup of the database")
        case ("40" | "55" | "53", _) | (_, "57014"):
            return StoreBusy(
                f"other sessions lock {place} for too long ({message}); see pg_locks and "
                "pg_stat_activity, then repeat"
            )
        case ("58", _):
            return StoreLost(f"the server of {place} could not read or write ({message})")
        case ("0A", _) if "recovery" in message:
            return StoreReadOnly(f"{place} is a standby ({message}); name the primary server")
        case _:
            return _unnamed(error, place, message)


def _unnamed(error: psycopg.Error, place: str, message: str) -> RedriveError:
    if is_gone(error):
        return StoreLost(f"the server of {place} cannot be reached ({message}); is it running?")
    if isinstance(error, psycopg.DataError) and not error.sqlstate:
        return UsageError(f"a value cannot be kept in {place} ({message}); nothing was stored")
    return StoreError(f"{place}: {message}")


def _message(error: psycopg.Error) -> str:
    """Return the first line of the message: the next ones quote the statement."""
    lines = str(error).strip().splitlines()
    return lines[0].strip() if lines else type(error).__name__
