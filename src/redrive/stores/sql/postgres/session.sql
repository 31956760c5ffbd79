-- name: glance -- What every transaction begins by looking at: the time, and whether the schema is still
-- ours. No float8: these answers come as text, which a session may be set to round.
SELECT extract(epoch FROM clock_timestamp()),
    (SELECT max(version) FROM {schema}.redrive_version)

-- name: bounded -- Wait at most 4 s for each lock in this transaction. A statement of its own, before
-- any table is named: the server locks the tables of a statement before it evaluates anything in it.
SET LOCAL lock_timeout = '4s'

-- name: begin_synced -- A transaction whose commit is on disk when it is answered, as the server is set
-- up to do. Nobody waits for a lock for ever, and a client that froze does not keep its locks for ever.
-- Every statement that changes jobs has an index to go along, whatever the planner believes of a table
-- that has just grown; and none is worth compiling.
BEGIN ISOLATION LEVEL READ COMMITTED;
{bounded};
{glance}, set_config('enable_seqscan', 'off', true), set_config('jit', 'off', true),
    set_config('idle_in_transaction_session_timeout', '60s', true)

-- name: begin_relaxed -- The same, but the server may answer a commit before it is on disk. The settings
-- end with the transaction, so a pooler can give the connection to anybody after it.
{begin_synced}, set_config('synchronous_commit', 'off', true)

-- name: sync_commit -- Let the commit of this transaction be on disk when it is answered.
SET LOCAL synchronous_commit TO DEFAULT

-- name: begin_read -- A transaction that sees one moment and changes nothing. Lists go along an index
-- until they have a page: bitmaps and parallel workers would fetch everything first.
BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY;
{bounded};
{glance}, set_config('jit', 'off', true), set_config('enable_bitmapscan', 'off', true),
    set_config('max_parallel_workers_per_gather', '0', true)

-- name: begin_opening -- The same where there may be no schema yet.
BEGIN ISOLATION LEVEL READ COMMITTED READ ONLY;
{bounded};
SELECT extract(epoch FROM clock_timestamp()), NULL

-- name: within -- Asked in a transaction of the caller's, in any driver: which database of which server it is
-- in, when the transaction began, and whether there is a store to add to.
SELECT CAST(json_build_array(current_database(), CAST(system_identifier AS text), CAST(now() AS text),
    to_regproc('{schema}.add_within') IS NOT NULL) AS text) FROM pg_control_system()

-- name: within_any -- The same where not everybody may ask for the server.
SELECT CAST(json_build_array(current_database(), '', CAST(now() AS text),
    to_regproc('{schema}.add_within') IS NOT NULL) AS text)

-- name: add_within -- Add jobs in a transaction of the caller's; see the function.
SELECT {schema}.add_within(%s)

-- name: database -- The name of the database, as the server knows it (a pooler may have another one for it),
-- and whether everybody may ask which server it is.
SELECT current_database()::text,
    has_function_privilege('public', 'pg_catalog.pg_control_system()', 'execute')

-- name: server_id -- What tells this server from all others but its own replicas and copies of its files.
SELECT system_identifier::text FROM pg_control_system()

-- name: begin_alone -- A transaction of one program at a time, though there may be no schema yet.
BEGIN ISOLATION LEVEL READ COMMITTED;
{bounded};
SELECT extract(epoch FROM clock_timestamp()), 0,
    pg_advisory_xact_lock(hashtextextended('redrive {schema}', 0))

-- name: time -- The time, alone.
SELECT extract(epoch FROM clock_timestamp())::float8

-- name: notify -- Tell those who listen that something may be due; a hint only, so its commit waits for
-- no disk.
SELECT set_config('synchronous_commit', 'off', true), pg_notify('{channel}', '')

-- name: listen -- Hear what `notify` and `add_within` tell, for as long as this session lives.
LISTEN "{channel}"

-- name: found -- What there is in place of a store: the schema, our mark, and how many tables and views.
SELECT to_regnamespace('{schema}') IS NOT NULL,
    to_regclass('{schema}.redrive_version') IS NOT NULL,
    (SELECT count(*) FROM pg_class WHERE relnamespace = to_regnamespace('{schema}'))

-- name: schema_version -- The version of the schema.
SELECT max(version) FROM {schema}.redrive_version

-- name: size -- The bytes of our tables and their indexes.
SELECT coalesce(sum(pg_total_relation_size(oid)), 0)::int8 FROM pg_class
WHERE relnamespace = to_regnamespace('{schema}') AND relkind = 'r'

-- name: make_schema -- A place for our tables.
CREATE SCHEMA {schema}

-- name: record_version -- Note which version of the schema this is.
INSERT INTO {schema}.redrive_version (version, at) VALUES (%s, %s)

-- name: durability -- The settings that decide whether a commit survives a power cut.
SELECT current_setting('fsync'), current_setting('full_page_writes'),
    current_setting('synchronous_commit')
