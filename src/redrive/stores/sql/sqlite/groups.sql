-- name: group_of
-- The number of the group of a fingerprint.
SELECT number FROM groups WHERE v2 = ?

-- name: group_of_v1
-- The number of the group of a fingerprint of the older rules.
SELECT min(number) FROM groups WHERE v1 = ? AND v2 IS NULL GROUP BY v1

-- name: take_group
-- Let a group of the older rules have the fingerprint of the present ones, from now on.
UPDATE groups SET v2 = ?1
WHERE number = (SELECT min(number) FROM groups WHERE v1 = ?2 AND v2 IS NULL) RETURNING number

-- name: insert_group
-- A group that is seen for the first time.
INSERT INTO groups (v2, v1, title, first_seen, deaths, seen, version) VALUES (?, ?, ?, ?, 0, ?, 0)

-- name: variant_of
-- The number of a variant.
SELECT number FROM variants WHERE cause = ? AND text = ? AND number > 0

-- name: last_variant
-- How many variants of a group have numbers.
SELECT coalesce(max(number), 0) FROM variants WHERE cause = ?

-- name: insert_variant
-- A variant that is seen for the first time.
INSERT INTO variants (cause, number, text, deaths) VALUES (?, ?, ?, 0)

-- name: group_columns
-- The columns of a group in the order of `group_codec.COLUMNS`, then its two texts; include elsewhere.
SELECT number, v2, v1, title, first_seen, last_seen, deaths, version, seen, more FROM groups

-- name: groups
-- These groups.
{group_columns} WHERE number IN (SELECT value FROM json_each(?))

-- name: every_group
-- All groups.
{group_columns}

-- name: change_group
-- Write what people say of a group.
UPDATE groups SET more = ?, version = version + 1 WHERE number = ? AND version = ? RETURNING version

-- name: fold_group
-- Write what deaths say of a group.
UPDATE groups SET last_seen = ?, deaths = ?, seen = ? WHERE number = ?

-- name: variants
-- The variants of a group.
SELECT number, text, deaths, last_seen FROM variants WHERE cause = ?

-- name: add_variant
-- Count deaths of a variant.
INSERT INTO variants (cause, number, text, deaths, last_seen) VALUES (?, ?, '', ?, ?)
ON CONFLICT (cause, number) DO UPDATE SET deaths = deaths + excluded.deaths,
    last_seen = max(coalesce(last_seen, excluded.last_seen), excluded.last_seen)

-- name: insert_tick
-- What a batch adds to the counts.
INSERT INTO ticks (at, counts) VALUES (?, ?)

-- name: oldest_tick
-- Since when counts wait to be folded.
SELECT at FROM ticks ORDER BY n LIMIT 1

-- name: ticks
-- The counts that are not folded yet.
SELECT n, at, counts FROM ticks ORDER BY n

-- name: remove_ticks
-- Those that are folded now.
DELETE FROM ticks WHERE n IN (SELECT value FROM json_each(?))

-- name: bucket_lanes
-- The lanes that a bucket tells apart.
SELECT lane FROM lane_counts WHERE span = ? AND start = ?

-- name: bucket_groups
-- The groups that a bucket tells apart.
SELECT cause FROM group_counts WHERE span = ? AND start = ?

-- name: add_lane_count
-- Add to the bucket of a lane.
INSERT INTO lane_counts (span, start, lane, attempts, successes, first_failures, deaths)
VALUES (?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (span, start, lane) DO UPDATE SET attempts = attempts + excluded.attempts,
    successes = successes + excluded.successes,
    first_failures = first_failures + excluded.first_failures, deaths = deaths + excluded.deaths

-- name: add_group_count
-- Add to the bucket of a group.
INSERT INTO group_counts (span, start, cause, deaths) VALUES (?, ?, ?, ?)
ON CONFLICT (span, cause, start) DO UPDATE SET deaths = deaths + excluded.deaths

-- name: old_lane_counts
-- Remove the buckets of lanes that are beyond their time.
DELETE FROM lane_counts WHERE span = ? AND start < ?

-- name: old_group_counts
-- Remove the buckets of groups that are beyond their time.
DELETE FROM group_counts WHERE span = ? AND start < ?

-- name: lane_counts
-- The buckets of all lanes from a time on.
SELECT start, lane, attempts, successes, first_failures, deaths FROM lane_counts
WHERE span = ? AND start >= ?

-- name: group_counts
-- The buckets of some groups from a time on.
SELECT cause, start, deaths FROM group_counts
WHERE span = ? AND cause IN (SELECT value FROM json_each(?)) AND start >= ?
