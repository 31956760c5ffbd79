-- name: add_tick
-- Counts that are not folded yet.
INSERT INTO {schema}.ticks (at, counts) SELECT * FROM unnest(%b::float8[], %b::text[])

-- name: ticks
-- All of them.
SELECT at, counts FROM {schema}.ticks

-- name: take_ticks
-- All of them, to be folded.
DELETE FROM {schema}.ticks RETURNING at, counts

-- name: try_fold
-- Whether nobody else folds.
SELECT pg_try_advisory_xact_lock(hashtextextended('redrive fold {schema}', 0))

-- name: alone_groups
-- Wait until nobody else makes a group.
SELECT pg_advisory_xact_lock(hashtextextended('redrive groups {schema}', 0))

-- name: group_columns
-- The columns of a group's record, in the order of the group codec.
number, v2, v1, title, first_seen, last_seen, deaths, version, seen, more

-- name: groups
-- The records of some groups.
SELECT {group_columns} FROM {schema}.groups WHERE number = ANY(%b::int8[])

-- name: all_groups
-- The records of all groups.
SELECT {group_columns} FROM {schema}.groups

-- name: group_to_change
-- One group, locked.
SELECT {group_columns} FROM {schema}.groups WHERE number = %s FOR UPDATE

-- name: group_of
-- The group of a fingerprint.
SELECT number FROM {schema}.groups WHERE v2 = %s

-- name: group_of_older
-- The group of a fingerprint by the older rules that has none by the present ones.
SELECT number FROM {schema}.groups WHERE v1 = %s AND v2 IS NULL ORDER BY number LIMIT 1

-- name: adopt_group
-- The oldest group of the fingerprint by the older rules that has none by the present ones gets it.
UPDATE {schema}.groups SET v2 = %s
WHERE number = (SELECT min(number) FROM {schema}.groups WHERE v1 = %s AND v2 IS NULL) RETURNING number

-- name: new_group
-- A group that was seen for the first time.
INSERT INTO {schema}.groups (v1, v2, title, first_seen, deaths, version, seen)
VALUES (%s, %s, %s, %s, 0, 0, %s) RETURNING number

-- name: variants
-- The variants of a group.
SELECT number, text, deaths, last_seen FROM {schema}.variants WHERE cause = %s

-- name: new_variant
-- One more.
INSERT INTO {schema}.variants (cause, number, text, deaths) VALUES (%s, %s, %s, 0)

-- name: change_group
-- What people have said of a group.
UPDATE {schema}.groups SET more = %s, version = %s WHERE number = %s

-- name: fold_groups
-- What deaths have said of groups.
UPDATE {schema}.groups AS q SET last_seen = g.last_seen, deaths = g.deaths, seen = g.seen
FROM unnest(%b::int8[], %b::float8[], %b::int8[], %b::text[]) AS g (number, last_seen, deaths, seen)
WHERE q.number = g.number

-- name: fold_variants
-- Deaths by variant.
INSERT INTO {schema}.variants AS q (cause, number, text, deaths, last_seen)
SELECT cause, number, '', deaths, last_seen
FROM unnest(%b::int8[], %b::int2[], %b::int8[], %b::float8[]) AS g (cause, number, deaths, last_seen)
ON CONFLICT (cause, number) DO UPDATE
SET deaths = q.deaths + excluded.deaths, last_seen = greatest(q.last_seen, excluded.last_seen)

-- name: fold_lanes
-- Counts by lane.
INSERT INTO {schema}.lane_counts AS q (span, start, lane, attempts, successes, first_failures, deaths)
SELECT * FROM unnest(
    %b::int4[], %b::int8[], %b::text[], %b::int8[], %b::int8[], %b::int8[], %b::int8[]
)
ON CONFLICT (span, start, lane) DO UPDATE
SET attempts = q.attempts + excluded.attempts, successes = q.successes + excluded.successes,
    first_failures = q.first_failures + excluded.first_failures, deaths = q.deaths + excluded.deaths

-- name: fold_deaths
-- Deaths by group.
INSERT INTO {schema}.group_counts AS q (span, cause, start, deaths)
SELECT span, cause, start, deaths
FROM unnest(%b::int4[], %b::int8[], %b::int8[], %b::int8[]) AS g (span, start, cause, deaths)
ON CONFLICT (span, cause, start) DO UPDATE SET deaths = q.deaths + excluded.deaths

-- name: lanes_in
-- The lanes that some buckets know.
SELECT span, start, lane FROM {schema}.lane_counts
WHERE (span, start) IN (SELECT * FROM unnest(%b::int4[], %b::int8[]))

-- name: groups_in
-- The groups that some buckets know.
SELECT span, start, cause FROM {schema}.group_counts
WHERE (span, start) IN (SELECT * FROM unnest(%b::int4[], %b::int8[]))

-- name: lane_curve
-- Counts by lane from a time on.
SELECT start, lane, attempts, successes, first_failures, deaths FROM {schema}.lane_counts
WHERE span = %s AND start >= %s

-- name: group_curve
-- Deaths of some groups from a time on.
SELECT start, cause, deaths FROM {schema}.group_counts
WHERE span = %s AND start >= %s AND cause = ANY(%b::int8[])

-- name: drop_lane_counts
-- Forget old counts by lane.
DELETE FROM {schema}.lane_counts WHERE span = %s AND start < %s

-- name: drop_group_counts
-- Forget old deaths by group.
DELETE FROM {schema}.group_counts WHERE span = %s AND start < %s

-- name: marks
-- What version 1 kept of what people noted about groups.
SELECT name, value FROM {schema}.notes WHERE name LIKE 'group:%%'
