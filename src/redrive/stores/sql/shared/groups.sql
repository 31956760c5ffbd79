-- name: group_of -- The number of the group of a fingerprint.
SELECT number FROM {schema}.groups WHERE fingerprint = ?

-- name: add_group -- A group that is seen for the first time.
INSERT INTO {schema}.groups (fingerprint, title, first_seen, seen, deaths, version)
VALUES (?, ?, ?, ?, 0, 0) RETURNING number

-- name: all_groups -- The records of all groups: the columns of `group_codec.COLUMNS`, then the two
-- texts.
SELECT number, fingerprint, title, first_seen, last_seen, deaths, version, seen, more FROM {schema}.groups

-- name: groups -- The records of some groups.
{all_groups} WHERE number = ANY(?::int8[])

-- name: change_group -- Write what people set on a group, unless its version moved on.
UPDATE {schema}.groups SET more = ?, version = version + 1 WHERE number = ? AND version = ?
RETURNING version

-- name: add_tick -- Counts that are not folded yet.
INSERT INTO {schema}.ticks (at, counts) VALUES (?::float8, ?::text)

-- name: ticks -- All of them.
SELECT at, counts FROM {schema}.ticks

-- name: take_ticks -- All of them, to be folded.
DELETE FROM {schema}.ticks RETURNING at, counts

-- name: fold_groups -- What deaths change in the records of groups.
UPDATE {schema}.groups AS q SET last_seen = g.column2, deaths = g.column3, seen = g.column4
FROM (VALUES (?::int8, ?::float8, ?::int8, ?::text)) AS g WHERE q.number = g.column1

-- name: fold_lanes -- Counts by lane.
INSERT INTO {schema}.lane_counts AS q (span, start, lane, attempts, successes, first_failures, deaths)
VALUES (?::int4, ?::int8, ?::text, ?::int8, ?::int8, ?::int8, ?::int8)
ON CONFLICT (span, start, lane) DO UPDATE
SET attempts = q.attempts + excluded.attempts, successes = q.successes + excluded.successes,
    first_failures = q.first_failures + excluded.first_failures, deaths = q.deaths + excluded.deaths

-- name: fold_deaths -- Deaths by group.
INSERT INTO {schema}.group_counts AS q (span, start, cause, deaths)
VALUES (?::int4, ?::int8, ?::int8, ?::int8)
ON CONFLICT (span, cause, start) DO UPDATE SET deaths = q.deaths + excluded.deaths

-- name: lane_counts -- The buckets of all lanes from a time on.
SELECT start, lane, attempts, successes, first_failures, deaths FROM {schema}.lane_counts
WHERE span = ? AND start >= ?

-- name: bucket_groups -- The groups that each bucket counts, from a time on.
SELECT start, cause FROM {schema}.group_counts WHERE span = ? AND start >= ?

-- name: group_counts -- The buckets of some groups from a time on.
SELECT start, cause, deaths FROM {schema}.group_counts
WHERE span = ? AND start >= ? AND cause = ANY(?::int8[])

-- name: drop_lane_counts -- Remove old buckets of lanes.
DELETE FROM {schema}.lane_counts WHERE span = ? AND start < ?

-- name: drop_group_counts -- Remove old buckets of groups.
DELETE FROM {schema}.group_counts WHERE span = ? AND start < ?
