"""Notes and actions: small shared values, and what people did."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from redrive.jobs.job import Action
from redrive.stores.note_verbs import PAUSE, Note
from redrive.stores.sql.rows import action_from_row, action_to_row
from redrive.stores.sql.tx import LAST, SqlBase, Tx

_EVERY = 2**62


class SqlNotes(SqlBase):
    """The verbs about notes and actions."""

    def notes(self, prefix: str = "") -> list[Note]:
        """Return the live notes whose name starts so, by name."""
        return self._read(lambda tx: live_notes(tx, prefix))

    def note(
        self,
        name: str,
        value: str | None,
        *,
        expected: int | None = None,
        expires_in: float | None = None,
        durable: bool = False,
    ) -> Note | None:
        """Write a note, or remove it; see the contract."""
        written = self._write(
            lambda tx: _note(tx, name, value, expected=expected, expires_in=expires_in),
            durable=durable,
            landed=lambda tx, note: note is None or _note_landed(tx, name, note),
        )
        if value is None and name.startswith(PAUSE):
            self._hint()
        return written

    def record(self, action: Action) -> Action:
        """Record an action that moved no job; returns it with its number and time."""
        return self._write(
            lambda tx: record_action(alone_with_actions(tx), action),
            durable=True,
            landed=lambda tx, kept: action_landed(alone_with_actions(tx), kept),
        )

    def actions(
        self,
        *,
        limit: int = 100,
        before: int | None = None,
        numbers: Collection[int] | None = None,
    ) -> list[Action]:
        """Return actions, newest first, from before that number; with `numbers` only these."""
        args = (_EVERY if before is None else before, max(limit, 0))
        rows = self._read(
            lambda tx: (
                tx.all("acts", args)
                if numbers is None
                else tx.all("some_acts", (tx.array(numbers), *args))
            )
        )
        return [action_from_row(row) for row in rows]


def live_notes(tx: Tx, prefix: str) -> list[Note]:
    """Return the notes of a prefix that have not expired."""
    now = tx.now()
    return [
        Note(name, value, version, None if expires is None else expires - now)
        for name, value, version, expires in tx.all("notes", (prefix, prefix + LAST, now))
    ]


def record_action(tx: Tx, action: Action) -> Action:
    """Record an action with the store's time; returns it with its number."""
    action = replace(action, at=tx.now())
    (number,) = tx.one("insert_act", action_to_row(action)) or (0,)
    return replace(action, number=number)


def alone_with_actions(tx: Tx) -> Tx:
    """Wait for an action that is just being recorded: no row of a job is locked for it."""
    tx.alone("acts")
    return tx


def action_landed(tx: Tx, action: Action) -> bool:
    """Return True if exactly this action is stored; another may have got its number since."""
    return [action] == [action_from_row(row) for row in tx.all("acts", (action.number + 1, 1))]


def _note_landed(tx: Tx, name: str, note: Note) -> bool:
    tx.alone("notes")
    stored = tx.one("note", (name,))
    return (0 if stored is None else stored[0]) == note.version


def _note(
    tx: Tx, name: str, value: str | None, *, expected: int | None, expires_in: float | None
) -> Note | None:
    now = tx.now()
    tx.alone("notes")
    stored = tx.one("note", (name,))
    live = stored is not None and (stored[1] is None or stored[1] > now)
    if expected is not None and expected != (stored[0] if stored and live else 0):
        return None
    if value is None:
        tx.run("remove_note", (name,))
        return Note(name, "", 0)
    (version,) = tx.one("next_version") or (0,)
    expires = None if expires_in is None else now + expires_in
    tx.run("write_note", (name, value, version, expires))
    return Note(name, value, version, expires_in)
