-- name: counts
-- How many jobs of each state, lane and category there are, and the earliest time of each; kind by kind,
-- along the indexes: each step jumps over the rest of its kind.
WITH RECURSIVE waiting AS (
    (
        SELECT suspect, lane, handler, category FROM {schema}.open WHERE holder IS NULL
        ORDER BY suspect, lane, handler, category LIMIT 1
    )
    UNION ALL
    SELECT following.*
    FROM waiting CROSS JOIN LATERAL (
        SELECT o.suspect, o.lane, o.handler, o.category FROM {schema}.open AS o
        WHERE holder IS NULL AND (o.suspect, o.lane, o.handler, o.category)
            > (waiting.suspect, waiting.lane, waiting.handler, waiting.category)
        ORDER BY o.suspect, o.lane, o.handler, o.category LIMIT 1
    ) AS following
), kind AS (
    (
        SELECT state, lane, handler, category FROM {schema}.ended
        ORDER BY state, lane, handler, category LIMIT 1
    )
    UNION ALL
    SELECT following.*
    FROM kind CROSS JOIN LATERAL (
        SELECT e.state, e.lane, e.handler, e.category FROM {schema}.ended AS e
        WHERE (e.state, e.lane, e.handler, e.category)
            > (kind.state, kind.lane, kind.handler, kind.category)
        ORDER BY e.state, e.lane, e.handler, e.category LIMIT 1
    ) AS following
), tally AS (
    SELECT 'pending' COLLATE "C" AS state, waiting.lane, waiting.category, counted.*
    FROM waiting CROSS JOIN LATERAL (
        SELECT count(*) AS jobs, min(at) AS at FROM {schema}.open AS o
        WHERE holder IS NULL AND o.suspect = waiting.suspect AND o.lane = waiting.lane
            AND o.handler = waiting.handler AND o.category = waiting.category
    ) AS counted
    UNION ALL
    SELECT kind.state, kind.lane, kind.category, counted.*
    FROM kind CROSS JOIN LATERAL (
        SELECT count(*) AS jobs, min(at) AS at FROM {schema}.ended AS e
        WHERE e.state = kind.state AND e.lane = kind.lane AND e.handler = kind.handler
            AND e.category = kind.category
    ) AS counted
    UNION ALL
    SELECT 'running', lane, category, count(*), min(at) FROM {schema}.open
    WHERE holder IS NOT NULL GROUP BY lane, category
)
SELECT state, lane, category, sum(jobs)::int8, min(at) FROM tally GROUP BY state, lane, category

-- name: from_pending
-- A state's part of a list: when each job changed last, and its id.
SELECT s.n, s.updated, s.id FROM {schema}.open AS s WHERE s.holder IS NULL

-- name: from_running
-- The same for another state.
SELECT s.n, s.since AS updated, s.id FROM {schema}.open AS s WHERE s.holder IS NOT NULL

-- name: from_dead
-- The same for another; the second condition lets the planner see which indexes will do.
SELECT s.n, s.at AS updated, s.id FROM {schema}.ended AS s
WHERE s.state = 'dead' AND s.state <> 'completed'

-- name: from_resolved
-- The same for another.
SELECT s.n, s.at AS updated, s.id FROM {schema}.ended AS s
WHERE s.state = 'resolved' AND s.state <> 'completed'

-- name: from_completed
-- The same for another.
SELECT s.n, s.at AS updated, s.id FROM {schema}.ended AS s WHERE s.state = 'completed'

-- name: along_pending
-- The same along the ids, where the jobs of the state are many.
SELECT s.n, s.updated, s.id FROM {schema}.jobs AS j JOIN {schema}.open AS s USING (n)
WHERE s.holder IS NULL

-- name: along_completed
-- The same for another state.
SELECT s.n, s.at AS updated, s.id FROM {schema}.jobs AS j JOIN {schema}.ended AS s USING (n)
WHERE s.state = 'completed'

-- name: by_id_along
-- Newest submit first, along the ids.
ORDER BY j.id DESC LIMIT %s

-- name: by_id_indexed
-- Newest submit first, along an index that begins with the state.
ORDER BY s.id DESC LIMIT %s

-- name: by_id_sorted
-- The same for few jobs: fetched and sorted. The planner would rather go along the ids until it has a
-- page, which is long if all of them are old; it cannot, where the id is an expression.
ORDER BY s.id || '' DESC LIMIT %s

-- name: by_change_ended
-- Newest change first, of jobs that have ended.
ORDER BY s.at DESC, s.id DESC LIMIT %s

-- name: by_change_sorted
-- The same for few jobs: fetched and sorted.
ORDER BY s.at + 0 DESC, s.id DESC LIMIT %s

-- name: by_change_open
-- The same for jobs that have not ended.
ORDER BY coalesce(s.since, s.updated) DESC, s.id DESC LIMIT %s

