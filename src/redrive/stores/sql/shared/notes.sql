-- name: notes -- The live notes of a prefix, by name.
SELECT name, value, version, expires FROM {schema}.notes
WHERE name >= ? AND name < ? AND (expires IS NULL OR expires > ?) ORDER BY name

-- name: note -- One note, live or not.
SELECT version, expires FROM {schema}.notes WHERE name = ?

-- name: next_version -- Take a new version.
UPDATE {schema}.note_versions SET last = last + 1 RETURNING last

-- name: write_note -- Write a note, new or not.
INSERT INTO {schema}.notes (name, value, version, expires) VALUES (?, ?, ?, ?)
ON CONFLICT (name) DO UPDATE
SET value = excluded.value, version = excluded.version, expires = excluded.expires

-- name: remove_note -- Remove a note.
DELETE FROM {schema}.notes WHERE name = ?

-- name: remove_expired -- Remove notes that have expired; one that is just being written is left alone.
DELETE FROM {schema}.notes
WHERE name IN (SELECT name FROM {schema}.notes WHERE expires <= ? {skip_locked})

-- name: insert_act -- Record an action.
INSERT INTO {schema}.acts (at, actor, verb, target, reason, done, skipped, detail)
VALUES (?, ?, ?, ?, ?, ?, ?, ?) RETURNING number

-- name: acts -- Actions, newest first, from before a number.
SELECT number, at, actor, verb, target, reason, done, skipped, detail FROM {schema}.acts
WHERE number < ? ORDER BY number DESC LIMIT ?

-- name: some_acts -- Those of these actions that there are, newest first, from before a number.
SELECT number, at, actor, verb, target, reason, done, skipped, detail FROM {schema}.acts
WHERE number = ANY(?::int8[]) AND number < ? ORDER BY number DESC LIMIT ?
