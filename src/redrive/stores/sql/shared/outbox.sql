-- name: subscribe -- Store a subscription, new or not.
INSERT INTO {schema}.subscriptions (name, kinds, created) VALUES (?, ?, ?)
ON CONFLICT (name) DO UPDATE SET kinds = excluded.kinds

-- name: unsubscribe -- Remove a subscription.
DELETE FROM {schema}.subscriptions WHERE name = ?

-- name: remove_events_of -- Remove the events of a subscription.
DELETE FROM {schema}.outbox WHERE subscription = ?

-- name: subscriptions -- All subscriptions.
SELECT name, kinds FROM {schema}.subscriptions

-- name: add_events -- Events, in order.
INSERT INTO {schema}.outbox (subscription, job, kind, at, body, due)
VALUES (?::text, ?::text, ?::text, ?::float8, ?::text, ?::float8)

-- name: free_events -- Events whose lease ended without an answer can be taken again.
UPDATE {schema}.outbox AS o SET holder = NULL, lease_end = NULL, lost = o.lost + 1
WHERE o.holder IS NOT NULL AND o.lease_end <= ?

-- name: take_events -- Lease events that are due; of one subscription and job only the oldest.
UPDATE {schema}.outbox SET holder = ?, lease_end = ? WHERE n IN (
    SELECT n FROM {schema}.outbox AS o
    WHERE o.holder IS NULL AND o.due <= ? AND o.subscription = ANY(?::text[]) AND NOT EXISTS (
        SELECT 1 FROM {schema}.outbox AS e
        WHERE e.subscription = o.subscription AND e.job = o.job AND e.n < o.n
    )
    ORDER BY o.due, o.n LIMIT ? {skip_locked}
)
RETURNING n, subscription, job, kind, at, attempts, lost, body, due

-- name: renew_events -- Renew the leases of events.
UPDATE {schema}.outbox SET lease_end = ? WHERE n = ANY(?::int8[]) AND holder = ?
RETURNING n

-- name: waiting_events -- How many events wait for each subscription, and the time of the oldest.
SELECT subscription, count(*), min(at) FROM {schema}.outbox GROUP BY subscription

-- name: remove_events -- Remove events that their holder has delivered.
DELETE FROM {schema}.outbox WHERE n = ANY(?::int8[]) AND holder = ? RETURNING n

-- name: delay_events -- Put deliveries off.
UPDATE {schema}.outbox AS q
SET due = g.column2, attempts = q.attempts + 1, holder = NULL, lease_end = NULL
FROM (VALUES (?::int8, ?::float8)) AS g WHERE q.n = g.column1 AND q.holder = ?
