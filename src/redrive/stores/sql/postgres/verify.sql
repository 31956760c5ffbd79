-- name: count_jobs
-- How many jobs there are.
SELECT count(*) FROM {schema}.jobs

-- name: server
-- The server, how much room the tables take, and how many old versions of rows wait to be removed.
SELECT current_setting('server_version'), current_database(),
    sum(pg_total_relation_size(c.oid))::int8,
    sum(pg_stat_get_dead_tuples(c.oid)) FILTER (WHERE c.relname = 'jobs')
FROM pg_class AS c
WHERE c.relnamespace = to_regnamespace('{schema}') AND c.relkind = 'r'

-- name: old_snapshot
-- How many seconds ago the oldest transaction began that keeps old versions from being removed.
SELECT extract(epoch FROM clock_timestamp() - min(xact_start))::float8 FROM pg_stat_activity
WHERE backend_xmin IS NOT NULL AND pid <> pg_backend_pid()

-- name: odd_place
-- Jobs that are pending and neither wait nor run, or do both, or do either and are not pending.
SELECT id FROM {schema}.jobs AS j
WHERE (state = 'pending')::int <> (
        SELECT count(*) FROM {schema}.ready AS r
        WHERE r.suspect = (j.crashes > 0)::int AND r.lane = j.lane AND r.handler = j.handler
            AND r.category = j.category AND r.at = j.at AND r.n = j.n
    ) + (SELECT count(*) FROM {schema}.leases AS l WHERE l.n = j.n)
LIMIT 20

-- name: stray_place
-- What waits or runs without a job, or is not where its job would have it.
SELECT r.n FROM {schema}.ready AS r LEFT JOIN {schema}.jobs AS j USING (n)
WHERE j.id IS NULL OR j.state <> 'pending'
    OR (r.suspect, r.lane, r.handler, r.category, r.at)
        <> ((j.crashes > 0)::int, j.lane, j.handler, j.category, j.at)
UNION ALL
SELECT l.n FROM {schema}.leases AS l LEFT JOIN {schema}.jobs AS j USING (n)
WHERE j.id IS NULL OR j.state <> 'pending'
LIMIT 20

-- name: odd_end
-- Jobs whose state and finished time contradict each other.
SELECT id FROM {schema}.jobs WHERE (state = 'pending') <> (finished IS NULL) LIMIT 20

-- name: odd_sort
-- Jobs whose sorting columns do not follow from the others.
SELECT id FROM {schema}.jobs
WHERE at <> CASE WHEN state = 'pending' THEN due ELSE coalesce(finished, updated) END
LIMIT 20

-- name: no_payload
-- Jobs whose payload is missing.
SELECT id FROM {schema}.jobs LEFT JOIN {schema}.payloads USING (n) WHERE payload IS NULL LIMIT 20

-- name: no_cause
-- Jobs whose group is missing.
SELECT id FROM {schema}.jobs LEFT JOIN {schema}.causes ON number = cause
WHERE cause IS NOT NULL AND number IS NULL LIMIT 20

-- name: stray_payload
-- Payloads without a job.
SELECT p.n FROM {schema}.payloads AS p LEFT JOIN {schema}.jobs USING (n) WHERE id IS NULL LIMIT 20

-- name: stray_attempt
-- Attempts without a job.
SELECT DISTINCT a.n FROM {schema}.attempts AS a LEFT JOIN {schema}.jobs USING (n)
WHERE id IS NULL LIMIT 20

-- name: checked
-- The columns of some jobs that can hold nonsense, in the order of CHECKED.
SELECT n, id, state, reason, spent, failure, tags, resolution, origin FROM {schema}.jobs
WHERE n > %s ORDER BY n LIMIT %s

-- name: records
-- The attempts of some jobs.
SELECT id, n, ordinal, record FROM {schema}.attempts JOIN {schema}.jobs USING (n)
WHERE (n, ordinal) > (%s, %s) ORDER BY n, ordinal LIMIT %s
