-- name: whole -- Everything about a job but its history; the beginning of every query that reads jobs.
SELECT {read} FROM jobs JOIN payloads USING (n)

-- name: by_numbers -- These jobs, by number, in the order of the numbers given.
SELECT {read}
FROM (SELECT value AS n FROM json_each(?)) CROSS JOIN jobs USING (n) CROSS JOIN payloads USING (n)

-- name: take_back -- Undo what this transaction added from that number on; nobody else has seen it.
DELETE FROM jobs WHERE n >= ?

-- name: insert_payload -- Its arguments.
INSERT INTO payloads (n, payload) VALUES (?, ?)

-- name: insert_attempt -- One ended execution.
INSERT INTO attempts (n, ordinal, record) VALUES (?, ?, ?)

-- name: insert_attempts -- Twenty-five of them: to begin a statement takes as long as to write a row.
INSERT INTO attempts (n, ordinal, record) VALUES {rows_of_attempts}

-- name: kinds -- The lanes, handlers and categories of one state with their earliest time: three seeks
-- each, however many jobs there are, because each step jumps over the rest of its kind. The plus before
-- a state, here and below, keeps SQLite from planning anew for every value: it would look whether this
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

-- name: due_kinds -- Those of these kinds of which something is due, unless their lane is paused; null
-- ignores pauses.
{kinds} WHERE at <= ? AND {unpaused}

-- name: unpaused -- The end of two queries.
NOT EXISTS (SELECT 1 FROM notes WHERE name = ? || lane AND (expires IS NULL OR expires > ?))

-- name: of_kind -- The pending jobs of one kind that are due first; the end of two queries.
WHERE state = +? AND state <> 'running' AND suspect = ? AND lane = ? AND handler = ?
    AND category = ? AND at <= ?
ORDER BY at LIMIT ?

-- name: first_of_kind -- Their times and numbers.
SELECT at, n FROM jobs {of_kind}

-- name: rows_of_kind -- These jobs, whole.
SELECT {read} FROM jobs CROSS JOIN payloads USING (n) {of_kind}

-- name: pending_of -- Those of these jobs that are pending; the plus keeps SQLite from going through all
-- that are.
SELECT at, n, lane, handler FROM jobs
WHERE id IN (SELECT value FROM json_each(?)) AND +state = 'pending' AND +suspect = ? AND at <= ?
    AND {unpaused}

-- name: suspect_runs -- Whether a job that crashed before was claimed less than so many seconds ago, and
-- runs.
SELECT 1 FROM jobs INDEXED BY running_jobs
WHERE state = 'running' AND suspect = 1 AND abs(? - updated) < ?
LIMIT 1

-- name: ended -- Running jobs whose lease is over, of some handlers or of all.
{whole}
WHERE state = 'running' AND (lease_end IS NULL OR lease_end <= ?)
    AND (? IS NULL OR handler IN (SELECT value FROM json_each(?)))
LIMIT ?

-- name: held_by -- The running jobs of one holder, of some handlers or of all.
{whole}
WHERE state = 'running' AND holder = ?
    AND (? IS NULL OR handler IN (SELECT value FROM json_each(?)))
LIMIT ?

-- name: repay -- Give a job another payload.
UPDATE payloads SET payload = ?, original = ? WHERE n = ?

-- name: rewrite_more -- Write that attempts were folded away, of a job that this transaction has just
-- changed.
UPDATE jobs SET more = ? WHERE n = ?

-- name: ordinals -- The attempts that are kept of a job, oldest first.
SELECT ordinal FROM attempts WHERE n = ? ORDER BY ordinal

-- name: forget_attempt -- Fold one attempt away.
DELETE FROM attempts WHERE n = ? AND ordinal = ?

-- name: over -- Jobs of one kind that last changed before a time.
SELECT n FROM jobs
WHERE state = +? AND state <> 'running' AND suspect = 0 AND lane = ? AND handler = ?
    AND category = ? AND at < ?
    AND coalesce(? = (coalesce(instr(more, '"died_at":'), 0) > 0), true)
ORDER BY at LIMIT ?

-- name: remove_rest -- The payloads of purged jobs.
DELETE FROM payloads WHERE n IN (SELECT value FROM json_each(?))

-- name: to_change -- Jobs that are about to be changed.
{by_ids}
