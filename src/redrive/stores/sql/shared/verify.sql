-- name: count_jobs -- How many jobs there are.
SELECT count(*) FROM {schema}.jobs

-- name: stray_attempt -- Attempts without a job.
SELECT DISTINCT a.n FROM {schema}.attempts AS a LEFT JOIN {schema}.jobs AS j ON j.n = a.n
WHERE j.id IS NULL LIMIT 20

-- name: no_cause -- Jobs whose group is missing.
SELECT id FROM {states}
WHERE cause IS NOT NULL AND cause NOT IN (SELECT number FROM {schema}.groups) LIMIT 20

-- name: records -- The next attempts of jobs.
SELECT id, a.n, ordinal, record FROM {schema}.attempts AS a JOIN {schema}.jobs AS j ON j.n = a.n
WHERE (a.n, ordinal) > (?, ?) ORDER BY a.n, ordinal LIMIT ?
