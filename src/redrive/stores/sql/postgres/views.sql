-- name: named_so -- What has this name: in the schema given, or wherever it is found without naming a
-- schema.
SELECT nspname, relkind::text, obj_description(c.oid, 'pg_class')
FROM pg_class AS c JOIN pg_namespace AS s ON s.oid = relnamespace
WHERE relname = %s AND (nspname = %s OR pg_table_is_visible(c.oid))

-- name: our_views -- The views of a schema whose comment begins so.
SELECT relname, obj_description(c.oid, 'pg_class')
FROM pg_class AS c JOIN pg_namespace AS s ON s.oid = relnamespace
WHERE nspname = %s AND relkind = 'v' AND obj_description(c.oid, 'pg_class') LIKE %s