-- name: few_pending
-- How many jobs of a state there are, counted no further than a limit.
SELECT count(*) FROM (SELECT FROM {schema}.open AS s WHERE s.holder IS NULL

-- name: few_completed
-- The same for another state.
SELECT count(*) FROM (SELECT FROM {schema}.ended AS s WHERE s.state = 'completed'

-- name: few_end
-- The end of both.
LIMIT %s) AS counted

-- name: completed_by_change
-- The latest of each kind of completed jobs; then the conditions, and so many of each.
SELECT latest.* FROM (
    WITH RECURSIVE {ended_kinds} SELECT lane, handler, category FROM kind
) AS kind CROSS JOIN LATERAL (
    SELECT s.n, s.at AS updated, s.id FROM {schema}.ended AS s
    WHERE s.state = 'completed' AND s.lane = kind.lane AND s.handler = kind.handler
        AND s.category = kind.category

-- name: completed_by_change_end
-- The end of it.
) AS latest ORDER BY updated DESC, id DESC LIMIT %s

-- name: page_by_submit
-- The whole jobs of a page, in its order.
ORDER BY page.id DESC

-- name: page_by_change
-- The same in the other order.
ORDER BY page.updated DESC, page.id DESC

-- name: page_rows
-- The jobs of a page, each found by its number.
SELECT r.*, page.updated
FROM page CROSS JOIN LATERAL (SELECT * FROM {schema}.job_rows AS r WHERE r.n = page.n LIMIT 1) AS r

-- name: tally_open
-- A count by cause, of the jobs that the conditions after it leave; then GROUP BY.
SELECT s.cause, s.handler, s.category, count(*),
    min(coalesce(s.first_failed, s.since, s.updated)), max(coalesce(s.since, s.updated))
FROM {schema}.open AS s WHERE s.cause IS NOT NULL

-- name: tally_ended
-- The same for jobs that have ended.
SELECT s.cause, s.handler, s.category, count(*), min(coalesce(s.first_failed, s.at)), max(s.at)
FROM {schema}.ended AS s WHERE s.cause IS NOT NULL

-- name: by_cause
-- The end of every count by cause.
GROUP BY s.cause, s.handler, s.category

-- name: run_states
-- How many jobs are tagged so, by state.
SELECT CASE WHEN holder IS NULL THEN 'pending' ELSE 'running' END, count(*) FROM {schema}.open
WHERE run = %s GROUP BY 1
UNION ALL
SELECT state, count(*) FROM {schema}.ended WHERE run = %s GROUP BY state

-- name: run_oldest
-- The oldest of them that could be let go.
SELECT id FROM (
    (SELECT id FROM {schema}.open WHERE run = %s AND holder IS NULL ORDER BY id LIMIT %s)
    UNION ALL
    (
        SELECT oldest.id FROM unnest(ARRAY['dead', 'resolved'] COLLATE "C") AS wanted (state)
        CROSS JOIN LATERAL (
            SELECT id FROM {schema}.ended AS e WHERE e.run = %s AND e.state = wanted.state
            ORDER BY id LIMIT %s
        ) AS oldest
    )
) AS one
ORDER BY id LIMIT %s

-- name: run_failing
-- How many of them failed in this life and wait for their next try.
SELECT count(*) FROM {schema}.open WHERE run = %s AND holder IS NULL AND category <> ''

-- name: run_causes
-- What the dead ones died of.
SELECT cause, count(*) FROM {schema}.ended
WHERE run = %s AND state = 'dead' AND cause IS NOT NULL
GROUP BY cause

-- name: ids
-- One of these jobs.
s.n IN (SELECT n FROM {schema}.jobs WHERE id = ANY(%b::text[]))

-- name: prefix
-- The id begins so.
s.n IN (SELECT n FROM {schema}.jobs WHERE id >= %s AND id < %s)

-- name: key
-- Of this idempotency key.
s.n = (SELECT n FROM {schema}.jobs WHERE key = %s)

-- name: event
-- Submitted for this event.
s.n IN (SELECT n FROM {schema}.jobs WHERE event = %s)

-- name: action
-- Taken by this action.
s.n IN (SELECT j.n FROM {schema}.act_jobs AS a JOIN {schema}.jobs AS j USING (id) WHERE a.act = %s)

-- name: handler
-- Of this handler.
s.handler = %s

-- name: handler_like
-- Of handlers named like this.
s.handler LIKE %s

-- name: lane
-- In this lane.
s.lane = %s

-- name: category
-- Failed in this way.
s.category = %s

-- name: group
-- Of this cause.
s.cause = %s

-- name: variant
-- Of this variant of its cause.
s.variant = %s

-- name: run
-- Part of this run, waiting for it or let go.
s.run IN (%s, %s)

-- name: failed
-- Failed in this life.
s.more::json -> 'spent' IS NOT NULL

-- name: older_open
-- Last changed at this time or before.
coalesce(s.since, s.updated) <= %s

-- name: newer_open
-- Last changed at this time or after.
coalesce(s.since, s.updated) >= %s

-- name: older_ended
-- The same for jobs that have ended.
s.at <= %s

-- name: newer_ended
-- The same for jobs that have ended.
s.at >= %s

-- name: tag
-- Tagged so. Asked of the body alone, job by job: a join would make the planner fetch all first.
(
    SELECT strpos(j.given, %s) > 0 AND EXISTS (
        SELECT FROM json_array_elements(j.given::json -> 'tags') AS one WHERE one::text = %s
    )
    FROM {schema}.jobs AS j WHERE j.n = s.n
)

-- name: text
-- The words are in the failure or the payload; `fold` puts letter case aside.
(
    strpos({schema}.fold(s.more::json #>> ARRAY['failure', 'type']), %s) > 0
    OR strpos({schema}.fold(s.more::json #>> ARRAY['failure', 'message']), %s) > 0
    OR strpos({schema}.fold(s.more::json #>> ARRAY['failure', 'title']), %s) > 0
    OR strpos({schema}.fold((SELECT payload FROM {schema}.jobs AS j WHERE j.n = s.n)), %s) > 0
)

-- name: after_submit
-- The next page by submit.
s.id < %s

-- name: after_change_open
-- The next page by change.
(coalesce(s.since, s.updated), s.id) < (%s::float8, %s::text)

-- name: after_change_ended
-- The same for jobs that have ended.
(s.at, s.id) < (%s::float8, %s::text)
