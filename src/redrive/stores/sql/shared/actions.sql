-- name: remove_attempts
-- The histories of purged jobs.
DELETE FROM {schema}.attempts WHERE n = ANY(?::int8[])

-- name: remove_jobs
-- Purged jobs.
DELETE FROM {schema}.jobs WHERE n = ANY(?::int8[])
