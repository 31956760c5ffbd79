-- name: columns
-- The columns of a job in the order in which `rows` writes and reads them; include elsewhere.
id, {columns_after_id}

-- name: columns_after_id
-- All but the first.
state, suspect, lane, handler, category, at, key, reason, detail, created, due, since, updated,
finished, first_failed, attempts, spent, crashes, redrives, max_attempts, ceiling, failure, lease,
holder, lease_end, boot, tags, release, cause, run, resolution, edits, folded, origin

-- name: whole
-- Everything about a job but its history; the beginning of most queries that read jobs.
SELECT n, {columns}, payload, original FROM {schema}.whole

-- name: by_id
-- One job.
{whole} WHERE id = %s

-- name: by_ids
-- Those of these jobs that there are.
{whole} WHERE id = ANY(%b::text[])

-- name: to_change
-- The same for jobs that are about to be changed, locked; see the function.
SELECT n, {columns}, payload, original FROM {schema}.to_change(%b::text[])

-- name: by_keys
-- The jobs that these idempotency keys stand for.
{whole} WHERE key = ANY(%b::text[])

-- name: attempts
-- The history of a job, oldest first.
SELECT record FROM {schema}.attempts WHERE n = %s ORDER BY ordinal

-- name: add_one
-- A new job as most are, nothing but defaults beside what is given; see the function. The limit for
-- locks is set before it is called, in the same statement: that costs no round trip.
SELECT set_config('lock_timeout', '4s', true), {schema}.add_job(
    %s::int, %s::text, %s::text, %s::text, %s::text, %s::float8, %s::float8, %s::int8, %s::int8,
    %s::text, %s::text, %s::text
)

-- name: add_many
-- The same for many.
SELECT set_config('lock_timeout', '4s', true), {schema}.add_jobs(
    %s::int, %b::text[], %b::text[], %b::text[], %b::text[], %b::float8[], %b::float8[], %b::int8[],
    %b::int8[], %b::text[], %b::text[], %b::text[]
)

-- name: add_whole
-- New jobs with everything about them; gives the ids of those that were written. None is running.
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
    INSERT INTO {schema}.jobs (
        id, state, lane, handler, category, at, key, reason, detail, created, due, since, updated,
        finished, first_failed, attempts, spent, crashes, redrives, max_attempts, ceiling, failure,
        lease, tags, release, cause, run, resolution, edits, folded, origin
    )
    SELECT id, state, lane, handler, category, at, key, reason, detail, created, due, since, updated,
        finished, first_failed, attempts, spent, crashes, redrives, max_attempts, ceiling, failure,
        lease, tags, release, cause, run, resolution, edits, folded, origin
    FROM given
    ON CONFLICT DO NOTHING
    RETURNING n, id
), waiting AS (
    INSERT INTO {schema}.ready (n, at, suspect, lane, handler, category)
    SELECT made.n, at, suspect, lane, handler, category FROM made JOIN given USING (id)
    WHERE state = 'pending'
), paid AS (
    INSERT INTO {schema}.payloads (n, payload, original)
    SELECT made.n, given.payload, given.original FROM made JOIN given USING (id)
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
-- The lanes, handlers and categories of one state, in which jobs have ended, with their earliest time:
-- one seek each, however many jobs there are, because each step jumps over the rest of its kind.
WITH RECURSIVE asked (state, suspect) AS (
    SELECT %s::text COLLATE "C", %s::smallint
), kind AS (
    (
        SELECT jobs.state, lane, handler, category, at
        FROM asked JOIN {schema}.jobs USING (state)
        WHERE jobs.state <> 'pending'
        ORDER BY lane, handler, category, at LIMIT 1
    )
    UNION ALL
    SELECT following.*
    FROM kind CROSS JOIN LATERAL (
        SELECT state, lane, handler, category, at FROM {schema}.jobs AS j
        WHERE j.state = kind.state AND j.state <> 'pending'
            AND (j.lane, j.handler, j.category) > (kind.lane, kind.handler, kind.category)
        ORDER BY lane, handler, category, at LIMIT 1
    ) AS following
)
SELECT lane, handler, category, at FROM kind

-- name: claim
-- Lease the pending jobs that are due first, of all or of some; see the function.
SELECT n, {columns}, payload, original FROM {schema}.claim_jobs(
    %s::int, %s::smallint, %b::text[], %b::text[], %b::text[], %s::bool, %s::bool, %s::int, %s::text,
    %s::float8, %s::text, %s::float8
)

-- name: claimed_by
-- What a call of that claimed, if it did: its transaction is waited for.
SELECT n, {columns}, payload, original
FROM {schema}.whole WHERE n IN (SELECT n FROM {schema}.leases WHERE claim = %s)
ORDER BY at, n

-- name: alone_claim
-- Wait for such a call to end.
SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))

-- name: finish
-- End claims that went well, and alike: the numbers of those whose fence stood, when, and of what
-- cause (none), after the number of the call. See the function.
SELECT %s::int, number, moment, NULL::int8 FROM {schema}.finish_jobs(
    %s::int, %s::int8, %s::text, %s::float8, %s::text, %s::text, %s::text, %s::int8, %s::float8,
    %b::int8[], %b::text[]
)

-- name: fail
-- The same for claims that failed: those of one fence. See the function.
SELECT %s::int, number, moment, cause FROM {schema}.fail_jobs(
    %s::int, %s::int8, %s::text, %s::float8, %s::float8, %b::int8[], %b::text[], %b::float8[],
    %b::text[], %b::text[], %b::text[], %b::text[], %b::int4[], %b::int8[], %b::text[], %b::text[],
    %b::text[]
)

