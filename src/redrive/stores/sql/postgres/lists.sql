-- name: counts
-- How many jobs of each state, lane and category there are, and the earliest time of each. What has
-- ended is counted kind by kind, along the index: each step jumps over the rest of its kind.
WITH RECURSIVE kind AS (
    (
        SELECT state, lane, handler, category FROM {schema}.jobs WHERE state <> 'pending'
        ORDER BY state, lane, handler, category LIMIT 1
    )
    UNION ALL
    SELECT following.*
    FROM kind CROSS JOIN LATERAL (
        SELECT j.state, j.lane, j.handler, j.category FROM {schema}.jobs AS j
        WHERE j.state <> 'pending' AND (j.state, j.lane, j.handler, j.category)
            > (kind.state, kind.lane, kind.handler, kind.category)
        ORDER BY j.state, j.lane, j.handler, j.category LIMIT 1
    ) AS following
), tally AS (
    SELECT kind.state, kind.lane, kind.category, counted.*
    FROM kind CROSS JOIN LATERAL (
        SELECT count(*) AS jobs, min(at) AS at FROM {schema}.jobs AS j
        WHERE j.state <> 'pending' AND j.state = kind.state AND j.lane = kind.lane
            AND j.handler = kind.handler AND j.category = kind.category
    ) AS counted
)
SELECT 'pending', lane, category, count(*), min(at) FROM {schema}.ready GROUP BY lane, category
UNION ALL
SELECT 'running', lane, category, count(*), min(at)
FROM {schema}.leases AS l CROSS JOIN LATERAL (
    SELECT lane, category, at FROM {schema}.jobs AS j WHERE j.n = l.n LIMIT 1
) AS job
GROUP BY lane, category
UNION ALL
SELECT state, lane, category, sum(jobs)::int8, min(at) FROM tally GROUP BY state, lane, category

-- name: few
-- How many jobs are in these states, counted no further than a limit in each.
SELECT count(*)
FROM (SELECT %b::text[] AS states, %s::int AS most) AS asked CROSS JOIN LATERAL (
    (SELECT FROM {schema}.ready WHERE 'pending' = ANY(states) LIMIT most)
    UNION ALL
    (SELECT FROM {schema}.leases WHERE 'running' = ANY(states) LIMIT most)
    UNION ALL
    (SELECT FROM {schema}.jobs WHERE state = ANY(states) AND state <> 'pending' LIMIT most)
) AS several

-- name: list
-- The beginning of a list; the planner sees by itself which index is best.
{whole}

-- name: list_by_id
-- The same in the order of ids, where most jobs will do.
{list}

-- name: list_by_kind
-- The same for few jobs of some states: fetched and sorted. The planner would rather go along the ids
-- until it has a page, which is long if all of them are old; it cannot, where the id is an expression.
SELECT n, id || '' AS id, {columns_after_id}, payload, original FROM {schema}.whole

-- name: list_dead_by_change
-- The same for dead jobs as they changed; they have no lease, so their own row says all.
SELECT n, id, state, 0::smallint, lane, handler, category, at, key, reason, detail, created, due, since,
    updated, finished, first_failed, attempts, spent, crashes, redrives, max_attempts, ceiling, failure,
    lease, NULL::text, NULL::float8, NULL::text, tags, release, cause, run, resolution, edits, folded,
    origin, payload, original
FROM {schema}.jobs JOIN {schema}.payloads USING (n)

-- name: list_dead_by_cause
-- The same for dead jobs of one cause.
{list_dead_by_change}

-- name: tally
-- The beginning of a count by cause.
SELECT cause, handler, category, count(*), min(coalesce(first_failed, updated)), max(updated)
FROM {schema}.whole

-- name: tally_dead
-- The same for dead jobs, along one index.
SELECT cause, handler, category, count(*), min(coalesce(first_failed, updated)), max(updated)
FROM {schema}.jobs

-- name: by_cause
-- The end of every count by cause.
GROUP BY cause, handler, category

-- name: causes
-- These causes.
SELECT number, fingerprint, title FROM {schema}.causes WHERE number = ANY(%b::int8[])

-- name: run_states
-- How many jobs are tagged so, by state.
SELECT CASE WHEN l.lease IS NULL THEN state ELSE 'running' END, count(*)
FROM {schema}.jobs LEFT JOIN {schema}.leases AS l USING (n)
WHERE run = %s GROUP BY 1

-- name: run_oldest
-- The oldest of them in one state.
SELECT id FROM {schema}.jobs AS j WHERE run = %s AND state = %s
    AND NOT EXISTS (SELECT FROM {schema}.leases AS l WHERE l.n = j.n)
ORDER BY id LIMIT %s

