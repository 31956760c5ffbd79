-- name: alone -- Wait until no other transaction does the same; what it wrote is seen by the next
-- statement.
SELECT pg_advisory_xact_lock(hashtextextended('redrive ' || %s::text || ' {schema}', 0))

-- name: try_alone -- Whether no other transaction does the same; then none can until this one has ended.
SELECT pg_try_advisory_xact_lock(hashtextextended('redrive ' || %s::text || ' {schema}', 0))
