-- name: server -- The server, how much room the tables take, and how many old versions of rows wait to
-- be removed.
SELECT current_setting('server_version'), current_database(),
    sum(pg_total_relation_size(c.oid))::int8,
    sum(pg_stat_get_dead_tuples(c.oid)) FILTER (WHERE c.relname IN ('jobs', 'open', 'ended'))
FROM pg_class AS c
WHERE c.relnamespace = to_regnamespace('{schema}') AND c.relkind = 'r'

-- name: old_snapshot -- How many seconds ago the oldest transaction began that keeps old versions from
-- being removed.
SELECT extract(epoch FROM clock_timestamp() - min(xact_start))::float8 FROM pg_stat_activity
WHERE backend_xmin IS NOT NULL AND pid <> pg_backend_pid()

-- name: odd_place -- Jobs that have not exactly one state.
SELECT id FROM {schema}.jobs AS j
WHERE (SELECT count(*) FROM {schema}.open AS o WHERE o.n = j.n AND o.id = j.id)
    + (SELECT count(*) FROM {schema}.ended AS e WHERE e.n = j.n AND e.id = j.id) <> 1
LIMIT 20

-- name: stray_place -- States without a job.
SELECT s.id FROM {schema}.states AS s LEFT JOIN {schema}.jobs AS j USING (n)
WHERE j.id IS NULL LIMIT 20

-- name: odd_lease -- Jobs with half a lease.
SELECT id FROM {schema}.open
WHERE (holder IS NULL) <> (since IS NULL) OR (holder IS NULL AND lease_end IS NOT NULL) LIMIT 20

-- name: odd_state -- Jobs that have ended, but not so that we know it.
SELECT id FROM {schema}.ended WHERE state NOT IN ('completed', 'dead', 'resolved') LIMIT 20

-- name: checked -- Some jobs, with what is filed about them.
SELECT s.suspect, s.category, s.at, j.action, r.* FROM {schema}.jobs AS j
CROSS JOIN LATERAL (SELECT * FROM {schema}.job_rows AS r WHERE r.n = j.n LIMIT 1) AS r
CROSS JOIN LATERAL (SELECT suspect, category, at FROM {schema}.states AS s WHERE s.n = j.n LIMIT 1) AS s
WHERE j.n > %s ORDER BY j.n LIMIT %s
