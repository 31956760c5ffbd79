-- name: try_alone_fold
-- Whether nobody else folds.
SELECT pg_try_advisory_xact_lock(hashtextextended('redrive fold {schema}', 0))

-- name: alone_groups
-- Wait until nobody else makes a group.
SELECT pg_advisory_xact_lock(hashtextextended('redrive groups {schema}', 0))

-- name: alone_acts
-- Wait until nobody else records an action that moved no job.
SELECT pg_advisory_xact_lock(hashtextextended('redrive acts {schema}', 0))

-- name: alone_notes
-- Wait until nobody else writes a note; what they wrote is seen by the next statement.
SELECT last FROM {schema}.note_versions FOR UPDATE

-- name: marks
-- What version 1 kept of what people noted about groups.
SELECT name, value FROM {schema}.notes WHERE name LIKE 'group:%%'
