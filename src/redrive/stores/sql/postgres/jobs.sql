-- name: columns
-- The columns of a job in the order in which `rows` writes and reads them; include elsewhere.
id, {columns_after_id}

-- name: columns_after_id
-- All but the first.
state, suspect, lane, handler, category, at, key, reason, detail, created, due, since, updated,
finished, first_failed, attempts, spent, crashes, redrives, max_attempts, ceiling, failure, lease,
holder, lease_end, boot, tags, release, cause, run, resolution, edits, folded, origin

-- name: whole
-- Everything about a job but its history; the beginning of every query that reads jobs.
SELECT n, {columns}, payload, original FROM {schema}.jobs JOIN {schema}.payloads USING (n)

-- name: by_id
-- One job.
{whole} WHERE id = %s

-- name: by_ids
-- Those of these jobs that there are.
{whole} WHERE id = ANY(%b::text[])

-- name: to_change
-- The same for jobs that are about to be changed: locked in one order, so that nobody waits in a
-- circle, and as they are once the lock is ours. Both tables are locked, or the payload would be as
-- it was before the wait.
{by_ids} ORDER BY id FOR UPDATE

-- name: by_keys
-- The jobs that these idempotency keys stand for.
{whole} WHERE key = ANY(%b::text[])

-- name: by_numbers
-- These jobs, by number, in the order of the numbers given.
SELECT n, {columns}, payload, original
FROM unnest(%b::int8[]) WITH ORDINALITY AS wanted (n, place)
JOIN {schema}.jobs USING (n) JOIN {schema}.payloads USING (n)
ORDER BY place

-- name: attempts
-- The history of a job, oldest first.
SELECT record FROM {schema}.attempts WHERE n = %s ORDER BY ordinal

-- name: add_one
-- A new job as most are, nothing but defaults beside what is given; see the function.
SELECT {schema}.add_job(
    %s, %s::text, %s::text, %s::text, %s::text, %s::float8, %s::float8, %s::int8, %s::int8,
    %s::text, %s::text, %s::text
)

-- name: add_new
-- The same for many; counts those that were written.
WITH given AS (
    SELECT * FROM unnest(
        %b::text[], %b::text[], %b::text[], %b::text[], %b::float8[], %b::float8[], %b::int8[],
        %b::int8[], %b::text[], %b::text[], %b::text[]
    ) AS g (id, lane, handler, key, created, due, max_attempts, ceiling, tags, release, payload)
    WHERE NOT EXISTS (SELECT FROM {schema}.redrive_migrations WHERE version > %s)
), made AS (
    INSERT INTO {schema}.jobs (
        id, lane, handler, key, created, updated, due, since, at, max_attempts, ceiling, tags,
        release
    )
    SELECT id, lane, handler, key, created, created, due, due, due, max_attempts, ceiling, tags,
        release
    FROM given
    ON CONFLICT DO NOTHING
    RETURNING n, id
)
INSERT INTO {schema}.payloads (n, payload)
SELECT made.n, given.payload FROM made JOIN given ON given.id = made.id

-- name: add_whole
-- New jobs with everything about them; gives the ids of those that were written.
WITH given AS (
    SELECT * FROM unnest(
        %b::text[], %b::text[], %b::int2[], %b::text[], %b::text[], %b::text[], %b::float8[],
        %b::text[], %b::text[], %b::text[], %b::float8[], %b::float8[], %b::float8[], %b::float8[],
        %b::float8[], %b::float8[], %b::int4[], %b::text[], %b::int4[], %b::int4[], %b::int8[],
        %b::int8[], %b::text[], %b::int8[], %b::text[], %b::float8[], %b::text[], %b::text[],
        %b::text[], %b::int8[], %b::int8[], %b::text[], %b::int4[], %b::int4[], %b::text[],
        %b::text[], %b::text[]
    ) AS g ({columns}, payload, original)
), made AS (
    INSERT INTO {schema}.jobs ({columns})
    SELECT {columns} FROM given
    ON CONFLICT DO NOTHING
    RETURNING n, id
), paid AS (
    INSERT INTO {schema}.payloads (n, payload, original)
    SELECT made.n, given.payload, given.original FROM made JOIN given ON given.id = made.id
)
SELECT id FROM made

