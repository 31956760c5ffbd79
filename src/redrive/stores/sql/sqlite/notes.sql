-- name: notes
-- The live notes of a prefix, by name.
SELECT name, value, version, expires FROM notes
WHERE name >= ? AND name < ? AND (expires IS NULL OR expires > ?)
ORDER BY name

-- name: note
-- One note, live or not.
SELECT version, expires FROM notes WHERE name = ?

-- name: next_version
-- Take a new version.
UPDATE note_versions SET last = last + 1

-- name: version
-- The version just taken.
SELECT last FROM note_versions

-- name: write_note
-- Write a note, new or not.
INSERT INTO notes (name, value, version, expires) VALUES (?, ?, ?, ?)
ON CONFLICT (name) DO UPDATE
SET value = excluded.value, version = excluded.version, expires = excluded.expires

-- name: remove_note
-- Remove a note.
DELETE FROM notes WHERE name = ?

-- name: remove_expired
-- Remove notes that nobody sees any more.
DELETE FROM notes WHERE expires <= ?

-- name: insert_act
-- Keep a deed.
INSERT INTO acts (at, actor, verb, target, reason, done, skipped, detail)
VALUES (?, ?, ?, ?, ?, ?, ?, ?)

-- name: acts
-- Deeds, newest first, from before a number.
SELECT number, at, actor, verb, target, reason, done, skipped, detail FROM acts
WHERE number < ? ORDER BY number DESC LIMIT ?

-- name: acts_of
-- Deeds that took one job, newest first, from before a number.
SELECT number, at, actor, verb, target, reason, done, skipped, detail FROM acts
WHERE number IN (SELECT act FROM act_jobs WHERE id = ?) AND number < ?
ORDER BY number DESC LIMIT ?
