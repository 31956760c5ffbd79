-- name: count_kind
-- How many jobs of one kind there are.
SELECT count(*) FROM jobs
WHERE state = +? AND state <> 'running' AND suspect = ? AND lane = ? AND handler = ?
    AND category = ?

-- name: count_running
-- How many jobs run, by lane and category.
SELECT lane, category, count(*) FROM jobs WHERE state = 'running' GROUP BY lane, category

-- name: few
-- How many jobs are in these states, counted no further than a limit.
SELECT count(*) FROM (
    {in_states} LIMIT ?
)

-- name: in_states
-- The numbers of the jobs in some states; include elsewhere.
WITH asked AS (SELECT value FROM json_each(?))
SELECT n FROM jobs WHERE state IN (SELECT value FROM asked) AND state <> 'running'
UNION ALL
SELECT n FROM jobs WHERE state = 'running' AND 'running' IN (SELECT value FROM asked)

-- name: list
-- The beginning of a list; SQLite sees by itself which index is best.
SELECT n, {columns}, payload, original FROM jobs CROSS JOIN payloads USING (n)

-- name: list_by_id
-- The same in the order of ids, where most jobs will do.
SELECT n, {columns}, payload, original
FROM jobs INDEXED BY jobs_by_id CROSS JOIN payloads USING (n)

-- name: list_by_kind
-- The same for few jobs of some states, by number.
SELECT n, {columns}, payload, original FROM jobs NOT INDEXED CROSS JOIN payloads USING (n)

-- name: list_dead_by_change
-- The same for dead jobs as they changed.
SELECT n, {columns}, payload, original
FROM jobs INDEXED BY dead_by_change CROSS JOIN payloads USING (n)

-- name: list_dead_by_cause
-- The same for dead jobs of one cause.
SELECT n, {columns}, payload, original
FROM jobs INDEXED BY dead_by_cause CROSS JOIN payloads USING (n)

-- name: tally
-- The beginning of a count by cause.
SELECT cause, handler, category, count(*), min(coalesce(first_failed, updated)), max(updated)
FROM jobs CROSS JOIN payloads USING (n)

-- name: tally_dead
-- The same for dead jobs, along one index.
SELECT cause, handler, category, count(*), min(coalesce(first_failed, updated)), max(updated)
FROM jobs INDEXED BY dead_by_cause

-- name: by_cause
-- The end of every count by cause.
GROUP BY cause, handler, category

-- name: causes
-- These causes.
SELECT number, fingerprint, title FROM causes WHERE number IN (SELECT value FROM json_each(?))

-- name: run_states
-- How many jobs are tagged so, by state.
SELECT state, count(*) FROM jobs WHERE run = ? GROUP BY state

-- name: run_oldest
-- The oldest of them in one state.
SELECT id FROM jobs WHERE run = ? AND state = +? ORDER BY id LIMIT ?

-- name: run_failing
-- How many of them failed in this life and wait for their next try.
SELECT count(*) FROM jobs WHERE run = ? AND state = 'pending' AND spent IS NOT NULL

-- name: run_causes
-- What the dead ones died of.
SELECT cause, count(*) FROM jobs
WHERE run = ? AND state = 'dead' AND cause IS NOT NULL
GROUP BY cause

-- name: deaths
-- How many jobs that are dead now died in each of some spans of one width.
SELECT span.key, (
    SELECT count(*) FROM jobs INDEXED BY dead_by_change
    WHERE state = 'dead' AND updated > span.value AND updated <= span.value + ?
) FROM json_each(?) AS span

-- name: deaths_of
-- The same for each handler and category of some causes: so each count is one stretch of the index.
WITH RECURSIVE kind (n) AS (
    SELECT (
        SELECT n FROM jobs INDEXED BY dead_by_cause
        WHERE state = 'dead' AND cause = value
        ORDER BY handler, category, updated LIMIT 1
    ) FROM json_each(?)
    UNION ALL
    SELECT coalesce(
        (
            SELECT j.n FROM jobs j INDEXED BY dead_by_cause
            WHERE j.state = 'dead' AND j.cause = k.cause
                AND j.handler = k.handler AND j.category > k.category
            ORDER BY j.category, j.updated LIMIT 1
        ),
        (
            SELECT j.n FROM jobs j INDEXED BY dead_by_cause
            WHERE j.state = 'dead' AND j.cause = k.cause AND j.handler > k.handler
            ORDER BY j.handler, j.category, j.updated LIMIT 1
        )
    ) FROM kind CROSS JOIN jobs k USING (n)
)
SELECT k.cause, span.key, (
    SELECT count(*) FROM jobs j INDEXED BY dead_by_cause
    WHERE j.state = 'dead' AND j.cause = k.cause
        AND j.handler = k.handler AND j.category = k.category
        AND j.updated > span.value AND j.updated <= span.value + ?
) FROM kind CROSS JOIN jobs k USING (n) CROSS JOIN json_each(?) AS span

-- name: by_submit
-- Newest submit first.
ORDER BY id DESC LIMIT ?

-- name: by_change
-- Newest change first.
ORDER BY updated DESC, id DESC LIMIT ?

-- name: all
-- No condition.
1

-- name: dead
-- The state, spelled out: only so does SQLite use the indexes of dead jobs.
state = 'dead'

-- name: states
-- In one of these states, where the jobs of each are few.
n IN ({in_states})

-- name: among_states
-- The same, checked job by job: the plus keeps SQLite from starting with it.
+state IN (SELECT value FROM json_each(?))

-- name: ids
-- One of these jobs.
id IN (SELECT value FROM json_each(?))

-- name: prefix
-- The id begins so.
id >= ? AND id < ?

-- name: handler
-- Of this handler.
handler = ?

-- name: handler_like
-- Of handlers named like this.
handler GLOB ?

-- name: lane
-- In this lane.
lane = ?

-- name: category
-- Failed in this way.
category = ?

-- name: group
-- Of this cause.
cause = ?

-- name: grouped
-- Of any cause.
cause IS NOT NULL

-- name: tag
-- Tagged so.
EXISTS (SELECT 1 FROM json_each(tags) WHERE value = ?)

-- name: key
-- Of this idempotency key.
key = ?

-- name: run
-- Part of this run, waiting for it or let go.
run IN (?, ?)

-- name: older_than
-- Last changed at this time or before.
updated <= ?

-- name: newer_than
-- Last changed at this time or after.
updated >= ?

-- name: failed
-- Failed in this life.
spent IS NOT NULL

-- name: text
-- The words are in the failure or the payload; `fold` is str.casefold.
(
    instr(fold(json_extract(failure, '$.type')), ?)
    OR instr(fold(json_extract(failure, '$.message')), ?)
    OR instr(fold(json_extract(failure, '$.title')), ?)
    OR instr(fold(payload), ?)
)

-- name: after_submit
-- The next page by submit.
id < ?

-- name: after_change
-- The next page by change.
(updated, id) < (?, ?)