-- name: add_attempts
-- Their histories.
INSERT INTO {schema}.attempts (n, ordinal, record)
SELECT jobs.n, given.ordinal, given.record
FROM unnest(%b::text[], %b::int8[], %b::text[]) AS given (id, ordinal, record)
JOIN {schema}.jobs ON jobs.id = given.id

-- name: insert_attempt
-- Ended executions.
INSERT INTO {schema}.attempts (n, ordinal, record)
SELECT * FROM unnest(%b::int8[], %b::int8[], %b::text[])

-- name: kinds
-- The lanes, handlers and categories of one state with their earliest time: one seek each, however
-- many jobs there are, because each step jumps over the rest of its kind.
WITH RECURSIVE asked (state, suspect) AS (
    SELECT %s::text COLLATE "C", %s::smallint
), kind AS (
    (
        SELECT jobs.state, jobs.suspect, lane, handler, category, at
        FROM asked JOIN {schema}.jobs USING (state, suspect)
        ORDER BY lane, handler, category, at LIMIT 1
    )
    UNION ALL
    SELECT following.*
    FROM kind CROSS JOIN LATERAL (
        SELECT state, suspect, lane, handler, category, at FROM {schema}.jobs AS j
        WHERE j.state = kind.state AND j.suspect = kind.suspect
            AND (j.lane, j.handler, j.category) > (kind.lane, kind.handler, kind.category)
        ORDER BY lane, handler, category, at LIMIT 1
    ) AS following
)
SELECT lane, handler, category, at FROM kind

-- name: due
-- Lock the pending jobs that are due first: how many came into question, and the numbers of those.
SELECT candidates, numbers FROM {schema}.due_jobs(
    %s::smallint, %s::float8, %b::text[], %b::text[], %s::bool, %b::text[], %s::int, %s::int
)

-- name: due_of
-- The same among some jobs only.
SELECT n FROM {schema}.jobs
WHERE id = ANY(%b::text[]) AND state || '' = 'pending' AND suspect + 0 = %s AND at + 0 <= %s
    AND handler = ANY(%b::text[]) AND lane <> ALL(%b::text[])
    AND (%s::bool OR lane = ANY(%b::text[]))
ORDER BY at, n LIMIT %s
FOR UPDATE SKIP LOCKED

-- name: claim
-- Lease pending jobs.
UPDATE {schema}.jobs
SET state = 'running', suspect = 0, attempts = attempts + 1, lease = lease + 1, holder = %s,
    lease_end = %s, boot = %s, updated = %s
WHERE n = ANY (%b::int8[])

-- name: held
-- The fences of those of these jobs that are running, locked until they are written; `|| ''` as above.
SELECT id, n, lease, holder FROM {schema}.jobs
WHERE id = ANY(%b::text[]) AND state || '' = 'running'
ORDER BY id FOR UPDATE

-- name: renew
-- Lengthen leases.
UPDATE {schema}.jobs
SET lease_end = new.lease_end, boot = new.boot
FROM unnest(%b::float8[], %b::text[], %b::int8[]) AS new (lease_end, boot, n)
WHERE jobs.n = new.n

-- name: ended
-- Running jobs whose lease is over: measured by another clock, or past its end.
{whole}
WHERE state = 'running' AND suspect = 0
    AND (boot IS DISTINCT FROM %s::text OR lease_end IS NULL OR lease_end <= %s)
LIMIT %s
FOR UPDATE SKIP LOCKED

-- name: ended_of
-- The same for some handlers.
{whole}
WHERE state = 'running' AND suspect = 0
    AND (boot IS DISTINCT FROM %s::text OR lease_end IS NULL OR lease_end <= %s)
    AND handler = ANY(%b::text[])
LIMIT %s
FOR UPDATE SKIP LOCKED

-- name: held_by
-- The running jobs of one holder.
{whole} WHERE state = 'running' AND suspect = 0 AND holder = %s LIMIT %s FOR UPDATE SKIP LOCKED

