-- name: columns
-- The columns of a job in the order in which `rows.py` writes and reads them; include elsewhere.
id, state, suspect, lane, handler, category, at, key, reason, detail, created, due, since, updated,
finished, first_failed, attempts, spent, crashes, redrives, max_attempts, ceiling, failure, lease,
holder, lease_end, boot, tags, release, cause, run, resolution, edits, folded, origin

-- name: whole
-- Everything about a job but its history; the beginning of every query that reads jobs.
SELECT n, {columns}, payload, original FROM jobs JOIN payloads USING (n)

-- name: by_id
-- One job.
{whole} WHERE id = ?

-- name: by_ids
-- Those of these jobs that there are.
{whole} WHERE id IN (SELECT value FROM json_each(?))

-- name: to_change
-- The same for jobs that are about to be changed.
{by_ids}

-- name: by_keys
-- The jobs that these idempotency keys stand for.
{whole} WHERE key IN (SELECT value FROM json_each(?))

-- name: by_numbers
-- These jobs, by number, in the order of the numbers given.
SELECT n, {columns}, payload, original
FROM (SELECT value AS n FROM json_each(?)) CROSS JOIN jobs USING (n) CROSS JOIN payloads USING (n)

-- name: as_submitted
-- What a job has of its own, beside its kind, that waits for its first attempt; the last is null if
-- it is one.
n, id, key, created, due, max_attempts, ceiling, tags, release, payload,
coalesce(
    reason, finished, first_failed, spent, failure, cause, run, resolution, origin, original,
    nullif(detail, ''), nullif(since, due),
    nullif(attempts + lease + crashes + redrives + edits + folded, 0)
)

-- name: submitted_by_numbers
-- These jobs so, with lane and handler, in the order of the numbers given.
SELECT {as_submitted}, lane, handler
FROM (SELECT value AS n FROM json_each(?)) CROSS JOIN jobs USING (n) CROSS JOIN payloads USING (n)

-- name: submitted_of_kind
-- The first jobs of one kind up to a time, so; see `first_of_kind`.
SELECT {as_submitted} FROM jobs CROSS JOIN payloads USING (n)
WHERE state = +? AND state <> 'running' AND suspect = ? AND lane = ? AND handler = ?
    AND category = ? AND at <= ?
ORDER BY at LIMIT ?

-- name: attempts
-- The history of a job, oldest first.
SELECT record FROM attempts WHERE n = ? ORDER BY ordinal

-- name: last_number
-- The number of the newest row; there is one writer, so the next ones are ours.
SELECT coalesce(max(n), 0) FROM jobs

-- name: insert_job
-- A new job.
INSERT INTO jobs (n, {columns}) VALUES (
    ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?,
    ?, ?, ?
)

-- name: add_one
-- A job that was just submitted, with what all of those have in common; nothing if it is there.
INSERT INTO jobs (
    n, id, lane, handler, key, created, due, max_attempts, ceiling, tags, release,
    at, since, updated, state, suspect, category, detail, attempts, crashes, redrives, lease, edits,
    folded
) VALUES (
    ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11,
    ?7, ?7, ?6, 'pending', 0, '', '', 0, 0, 0, 0, 0,
    0
) ON CONFLICT DO NOTHING

-- name: take_back
-- Undo what this transaction added after the job of that number; nobody else has seen it.
DELETE FROM jobs WHERE n > ?

-- name: add_payload
-- The arguments of the job that was added last.
INSERT INTO payloads (n, payload) VALUES (last_insert_rowid(), ?)

-- name: insert_payload
-- Its arguments.
INSERT INTO payloads (n, payload, original) VALUES (?, ?, ?)

-- name: insert_attempt
-- One ended execution.
INSERT INTO attempts (n, ordinal, record) VALUES (?, ?, ?)

