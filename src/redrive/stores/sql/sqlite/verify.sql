-- name: check_pages
-- Whether the file's pages and indexes hang together.
PRAGMA integrity_check(20)

-- name: schema_version
-- Which migration was the last.
PRAGMA user_version

-- name: journal_mode
-- How commits are written.
PRAGMA journal_mode

-- name: count_jobs
-- How many jobs there are.
SELECT count(*) FROM jobs

-- name: odd_lease
-- Jobs whose state and lease contradict each other.
SELECT id FROM jobs WHERE (state = 'running') <> (holder IS NOT NULL) LIMIT 20

-- name: odd_end
-- Jobs whose state and finished time contradict each other.
SELECT id FROM jobs WHERE (state IN ('pending', 'running')) <> (finished IS NULL) LIMIT 20

-- name: odd_sort
-- Jobs whose sorting columns do not follow from the others.
SELECT id FROM jobs
WHERE at <> CASE WHEN state IN ('pending', 'running') THEN due ELSE coalesce(finished, updated) END
    OR suspect <> (state = 'pending' AND crashes > 0)
LIMIT 20

-- name: no_payload
-- Jobs whose payload is missing.
SELECT id FROM jobs LEFT JOIN payloads USING (n) WHERE payload IS NULL LIMIT 20

-- name: no_cause
-- Jobs whose group is missing.
SELECT id FROM jobs WHERE cause IS NOT NULL AND cause NOT IN (SELECT number FROM causes) LIMIT 20

-- name: stray_payload
-- Payloads without a job.
SELECT p.n FROM payloads p LEFT JOIN jobs USING (n) WHERE id IS NULL LIMIT 20

-- name: stray_attempt
-- Attempts without a job.
SELECT DISTINCT a.n FROM attempts a LEFT JOIN jobs USING (n) WHERE id IS NULL LIMIT 20

-- name: checked
-- The columns of some jobs that can hold nonsense, in the order of CHECKED.
SELECT n, id, state, reason, spent, failure, tags, resolution, origin FROM jobs
WHERE n > ? ORDER BY n LIMIT ?

-- name: records
-- The attempts of some jobs.
SELECT id, n, ordinal, record FROM attempts JOIN jobs USING (n)
WHERE (n, ordinal) > (?, ?) ORDER BY n, ordinal LIMIT ?
