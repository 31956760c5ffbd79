-- name: subscribe
-- Store a subscription, new or not.
INSERT INTO subscriptions (name, kinds, created) VALUES (?, ?, ?)
ON CONFLICT (name) DO UPDATE SET kinds = excluded.kinds

-- name: unsubscribe
-- Remove a subscription.
DELETE FROM subscriptions WHERE name = ?

-- name: remove_events_of
-- Remove the events of a subscription.
DELETE FROM outbox WHERE subscription = ?

-- name: subscriptions
-- All subscriptions.
SELECT name, kinds FROM subscriptions

-- name: insert_event
-- An event for one subscription.
INSERT INTO outbox (subscription, job, kind, at, due, body) VALUES (?, ?, ?, ?, ?, ?)

-- name: due_events
-- The due events that nobody has leased, of one subscription and job only the oldest.
SELECT n, subscription, job, kind, at, attempts, body FROM outbox o
WHERE due <= ? AND (holder IS NULL OR boot IS NOT ? OR lease_end <= ?)
    AND NOT EXISTS (
        SELECT 1 FROM outbox e
        WHERE e.subscription = o.subscription AND e.job = o.job AND e.n < o.n
    )
ORDER BY due, n LIMIT ?

-- name: lease_events
-- Lease events.
UPDATE outbox SET holder = ?, lease_end = ?, boot = ? WHERE n IN (SELECT value FROM json_each(?))

-- name: remove_events
-- Remove events that were delivered by their holder.
DELETE FROM outbox WHERE n IN (SELECT value FROM json_each(?)) AND holder = ? RETURNING n

-- name: delay_event
-- Put a delivery off.
UPDATE outbox SET due = ?, attempts = attempts + 1, holder = NULL, lease_end = NULL, boot = NULL
WHERE n = ? AND holder = ? RETURNING n

-- name: claim_alert
-- Note an alert down unless one like it is newer than a time.
INSERT INTO alerts (cause, channel, kind, at, more) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (cause, channel, kind) DO UPDATE SET at = excluded.at, more = excluded.more
WHERE at <= ? RETURNING 1

-- name: alerts
-- The alerts sent for a group, or for all.
SELECT cause, channel, kind, at, more FROM alerts WHERE cause = coalesce(?, cause)
ORDER BY at DESC, cause, channel, kind

-- name: remove_alerts
-- Remove the records of alerts from before a time.
DELETE FROM alerts WHERE at < ?

-- name: insert_plan
-- The header of a plan.
INSERT INTO plans (id, created, expires, header) VALUES (?, ?, ?, ?)

-- name: insert_chunk
-- Some jobs of a plan.
INSERT INTO plan_chunks (plan, chunk, jobs) VALUES (?, ?, ?)

-- name: plan
-- A plan that has not expired.
SELECT created, expires, header FROM plans WHERE id = ? AND expires > ?

-- name: plan_chunk
-- A chunk of a plan that has not expired.
SELECT jobs FROM plan_chunks c JOIN plans p ON p.id = c.plan
WHERE plan = ? AND chunk = ? AND expires > ?

-- name: drop_plan
-- Remove a plan.
DELETE FROM plans WHERE id = ?

-- name: drop_old_plans
-- Remove plans that have expired, and the oldest beyond a number.
DELETE FROM plans
WHERE expires <= ?
    OR id IN (SELECT id FROM plans ORDER BY created DESC, id DESC LIMIT -1 OFFSET ?)

-- name: drop_stray_chunks
-- Remove the chunks of plans that are gone.
DELETE FROM plan_chunks WHERE plan NOT IN (SELECT id FROM plans)

-- name: insert_act_job
-- A job that an action took.
INSERT INTO act_jobs (act, id, was) VALUES (?, ?, ?)

-- name: act_jobs
-- The next jobs that an action took, by id.
SELECT id, was FROM act_jobs WHERE act = ? AND id > ? ORDER BY id LIMIT ?

-- name: remove_act_jobs
-- Remove whole actions from before a time that are beyond so many rows, oldest first.
DELETE FROM act_jobs WHERE act <= min(
    (SELECT coalesce(max(number), 0) FROM acts WHERE at < ?),
    (SELECT coalesce((SELECT act FROM act_jobs ORDER BY act DESC LIMIT 1 OFFSET ?), 0))
)