-- name: insert_attempts
-- Twenty-five of them: to begin a statement takes as long as to write a row.
INSERT INTO attempts (n, ordinal, record) VALUES
    (?, ?, ?), (?, ?, ?), (?, ?, ?), (?, ?, ?), (?, ?, ?),
    (?, ?, ?), (?, ?, ?), (?, ?, ?), (?, ?, ?), (?, ?, ?),
    (?, ?, ?), (?, ?, ?), (?, ?, ?), (?, ?, ?), (?, ?, ?),
    (?, ?, ?), (?, ?, ?), (?, ?, ?), (?, ?, ?), (?, ?, ?),
    (?, ?, ?), (?, ?, ?), (?, ?, ?), (?, ?, ?), (?, ?, ?)

-- name: kinds
-- The lanes, handlers and categories of one state with their earliest time: three seeks each,
-- however many jobs there are, because each step jumps over the rest of its kind. The plus before a
-- state, here and below, keeps SQLite from planning anew for every value: it would look whether this
-- one happens to be the state of a partial index.
WITH RECURSIVE kind (n) AS (
    SELECT (
        SELECT n FROM jobs WHERE state = +? AND state <> 'running' AND suspect = ?
        ORDER BY lane, handler, category, at LIMIT 1
    )
    UNION ALL
    SELECT coalesce(
        (
            SELECT j.n FROM jobs j
            WHERE j.state = k.state AND j.state <> 'running' AND j.suspect = k.suspect
                AND j.lane = k.lane AND j.handler = k.handler AND j.category > k.category
            ORDER BY j.category, j.at LIMIT 1
        ),
        (
            SELECT j.n FROM jobs j
            WHERE j.state = k.state AND j.state <> 'running' AND j.suspect = k.suspect
                AND j.lane = k.lane AND j.handler > k.handler
            ORDER BY j.handler, j.category, j.at LIMIT 1
        ),
        (
            SELECT j.n FROM jobs j
            WHERE j.state = k.state AND j.state <> 'running' AND j.suspect = k.suspect
                AND j.lane > k.lane
            ORDER BY j.lane, j.handler, j.category, j.at LIMIT 1
        )
    )
    FROM kind JOIN jobs k USING (n)
)
SELECT lane, handler, category, at FROM kind JOIN jobs USING (n)

-- name: first_of_kind
-- The first jobs of one kind up to a time.
SELECT at, n FROM jobs
WHERE state = +? AND state <> 'running' AND suspect = ? AND lane = ? AND handler = ?
    AND category = ? AND at <= ?
ORDER BY at LIMIT ?

-- name: pending_of
-- Those of these jobs that are pending; the plus keeps SQLite from going through all that are.
SELECT at, n, lane, handler FROM jobs
WHERE id IN (SELECT value FROM json_each(?)) AND +state = 'pending' AND +suspect = ? AND at <= ?

-- name: claiming
-- What a claim changes; include elsewhere.
UPDATE jobs
SET state = 'running', suspect = 0, attempts = attempts + 1, lease = lease + 1, holder = ?,
    lease_end = ?, boot = ?, updated = ?

-- name: suspect_runs
-- Whether a job that crashed before was claimed less than so many seconds ago, and runs.
SELECT 1 FROM jobs INDEXED BY running_jobs
WHERE state = 'running' AND crashes > 0 AND abs(? - updated) < ?
LIMIT 1

-- name: claim
-- Lease pending jobs.
{claiming} WHERE n IN (SELECT value FROM json_each(?))

-- name: claim_range
-- The same for jobs whose numbers follow one another, as they mostly do.
{claiming} WHERE n BETWEEN ? AND ?

-- name: held
-- The fences of those of these jobs that are running; the plus is as in `pending_of`.
SELECT id, n, lease, holder FROM jobs
WHERE id IN (SELECT value FROM json_each(?)) AND +state = 'running'

-- name: renew
-- Lengthen one lease.
UPDATE jobs SET lease_end = ?, boot = ? WHERE n = ?

