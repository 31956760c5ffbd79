-- name: subscriptions
-- Who wants to hear of what.
SELECT name, kinds FROM {schema}.subscriptions

-- name: subscribe
-- One more, or other kinds.
INSERT INTO {schema}.subscriptions (name, kinds, created) VALUES (%s, %s, %s)
ON CONFLICT (name) DO UPDATE SET kinds = excluded.kinds

-- name: unsubscribe
-- Remove a subscription with its events.
WITH gone AS (DELETE FROM {schema}.subscriptions WHERE name = %s RETURNING name)
DELETE FROM {schema}.outbox WHERE subscription = %s

-- name: add_events
-- Events, in order.
INSERT INTO {schema}.outbox (subscription, job, kind, at, due, body)
SELECT subscription, job, kind, at, at, body
FROM unnest(%b::text[], %b::text[], %b::text[], %b::float8[], %b::text[])
    AS e (subscription, job, kind, at, body)

-- name: take_events
-- Lease events that are due; of one subscription and job only the oldest.
UPDATE {schema}.outbox SET holder = %s, lease_end = %s WHERE n IN (
    SELECT n FROM {schema}.outbox AS o
    WHERE o.due <= %s AND (o.holder IS NULL OR o.lease_end <= %s) AND NOT EXISTS (
        SELECT FROM {schema}.outbox AS e
        WHERE e.subscription = o.subscription AND e.job = o.job AND e.n < o.n
    )
    ORDER BY o.due, o.n LIMIT %s FOR UPDATE SKIP LOCKED
)
RETURNING n, subscription, job, kind, at, attempts, body, due

-- name: events_of
-- What a holder has leased until a time, if it did: for a call whose answer was lost.
SELECT count(*) FROM {schema}.outbox WHERE holder = %s AND lease_end = %s

-- name: done_events
-- Remove what was delivered.
DELETE FROM {schema}.outbox WHERE n = ANY(%b::int8[]) AND holder = %s RETURNING n

-- name: later_events
-- Put deliveries off.
UPDATE {schema}.outbox AS q SET due = g.due, attempts = q.attempts + 1, holder = NULL, lease_end = NULL
FROM unnest(%b::int8[], %b::float8[]) AS g (n, due)
WHERE q.n = g.n AND q.holder = %s
RETURNING q.n

-- name: claim_alert
-- One row if nobody sent this alert since a time.
INSERT INTO {schema}.alerts AS a (cause, channel, kind, at, more) VALUES (%s, %s, %s, %s, %s)
ON CONFLICT (cause, channel, kind) DO UPDATE SET at = excluded.at, more = excluded.more
WHERE a.at <= %s RETURNING 1

-- name: alerts
-- The alerts sent, of all groups or of one, newest first.
SELECT cause, channel, kind, at, more FROM {schema}.alerts
WHERE %s::int8 IS NULL OR cause = %s::int8 ORDER BY at DESC, cause, channel, kind

-- name: remove_alerts
-- Forget old alerts.
DELETE FROM {schema}.alerts WHERE at < %s

-- name: put_plan
-- A plan.
INSERT INTO {schema}.plans (id, created, expires, header) VALUES (%s, %s, %s, %s)
ON CONFLICT (id) DO UPDATE
SET created = excluded.created, expires = excluded.expires, header = excluded.header

-- name: put_chunk
-- Some of its jobs.
INSERT INTO {schema}.plan_chunks (plan, chunk, jobs) VALUES (%s, %s, %s)

-- name: drop_plans
-- Remove plans that have expired, and the oldest beyond a number.
WITH gone AS (
    DELETE FROM {schema}.plans WHERE expires <= %s OR id IN (
        SELECT id FROM {schema}.plans WHERE expires > %s ORDER BY created DESC, id DESC OFFSET %s
    )
    RETURNING id
)
DELETE FROM {schema}.plan_chunks WHERE plan IN (SELECT id FROM gone)

-- name: drop_plan
-- Remove a plan.
WITH gone AS (DELETE FROM {schema}.plans WHERE id = %s)
DELETE FROM {schema}.plan_chunks WHERE plan = %s

-- name: plan
-- A plan that has not expired.
SELECT id, created, expires, header FROM {schema}.plans WHERE id = %s AND expires > %s

-- name: plan_chunk
-- Some of its jobs.
SELECT c.jobs FROM {schema}.plan_chunks AS c JOIN {schema}.plans AS p ON p.id = c.plan
WHERE c.plan = %s AND c.chunk = %s AND p.expires > %s

-- name: add_action_jobs
-- The jobs that an action took, and how they were before.
INSERT INTO {schema}.act_jobs (act, id, was)
SELECT act, id, was FROM unnest(%b::int8[], %b::text[], %b::text[]) AS g (act, id, was)

-- name: action_jobs
-- Some of them, oldest id first.
SELECT id, was FROM {schema}.act_jobs WHERE act = %s AND id > %s ORDER BY id LIMIT %s

-- name: acts_of
-- The actions that took a job, newest first, from before a number.
SELECT number, at, actor, verb, target, reason, done, skipped, detail FROM {schema}.acts
WHERE number IN (SELECT act FROM {schema}.act_jobs WHERE id = %s) AND number < %s
ORDER BY number DESC LIMIT %s

-- name: remove_action_jobs
-- Forget the jobs of actions that are both old and beyond a number of jobs, whole actions, oldest first.
DELETE FROM {schema}.act_jobs WHERE act <= (
    SELECT max(number) FROM {schema}.acts WHERE at < %s AND number < (
        SELECT act FROM {schema}.act_jobs ORDER BY act DESC OFFSET %s LIMIT 1
    )
)
