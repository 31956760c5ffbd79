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
