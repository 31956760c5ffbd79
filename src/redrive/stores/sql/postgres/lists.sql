-- name: counts -- How many jobs of each state, lane and category there are, and the earliest time of
-- each (of dead jobs, of death); kind by kind, along the indexes: each step jumps over the rest of its kind.
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
), {ended_kinds}
SELECT 'pending' COLLATE "C" AS state, waiting.lane, waiting.category, counted.*
FROM waiting CROSS JOIN LATERAL (
    SELECT count(*) AS jobs, min(at) AS at FROM {schema}.open AS o
    WHERE holder IS NULL AND o.suspect = waiting.suspect AND o.lane = waiting.lane
        AND o.handler = waiting.handler AND o.category = waiting.category
) AS counted
UNION ALL
SELECT kind.state, kind.lane, kind.category, counted.jobs, least(counted.at, death.at)
FROM kind CROSS JOIN LATERAL (
    SELECT count(*) AS jobs, min(at) AS at FROM {schema}.ended AS e
    WHERE e.state = kind.state AND e.lane = kind.lane AND e.handler = kind.handler
        AND e.category = kind.category
) AS counted
LEFT JOIN LATERAL (
    SELECT {schema}.died(e.more, e.at) AS at FROM {schema}.ended AS e
    WHERE kind.state = 'dead' AND e.state = 'dead' AND {schema}.died(e.more, e.at) < e.at
        AND e.lane = kind.lane AND e.handler = kind.handler AND e.category = kind.category
    ORDER BY 1 LIMIT 1
) AS death ON true
UNION ALL
SELECT 'running', lane, category, count(*), NULL FROM {schema}.open
WHERE holder IS NOT NULL GROUP BY lane, category

-- name: run_oldest -- The oldest of each state in which a run may let them go.
(SELECT id FROM {schema}.open WHERE run = %s AND holder IS NULL ORDER BY id LIMIT %s)
UNION ALL
(SELECT id FROM {schema}.ended WHERE run = %s AND state = 'dead' ORDER BY id LIMIT %s)
UNION ALL
(SELECT id FROM {schema}.ended WHERE run = %s AND state = 'resolved' ORDER BY id LIMIT %s)

-- name: run_failing -- How many of them failed since the run released them, and are open.
SELECT count(*) FROM {schema}.open
WHERE run = %s AND category <> '' AND strpos(more, '"failed_in_run":true') > 0

-- name: run_causes -- What the dead ones died of.
SELECT cause, count(*) FROM {schema}.ended
WHERE run = %s AND state = 'dead' AND cause IS NOT NULL
GROUP BY cause
