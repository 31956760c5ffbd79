-- name: by_id -- One job.
{whole} WHERE id = ?

-- name: by_ids -- Those of these jobs that there are.
{whole} WHERE id = ANY(?::text[])

-- name: by_keys -- The jobs that these idempotency keys stand for.
{whole} WHERE key = ANY(?::text[])

-- name: numbers -- The numbers of those of these jobs that there are.
SELECT id, n FROM {schema}.jobs WHERE id = ANY(?::text[])

-- name: attempts -- The history of a job, oldest first.
SELECT record FROM {schema}.attempts WHERE n = ? ORDER BY ordinal

-- name: remove_attempts -- The histories of purged jobs.
DELETE FROM {schema}.attempts WHERE n = ANY(?::int8[])

-- name: remove_jobs -- Purged jobs.
DELETE FROM {schema}.jobs WHERE n = ANY(?::int8[])

-- name: run_states -- How many jobs are tagged so, by state.
SELECT state, count(*) FROM {states} WHERE run = ? GROUP BY state
