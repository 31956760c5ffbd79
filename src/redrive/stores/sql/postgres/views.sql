-- name: named_so -- What has this name: in the schema given, or wherever it is found without naming a
-- schema.
SELECT nspname, relkind::text
FROM pg_class AS c JOIN pg_namespace AS s ON s.oid = relnamespace
WHERE relname = %s AND (nspname = %s OR pg_table_is_visible(c.oid))

-- name: our_views -- The views of any schema whose comment begins so, and whose trigger is of this one.
SELECT nspname, relname, obj_description(c.oid, 'pg_class')
FROM pg_class AS c JOIN pg_namespace AS s ON s.oid = relnamespace
WHERE relkind = 'v' AND obj_description(c.oid, 'pg_class') LIKE %s AND EXISTS (
    SELECT FROM pg_trigger JOIN pg_proc AS p ON p.oid = tgfoid
    JOIN pg_namespace AS o ON o.oid = pronamespace
    WHERE tgrelid = c.oid AND o.nspname = %s
)

-- name: has_schema -- If there is a schema of this name.
SELECT 1 FROM pg_namespace WHERE nspname = %s
