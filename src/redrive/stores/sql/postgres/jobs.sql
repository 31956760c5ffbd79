-- name: whole -- Everything about a job but its history; the beginning of most queries that read jobs.
SELECT n, id, created, key, event, given, payload, original, state, lease, due, updated, first_failed,
    cause, run, ceiling, attempts, lane, handler, more, since, lease_end, holder
FROM {schema}.job_rows

-- name: by_numbers -- The jobs of these rows.
{whole} WHERE n = ANY(%b::int8[]) ORDER BY n

-- name: to_change -- Jobs that are about to be changed, locked; see the function.
SELECT * FROM {schema}.jobs_to_change(%b::text[])

-- name: store_jobs -- New jobs, all or none; see the function. The limit for locks is set before it is
-- called, in the same statement: that costs no round trip.
SELECT set_config('lock_timeout', '4s', true),
    {schema}.store_jobs(%s::int, %b::text[], %b::int8[], %b::float8[], %s::json)

-- name: lease_jobs -- Lease the pending jobs that are due first, of all or of some; see the function.
SELECT * FROM {schema}.lease_jobs(
    %s::int, %s::smallint, %b::text[], %b::text[], %b::text[], %s::bool, %s::bool, %b::int8[], %s::int,
    %s::text, %s::float8, %s::text, %s::float8
)

-- name: claimed_by -- What a call of that claimed, if it did: its transaction is waited for.
{whole} WHERE n IN (SELECT n FROM {schema}.open WHERE holder IS NOT NULL AND claim = %s)
ORDER BY due, n

-- name: alone_claim -- Wait for such a call to end.
SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))

-- name: unclaim -- Undo claims: the jobs wait as before.
UPDATE {schema}.open SET holder = NULL, since = NULL, lease_end = NULL, claim = NULL
WHERE n = ANY(%b::int8[]) AND claim = %s

-- name: renew -- Lengthen leases; see the function.
SELECT * FROM {schema}.renew_leases(
    %s::int, %b::int8[], %b::int8[], %b::text[], %b::float8[], %s::float8
)

-- name: settle_jobs -- End claims; see the function.
SELECT {schema}.settle_jobs(%s::int, %b::text[], %b::int8[], %b::float8[], %s::json)

-- name: standing -- Which of these claims stand, locked.
SELECT g.place
FROM unnest(%b::int8[], %b::int8[], %b::text[], %b::float8[]) WITH ORDINALITY
    AS g (n, lease, holder, since, place)
JOIN {schema}.open AS q
    ON q.n = g.n AND q.lease = g.lease AND (q.holder = g.holder) IS TRUE AND q.since = g.since
ORDER BY q.n FOR UPDATE OF q

-- name: landed -- Something if one of these ends was written at this time: its record is kept, or its
-- job is as it was left.
SELECT
FROM unnest(%b::int8[], %b::int8[], %b::text[], %b::int8[], %b::float8[])
    AS g (n, ordinal, record, lease, updated)
LEFT JOIN {schema}.open AS o
    ON o.n = g.n AND o.updated = g.updated AND o.lease >= g.lease + (o.holder IS NOT NULL)::int
LEFT JOIN {schema}.ended AS e ON e.n = g.n AND e.lease = g.lease
LEFT JOIN {schema}.attempts AS a ON a.n = g.n AND a.ordinal = g.ordinal AND a.record = g.record
WHERE CASE
    WHEN g.record IS NULL THEN o.n IS NOT NULL OR e.at = g.updated
    ELSE a.n IS NOT NULL AND coalesce(e.at = g.updated, true)
END
LIMIT 1

-- name: ordinals -- The attempts that are kept of some jobs, oldest first.
SELECT n, array_agg(ordinal ORDER BY ordinal) FROM {schema}.attempts
WHERE n = ANY(%b::int8[]) GROUP BY n

-- name: forget_attempts -- Fold attempts away.
DELETE FROM {schema}.attempts AS a USING unnest(%b::int8[], %b::int8[]) AS gone (n, ordinal)
WHERE a.n = gone.n AND a.ordinal = gone.ordinal

-- name: lock_lost -- Running jobs whose lease is over, or all of one holder, locked; those that others
-- hold are left out.
SELECT n FROM {schema}.open
WHERE holder IS NOT NULL AND CASE
        WHEN %s::text IS NULL THEN lease_end IS NULL OR lease_end <= %s
        ELSE holder = %s::text
    END
    AND (%b::text[] IS NULL OR handler = ANY(%b::text[])) AND n <> ALL(%b::int8[])
ORDER BY n LIMIT %s FOR UPDATE SKIP LOCKED

-- name: seize -- Take running jobs over.
UPDATE {schema}.open AS q SET lease = g.lease, holder = g.holder, lease_end = g.lease_end, claim = NULL
FROM unnest(%b::int8[], %b::int8[], %b::text[], %b::float8[]) AS g (n, lease, holder, lease_end)
WHERE q.n = g.n AND q.holder IS NOT NULL

-- name: change_jobs -- Change jobs by an action; see the function.
SELECT {schema}.change_jobs(
    %b::int8[], %b::int8[], %b::text[], %b::float8[], %b::text[], %b::float8[], %b::float8[],
    %b::float8[], %b::int8[], %b::int8[], %b::int8[], %b::int4[], %b::int2[], %b::text[],
    %b::text[]
)

-- name: enlist -- Make jobs part of a run, or of none: only the tag and the list of actions change.
WITH g AS MATERIALIZED (
    SELECT * FROM unnest(%b::int8[], %b::int8[], %b::int8[], %b::text[]) AS g (n, lease, run, more)
), o AS (
    UPDATE {schema}.open AS q SET run = g.run, more = g.more FROM g
    WHERE q.n = g.n AND q.lease = g.lease RETURNING q.n
), e AS (
    UPDATE {schema}.ended AS q SET run = g.run, more = g.more FROM g
    WHERE q.n = g.n AND q.lease = g.lease RETURNING q.n
)
SELECT (SELECT count(*) FROM o) + (SELECT count(*) FROM e)

-- name: repay -- Give a job another payload.
UPDATE {schema}.jobs SET payload = %s, original = %s WHERE n = %s

-- name: kinds -- The lanes, handlers and categories of one state, in which jobs have ended: one seek
-- each, however many jobs there are, because each step jumps over the rest of its kind.
WITH RECURSIVE {ended_kinds} SELECT lane, handler, category FROM kind WHERE state = %s

-- name: ended_kinds -- The kinds of all states as a part of other statements.
kind AS (
    (SELECT state, lane, handler, category FROM {schema}.ended ORDER BY state, lane, handler, category LIMIT 1)
    UNION ALL
    SELECT following.*
    FROM kind CROSS JOIN LATERAL (
        SELECT e.state, e.lane, e.handler, e.category FROM {schema}.ended AS e
        WHERE (e.state, e.lane, e.handler, e.category) > (kind.state, kind.lane, kind.handler, kind.category)
        ORDER BY e.state, e.lane, e.handler, e.category LIMIT 1
    ) AS following
)

-- name: over -- Jobs of one kind that changed last before a time, locked; what somebody else works on
-- can wait.
SELECT n FROM {schema}.ended
WHERE state = %s AND lane = %s AND handler = %s AND category = %s AND at < %s
    AND coalesce(%s::boolean = (coalesce(strpos(more, '"died_at":'), 0) > 0), true)
ORDER BY at LIMIT %s
FOR UPDATE SKIP LOCKED

-- name: remove_rest -- The states of purged jobs.
DELETE FROM {schema}.ended WHERE n = ANY(%b::int8[])
