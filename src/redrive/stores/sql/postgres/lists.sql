-- name: count_kind
-- How many jobs of one kind there are.
SELECT count(*) FROM {schema}.jobs
WHERE state = %s AND suspect = %s AND lane = %s AND handler = %s AND category = %s

-- name: few
-- How many jobs are in these states, counted no further than a limit.
SELECT count(*) FROM (
    SELECT 1 FROM {schema}.jobs WHERE state = ANY(%b::text[]) LIMIT %s
) AS several

-- name: list
-- The beginning of a list; the planner sees by itself which index is best.
SELECT n, {columns}, payload, original FROM {schema}.jobs JOIN {schema}.payloads USING (n)

-- name: list_by_id
-- The same in the order of ids, where most jobs will do.
{list}

-- name: list_by_kind
-- The same for few jobs of some states: fetched and sorted. The planner would rather go along the ids
-- until it has a page, which is long if all of them are old; it cannot, where the id is an expression.
SELECT n, id || '' AS id, {columns_after_id}, payload, original
FROM {schema}.jobs JOIN {schema}.payloads USING (n)

-- name: list_dead_by_change
-- The same for dead jobs as they changed.
{list}

-- name: list_dead_by_cause
-- The same for dead jobs of one cause.
{list}

-- name: tally
-- The beginning of a count by cause.
SELECT cause, handler, category, count(*), min(coalesce(first_failed, updated)), max(updated)
FROM {schema}.jobs JOIN {schema}.payloads USING (n)

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
SELECT state, count(*) FROM {schema}.jobs WHERE run = %s GROUP BY state

-- name: run_oldest
-- The oldest of them in one state.
SELECT id FROM {schema}.jobs WHERE run = %s AND state = %s ORDER BY id LIMIT %s

-- name: run_failing
-- How many of them failed in this life and wait for their next try.
SELECT count(*) FROM {schema}.jobs WHERE run = %s AND state = 'pending' AND spent IS NOT NULL

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
-- In one of these states.
state = ANY(%b::text[])

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
