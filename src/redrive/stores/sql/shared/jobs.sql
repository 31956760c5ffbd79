-- name: by_id -- One job.
{whole} WHERE id = ?

-- name: by_ids -- Those of these jobs that there are.
{whole} WHERE id = ANY(?::text[])

-- name: by_keys -- The jobs that these idempotency keys stand for.
{whole} WHERE key = ANY(?::text[])

-- name: numbers -- The numbers of those of these jobs that there are.
SELECT id, n FROM {schema}.jobs WHERE id = ANY(?::text[])

-- name: histories -- The attempts of these jobs, those of each oldest first.
SELECT j.id, a.record FROM {schema}.jobs AS j JOIN {schema}.attempts AS a ON a.n = j.n
WHERE j.id = ANY(?::text[]) ORDER BY a.n, a.ordinal

-- name: last_action -- The last action on these jobs.
UPDATE {schema}.jobs SET action = ? WHERE n = ANY(?::int8[])

-- name: remove_attempts -- The histories of purged jobs.
DELETE FROM {schema}.attempts WHERE n = ANY(?::int8[])

-- name: remove_jobs -- Purged jobs.
DELETE FROM {schema}.jobs WHERE n = ANY(?::int8[])

-- name: run_states -- How many jobs are tagged so, by state.
SELECT state, count(*) FROM {states} WHERE run = ? GROUP BY state