-- name: ended
-- Running jobs whose lease is over: of another boot, or past its end.
{whole}
WHERE state = 'running' AND (boot IS NOT ? OR lease_end IS NULL OR lease_end <= ?)
LIMIT ?

-- name: ended_of
-- The same for some handlers.
{whole}
WHERE state = 'running' AND (boot IS NOT ? OR lease_end IS NULL OR lease_end <= ?)
    AND handler IN (SELECT value FROM json_each(?))
LIMIT ?

-- name: held_by
-- The running jobs of one holder.
{whole} WHERE state = 'running' AND holder = ? LIMIT ?

-- name: seize
-- Take one running job over.
UPDATE jobs SET lease = ?, holder = ?, lease_end = ?, boot = ? WHERE n = ?

-- name: complete
-- End claims that went well, and alike.
UPDATE jobs
SET state = 'completed', category = ?, at = ?, reason = ?, detail = ?, ceiling = ?, finished = ?,
    updated = ?, folded = ?, holder = NULL, lease_end = NULL, boot = NULL
WHERE n IN (SELECT value FROM json_each(?))

-- name: completing
-- How first attempts end that went well, and alike, if their fence stands; include elsewhere. Numbers
-- are given anew once a job is purged, a holder's time of claiming is not: the two together are as
-- good as the id. The plus is as in `pending_of`.
UPDATE jobs
SET state = 'completed', at = ?1, finished = ?1, updated = ?1, reason = ?2, detail = ?3, ceiling = ?4,
    holder = NULL, lease_end = NULL, boot = NULL
WHERE +state = 'running' AND lease = ?5 AND holder = ?6 AND updated = ?7

-- name: complete_some
-- End those of these numbers.
{completing} AND n IN (SELECT value FROM json_each(?8))

-- name: complete_range
-- End those whose numbers follow one another.
{completing} AND n BETWEEN ?8 AND ?9

-- name: rewrite
-- Write everything that a transition may change.
UPDATE jobs
SET state = ?, suspect = ?, category = ?, at = ?, reason = ?, detail = ?, due = ?, since = ?,
    updated = ?, finished = ?, first_failed = ?, attempts = ?, spent = ?, crashes = ?, redrives = ?,
    ceiling = ?, failure = ?, lease = ?, holder = ?, lease_end = ?, boot = ?, cause = ?, run = ?,
    resolution = ?, edits = ?, folded = ?
WHERE n = ?

-- name: enlist
-- Make a job part of a run, or of none.
UPDATE jobs SET run = ? WHERE n = ?

-- name: repay
-- Give a job another payload.
UPDATE payloads SET payload = ?, original = ? WHERE n = ?

-- name: middle
-- The attempts between the first and the last ones to be kept.
SELECT ordinal FROM attempts WHERE n = ? ORDER BY ordinal LIMIT ? OFFSET ?

-- name: count_attempts
-- How many attempts of a job are kept.
SELECT count(*) FROM attempts WHERE n = ?

-- name: forget_attempt
-- Fold one attempt away.
DELETE FROM attempts WHERE n = ? AND ordinal = ?

-- name: over
-- Jobs of one kind that finished before a time.
SELECT n FROM jobs
WHERE state = +? AND state <> 'running' AND suspect = 0 AND lane = ? AND handler = ?
    AND category = ? AND at < ?
    AND finished IS NOT NULL
ORDER BY at LIMIT ?

-- name: remove_attempts
-- The histories of purged jobs.
DELETE FROM attempts WHERE n IN (SELECT value FROM json_each(?))

-- name: remove_payloads
-- The payloads of purged jobs.
DELETE FROM payloads WHERE n IN (SELECT value FROM json_each(?))

-- name: remove_jobs
-- Purged jobs.
DELETE FROM jobs WHERE n IN (SELECT value FROM json_each(?))

-- name: cause
-- The number of a cause.
SELECT number FROM causes WHERE fingerprint = ?

-- name: insert_cause
-- A cause that was seen for the first time.
INSERT INTO causes (fingerprint, title) VALUES (?, ?)
