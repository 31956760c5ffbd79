-- name: named_so
-- What has this name: in the schema given, or wherever it is found without naming a schema.
SELECT nspname, relkind::text, obj_description(c.oid, 'pg_class')
FROM pg_class AS c JOIN pg_namespace AS s ON s.oid = relnamespace
WHERE relname = %s AND (nspname = %s OR pg_table_is_visible(c.oid))