-- name: recorded
-- Which of these jobs keep exactly these records, when that was (unknown if they ended again since),
-- and their causes.
SELECT n, CASE WHEN j.lease = ordinal THEN j.updated END, j.cause
FROM unnest(%b::int8[], %b::text[], %b::int8[]) AS given (n, record, ordinal)
JOIN {schema}.attempts USING (n, record, ordinal) JOIN {schema}.jobs AS j USING (n)

-- name: unclaim
-- Undo claims: the jobs wait as before.
WITH gone AS (DELETE FROM {schema}.leases WHERE n = ANY(%b::int8[]) RETURNING n)
INSERT INTO {schema}.ready (n, at, suspect, lane, handler, category)
SELECT n, at, (crashes > 0)::int, lane, handler, category FROM gone JOIN {schema}.jobs USING (n)

-- name: held
-- The fences of those of these jobs that are running, locked until they are written.
SELECT id, n, l.lease, l.holder FROM {schema}.jobs AS j JOIN {schema}.leases AS l USING (n)
WHERE id = ANY(%b::text[])
ORDER BY n FOR UPDATE OF l

-- name: renew
-- Lengthen leases.
UPDATE {schema}.leases
SET lease_end = new.lease_end, boot = new.boot
FROM unnest(%b::float8[], %b::text[], %b::int8[]) AS new (lease_end, boot, n)
WHERE leases.n = new.n

-- name: ended
-- Running jobs whose lease is over, locked; see the function.
SELECT n, {columns}, payload, original
FROM {schema}.lost_jobs(NULL, %s::text, %s::float8, NULL, %s::int)

-- name: ended_of
-- The same for some handlers.
SELECT n, {columns}, payload, original
FROM {schema}.lost_jobs(NULL, %s::text, %s::float8, %b::text[], %s::int)

-- name: held_by
-- The running jobs of one holder.
SELECT n, {columns}, payload, original
FROM {schema}.lost_jobs(%s::text, NULL, 0, NULL, %s::int)

-- name: seize
-- Take running jobs over.
UPDATE {schema}.leases
SET lease = new.lease, holder = new.holder, lease_end = new.lease_end, boot = new.boot, claim = NULL
FROM unnest(%b::int8[], %b::text[], %b::float8[], %b::text[], %b::int8[])
    AS new (lease, holder, lease_end, boot, n)
WHERE leases.n = new.n

-- name: complete
-- End claims that went well, and alike.
WITH how (category, at, reason, detail, ceiling, finished, updated, folded) AS (
    SELECT %s::text, %s::float8, %s::text, %s::text, %s::int8, %s::float8, %s::float8, %s::int4
), gone AS (
    DELETE FROM {schema}.leases WHERE n = ANY (%b::int8[]) RETURNING n, lease
)
UPDATE {schema}.jobs AS j
SET state = 'completed', category = how.category, at = how.at, reason = how.reason,
    detail = how.detail, ceiling = how.ceiling, finished = how.finished, updated = how.updated,
    folded = how.folded, attempts = j.attempts + 1, lease = gone.lease
FROM gone CROSS JOIN how
WHERE j.n = gone.n

-- name: rewrite
-- Write everything that a transition may change, and where the jobs stand after it.
WITH new AS MATERIALIZED (
    SELECT * FROM unnest(
        %b::text[], %b::int2[], %b::text[], %b::float8[], %b::text[], %b::text[], %b::float8[],
        %b::float8[], %b::float8[], %b::float8[], %b::float8[], %b::int4[], %b::text[], %b::int4[],
        %b::int4[], %b::int8[], %b::text[], %b::int8[], %b::text[], %b::float8[], %b::text[],
        %b::int8[], %b::int8[], %b::text[], %b::int4[], %b::int4[], %b::int8[]
    ) AS new (
        state, suspect, category, at, reason, detail, due, since, updated, finished, first_failed,
        attempts, spent, crashes, redrives, ceiling, failure, lease, holder, lease_end, boot, cause,
        run, resolution, edits, folded, n
    )
), ended AS (
    DELETE FROM {schema}.leases USING new WHERE leases.n = new.n RETURNING leases.n, leases.lease
), started AS (
    DELETE FROM {schema}.ready AS r USING new JOIN {schema}.jobs AS j USING (n)
    WHERE r.suspect = (j.crashes > 0)::int AND r.lane = j.lane AND r.handler = j.handler
        AND r.category = j.category AND r.at = j.at AND r.n = j.n
), written AS (
    UPDATE {schema}.jobs
    SET state = new.state, category = new.category, at = new.at, reason = new.reason,
        detail = new.detail, due = new.due, since = new.since, updated = new.updated,
        finished = new.finished, first_failed = new.first_failed, attempts = new.attempts,
        spent = new.spent, crashes = new.crashes, redrives = new.redrives, ceiling = new.ceiling,
        failure = new.failure, lease = greatest(new.lease, ended.lease), cause = new.cause,
        run = new.run, resolution = new.resolution, edits = new.edits, folded = new.folded
    FROM new LEFT JOIN ended USING (n) WHERE jobs.n = new.n
    RETURNING jobs.n, jobs.state, jobs.at, suspect, jobs.lane, jobs.handler, jobs.category
)
INSERT INTO {schema}.ready (n, at, suspect, lane, handler, category)
SELECT n, at, suspect, lane, handler, category FROM written WHERE state = 'pending'

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
WHERE state = %s AND state <> 'pending' AND lane = %s AND handler = %s AND category = %s AND at < %s
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