-- name: run_failing
-- How many of them failed in this life and wait for their next try.
SELECT count(*) FROM {schema}.jobs AS j WHERE run = %s AND state = 'pending' AND spent IS NOT NULL
    AND NOT EXISTS (SELECT FROM {schema}.leases AS l WHERE l.n = j.n)

-- name: run_causes
-- What the dead ones died of.
SELECT cause, count(*) FROM {schema}.jobs
WHERE run = %s AND state = 'dead' AND cause IS NOT NULL
GROUP BY cause

-- name: deaths
-- How many jobs that are dead now died in each of some spans of one width.
SELECT span.key - 1, (
    SELECT count(*) FROM {schema}.jobs
    WHERE state = 'dead' AND updated > span.value AND updated <= span.value + asked.width
)
FROM (SELECT %s::float8 AS width) AS asked
CROSS JOIN unnest(%b::float8[]) WITH ORDINALITY AS span (value, key)

-- name: deaths_of
-- The same for each handler and category of some causes: so each count is one stretch of the index.
WITH RECURSIVE kind AS (
    SELECT first.*
    FROM unnest(%b::int8[]) AS wanted (number) CROSS JOIN LATERAL (
        SELECT cause, handler, category FROM {schema}.jobs
        WHERE state = 'dead' AND cause = wanted.number
        ORDER BY handler, category LIMIT 1
    ) AS first
    UNION ALL
    SELECT following.*
    FROM kind CROSS JOIN LATERAL (
        SELECT cause, handler, category FROM {schema}.jobs AS j
        WHERE j.state = 'dead' AND j.cause = kind.cause
            AND (j.handler, j.category) > (kind.handler, kind.category)
        ORDER BY j.handler, j.category LIMIT 1
    ) AS following
)
SELECT kind.cause, span.key - 1, (
    SELECT count(*) FROM {schema}.jobs AS j
    WHERE j.state = 'dead' AND j.cause = kind.cause
        AND j.handler = kind.handler AND j.category = kind.category
        AND j.updated > span.value AND j.updated <= span.value + asked.width
)
FROM kind CROSS JOIN (SELECT %s::float8 AS width) AS asked
CROSS JOIN unnest(%b::float8[]) WITH ORDINALITY AS span (value, key)

-- name: by_submit
-- Newest submit first.
ORDER BY id DESC LIMIT %s

-- name: by_change
-- Newest change first.
ORDER BY updated DESC, id DESC LIMIT %s

-- name: all
-- No condition.
true

-- name: dead
-- The state, spelled out: only so does the planner know the indexes of dead jobs will do.
state = 'dead'

-- name: states
-- In one of these states, where the jobs of each are few.
n IN (
    SELECT few.n FROM (SELECT %b::text[] AS states) AS asked CROSS JOIN LATERAL (
        SELECT n FROM {schema}.ready WHERE 'pending' = ANY(asked.states)
        UNION ALL
        SELECT n FROM {schema}.leases WHERE 'running' = ANY(asked.states)
        UNION ALL
        SELECT n FROM {schema}.jobs WHERE state = ANY(asked.states) AND state <> 'pending'
    ) AS few
)

-- name: among_states
-- The same, where something else says more.
state = ANY(%b::text[])

-- name: ids
-- One of these jobs.
id = ANY(%b::text[])

-- name: prefix
-- The id begins so.
id >= %s AND id < %s

-- name: handler
-- Of this handler.
handler = %s

-- name: handler_like
-- Of handlers named like this.
handler LIKE %s

-- name: lane
-- In this lane.
lane = %s

-- name: category
-- Failed in this way.
category = %s

-- name: group
-- Of this cause.
cause = %s

-- name: grouped
-- Of any cause.
cause IS NOT NULL

-- name: tag
-- Tagged so.
tags::jsonb ? %s

-- name: key
-- Of this idempotency key.
key = %s

-- name: run
-- Part of this run, waiting for it or let go.
run IN (%s, %s)

-- name: older_than
-- Last changed at this time or before.
updated <= %s

-- name: newer_than
-- Last changed at this time or after.
updated >= %s

-- name: failed
-- Failed in this life.
spent IS NOT NULL

-- name: text
-- The words are in the failure or the payload; `fold` puts letter case aside.
(
    strpos({schema}.fold(failure::json ->> 'type'), %s) > 0
    OR strpos({schema}.fold(failure::json ->> 'message'), %s) > 0
    OR strpos({schema}.fold(failure::json ->> 'title'), %s) > 0
    OR strpos({schema}.fold(payload), %s) > 0
)

-- name: after_submit
-- The next page by submit.
id < %s

-- name: after_change
-- The next page by change.
(updated, id) < (%s::float8, %s::text)
