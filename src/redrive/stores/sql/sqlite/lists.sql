-- name: count_kind -- How many jobs of one kind there are.
SELECT count(*) FROM jobs
WHERE state = +? AND state <> 'running' AND suspect = ? AND lane = ? AND handler = ?
    AND category = ?

-- name: count_few -- The same, counted no further than a limit.
SELECT count(*) FROM (
    SELECT 1 FROM jobs
    WHERE state = +? AND state <> 'running' AND suspect = ? AND lane = ? AND handler = ?
        AND category = ?
    LIMIT ?
)

-- name: died -- When a dead job died; as the index of deaths has it, word for word.
CAST(substr(more, instr(more, '"died_at":') + 10) AS REAL)

-- name: oldest_death -- When the first job of a kind died, of those that were changed since.
SELECT {died} FROM jobs INDEXED BY dead_by_death
WHERE state = 'dead' AND instr(more, '"died_at":') AND {died} < at
    AND lane = ? AND handler = ? AND category = ?
ORDER BY {died} LIMIT 1

-- name: count_running -- How many jobs run, by lane and category.
SELECT lane, category, count(*) FROM jobs WHERE state = 'running' GROUP BY lane, category

-- name: run_oldest -- The oldest of each state in which a run may let them go.
SELECT * FROM (SELECT id FROM jobs WHERE run = ? AND state = 'pending' ORDER BY id LIMIT ?)
UNION ALL
SELECT * FROM (SELECT id FROM jobs WHERE run = ? AND state = 'dead' ORDER BY id LIMIT ?)
UNION ALL
SELECT * FROM (SELECT id FROM jobs WHERE run = ? AND state = 'resolved' ORDER BY id LIMIT ?)

-- name: run_failing -- How many of them failed since the run released them, and are open.
SELECT count(*) FROM jobs
WHERE run = ? AND (state = 'pending' OR state = 'running') AND category <> ''
    AND instr(more, '"failed_in_run":true') > 0

-- name: run_causes -- What the dead ones died of.
SELECT cause, count(*) FROM jobs
WHERE run = ? AND state = 'dead' AND cause IS NOT NULL
GROUP BY cause

-- name: oldest_tick -- Since when counts wait to be folded.
SELECT at FROM ticks ORDER BY n LIMIT 1

-- name: group_sizes -- How many dead jobs each group has, most first.
WITH RECURSIVE one (cause) AS (
    SELECT min(cause) FROM jobs WHERE cause IS NOT NULL
    UNION ALL
    SELECT (SELECT min(cause) FROM jobs WHERE cause > one.cause) FROM one WHERE one.cause IS NOT NULL
), sizes AS (
    SELECT cause, (SELECT count(*) FROM jobs j WHERE j.cause = one.cause AND j.state = 'dead') AS jobs
    FROM one
)
SELECT cause, jobs FROM sizes WHERE jobs > 0 ORDER BY jobs DESC, cause LIMIT ?

-- name: group_kinds -- The handlers and categories of a group's dead jobs with their last change: two seeks
-- each, however many jobs there are. A comparison of rows would scan all jobs of a handler.
WITH RECURSIVE kind (n) AS (
    SELECT (
        SELECT n FROM jobs WHERE cause = ? AND state = 'dead'
        ORDER BY handler DESC, category DESC, at DESC LIMIT 1
    )
    UNION ALL
    SELECT coalesce(
        (
            SELECT j.n FROM jobs j
            WHERE j.cause = k.cause AND j.state = 'dead' AND j.handler = k.handler
                AND j.category < k.category
            ORDER BY j.category DESC, j.at DESC LIMIT 1
        ),
        (
            SELECT j.n FROM jobs j
            WHERE j.cause = k.cause AND j.state = 'dead' AND j.handler < k.handler
            ORDER BY j.handler DESC, j.category DESC, j.at DESC LIMIT 1
        )
    )
    FROM kind JOIN jobs k ON k.n = kind.n
)
SELECT j.handler, j.category, j.at FROM kind JOIN jobs j ON j.n = kind.n
