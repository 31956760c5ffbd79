-- name: notes
-- The live notes of a prefix, by name.
SELECT name, value, version, expires FROM {schema}.notes
WHERE name >= %s AND name < %s AND (expires IS NULL OR expires > %s)
ORDER BY name

-- name: note
-- One note, live or not.
SELECT version, expires FROM {schema}.notes WHERE name = %s

-- name: alone_notes
-- Wait until nobody else writes a note; what they wrote is seen by the next statement.
SELECT last FROM {schema}.note_versions FOR UPDATE

-- name: alone_acts
-- Wait until nobody else records an act that moved no job.
SELECT pg_advisory_xact_lock(hashtextextended('redrive acts {schema}', 0))

-- name: next_version
-- Take a new version.
UPDATE {schema}.note_versions SET last = last + 1

-- name: version
-- The version just taken.
SELECT last FROM {schema}.note_versions

-- name: write_note
-- Write a note, new or not.
INSERT INTO {schema}.notes (name, value, version, expires) VALUES (%s, %s, %s, %s)
ON CONFLICT (name) DO UPDATE
SET value = excluded.value, version = excluded.version, expires = excluded.expires

-- name: remove_note
-- Remove a note.
DELETE FROM {schema}.notes WHERE name = %s

-- name: remove_expired
-- Remove notes that nobody sees any more; one that is just being written is left alone.
DELETE FROM {schema}.notes
WHERE name IN (SELECT name FROM {schema}.notes WHERE expires <= %s FOR UPDATE SKIP LOCKED)

-- name: insert_act
-- Keep a deed.
INSERT INTO {schema}.acts (at, actor, verb, target, reason, done, skipped, detail)
VALUES (%s, %s, %s, %s, %s, %s, %s, %s)
RETURNING number

-- name: acts
-- Deeds, newest first, from before a number.
SELECT number, at, actor, verb, target, reason, done, skipped, detail FROM {schema}.acts
WHERE number < %s ORDER BY number DESC LIMIT %s