-- name: seize
-- Take running jobs over.
UPDATE {schema}.jobs
SET lease = new.lease, holder = new.holder, lease_end = new.lease_end, boot = new.boot
FROM unnest(%b::int8[], %b::text[], %b::float8[], %b::text[], %b::int8[])
    AS new (lease, holder, lease_end, boot, n)
WHERE jobs.n = new.n

-- name: complete
-- End claims that went well, and alike.
UPDATE {schema}.jobs
SET state = 'completed', category = %s, at = %s, reason = %s, detail = %s, ceiling = %s,
    finished = %s, updated = %s, folded = %s, holder = NULL, lease_end = NULL, boot = NULL
WHERE n = ANY (%b::int8[])

-- name: rewrite
-- Write everything that a transition may change.
UPDATE {schema}.jobs
SET state = new.state, suspect = new.suspect, category = new.category, at = new.at,
    reason = new.reason, detail = new.detail, due = new.due, since = new.since,
    updated = new.updated, finished = new.finished, first_failed = new.first_failed,
    attempts = new.attempts, spent = new.spent, crashes = new.crashes, redrives = new.redrives,
    ceiling = new.ceiling, failure = new.failure, lease = new.lease, holder = new.holder,
    lease_end = new.lease_end, boot = new.boot, cause = new.cause, run = new.run,
    resolution = new.resolution, edits = new.edits, folded = new.folded
FROM unnest(
    %b::text[], %b::int2[], %b::text[], %b::float8[], %b::text[], %b::text[], %b::float8[],
    %b::float8[], %b::float8[], %b::float8[], %b::float8[], %b::int4[], %b::text[], %b::int4[],
    %b::int4[], %b::int8[], %b::text[], %b::int8[], %b::text[], %b::float8[], %b::text[],
    %b::int8[], %b::int8[], %b::text[], %b::int4[], %b::int4[], %b::int8[]
) AS new (
    state, suspect, category, at, reason, detail, due, since, updated, finished, first_failed,
    attempts, spent, crashes, redrives, ceiling, failure, lease, holder, lease_end, boot, cause,
    run, resolution, edits, folded, n
)
WHERE jobs.n = new.n

-- name: enlist
-- Make jobs part of a run, or of none.
UPDATE {schema}.jobs SET run = new.run
FROM unnest(%b::int8[], %b::int8[]) AS new (run, n)
WHERE jobs.n = new.n

-- name: repay
-- Give a job another payload.
UPDATE {schema}.payloads SET payload = %s, original = %s WHERE n = %s

-- name: middle
-- The attempts between the first and the last ones to be kept.
SELECT ordinal FROM {schema}.attempts WHERE n = %s ORDER BY ordinal LIMIT %s OFFSET %s

-- name: count_attempts
-- How many attempts of a job are kept.
SELECT count(*) FROM {schema}.attempts WHERE n = %s

-- name: forget_attempt
-- Fold attempts away.
DELETE FROM {schema}.attempts AS a
USING unnest(%b::int8[], %b::int8[]) AS gone (n, ordinal)
WHERE a.n = gone.n AND a.ordinal = gone.ordinal

-- name: over
-- Jobs of one kind that finished before a time, locked; what somebody else works on can wait.
SELECT n FROM {schema}.jobs
WHERE state = %s AND suspect = 0 AND lane = %s AND handler = %s AND category = %s AND at < %s
    AND finished IS NOT NULL
ORDER BY at LIMIT %s
FOR UPDATE SKIP LOCKED

-- name: remove_attempts
-- The histories of purged jobs.
DELETE FROM {schema}.attempts WHERE n = ANY(%b::int8[])

-- name: remove_payloads
-- The payloads of purged jobs.
DELETE FROM {schema}.payloads WHERE n = ANY(%b::int8[])

-- name: remove_jobs
-- Purged jobs.
DELETE FROM {schema}.jobs WHERE n = ANY(%b::int8[])

-- name: cause
-- The number of a cause.
SELECT number FROM {schema}.causes WHERE fingerprint = %s

-- name: insert_cause
-- A cause that was seen for the first time; if another was faster, the number it was given.
INSERT INTO {schema}.causes (fingerprint, title) VALUES (%s, %s)
ON CONFLICT (fingerprint) DO UPDATE SET fingerprint = excluded.fingerprint
RETURNING number
