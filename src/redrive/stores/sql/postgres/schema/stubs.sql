-- What workers of version 1 call: they are told that a newer Redrive wrote the store. Their other
-- transactions begin by looking at the version.
CREATE OR REPLACE VIEW {schema}.whole AS SELECT 0::bigint AS n, ''::text COLLATE "C" AS id, ''::text COLLATE "C" AS state, 0::smallint AS suspect, ''::text COLLATE "C" AS lane, ''::text COLLATE "C" AS handler, ''::text COLLATE "C" AS category, 0::float8 AS at, ''::text COLLATE "C" AS key, ''::text AS reason, ''::text AS detail,
    0::float8 AS created, 0::float8 AS due, 0::float8 AS since, 0::float8 AS updated, 0::float8 AS finished, 0::float8 AS first_failed, 0 AS attempts, ''::text AS spent, 0 AS crashes, 0 AS redrives, 0::bigint AS max_attempts, 0::bigint AS ceiling, ''::text AS failure, 0::bigint AS lease, ''::text AS holder, 0::float8 AS lease_end,
    ''::text AS boot, ''::text AS tags, ''::text AS release, 0::bigint AS cause, 0::bigint AS run, ''::text AS resolution, 0 AS edits, 0 AS folded, ''::text AS origin, ''::text AS payload, ''::text AS original WHERE false;
CREATE OR REPLACE FUNCTION {schema}.add_job(known integer, id text, lane text, handler text, key text, created float8, due float8,
    max_attempts bigint, ceiling bigint, tags text, release text, payload text)
RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    PERFORM {schema}.check_version(known);
    RETURN false;
END
$$;
CREATE OR REPLACE FUNCTION {schema}.add_jobs(known integer, ids text[], lanes text[], handlers text[], keys text[], createds float8[],
    dues float8[], all_max_attempts bigint[], ceilings bigint[], all_tags text[], releases text[],
    all_payloads text[])
RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    PERFORM {schema}.check_version(known);
    RETURN false;
END
$$;
CREATE OR REPLACE FUNCTION {schema}.claim_jobs(known integer, wanted_suspect smallint, handlers text[], lanes text[], ids text[],
    hurried boolean, past_pauses boolean, enough integer, new_holder text, lease_for float8,
    new_claim text, stands_in float8)
RETURNS SETOF {schema}.whole LANGUAGE plpgsql AS $$
BEGIN
    PERFORM {schema}.check_version(known);
    RETURN;
END
$$;
CREATE OR REPLACE FUNCTION {schema}.finish_jobs(known integer, old_lease bigint, old_holder text, old_since float8, new_category text,
    new_reason text, new_detail text, new_ceiling bigint, stands_in float8, numbers bigint[],
    records text[])
RETURNS TABLE (number bigint, moment float8) LANGUAGE plpgsql AS $$
BEGIN
    PERFORM {schema}.check_version(known);
    RETURN;
END
$$;
CREATE OR REPLACE FUNCTION {schema}.fail_jobs(known integer, old_lease bigint, old_holder text, old_since float8, stands_in float8,
    numbers bigint[], records text[], delays float8[], reasons text[], details text[],
    categories text[], spents text[], all_crashes integer[], ceilings bigint[], failures text[],
    fingerprints text[], titles text[])
RETURNS TABLE (number bigint, moment float8, cause bigint) LANGUAGE plpgsql AS $$
BEGIN
    PERFORM {schema}.check_version(known);
    RETURN;
END
$$;
CREATE OR REPLACE FUNCTION {schema}.to_change(ids text[])
RETURNS SETOF {schema}.whole LANGUAGE plpgsql AS $$
BEGIN
    PERFORM {schema}.check_version(1);
    RETURN;
END
$$;
CREATE OR REPLACE FUNCTION {schema}.lost_jobs(lost_holder text, this_boot text, moment float8, handlers text[], most integer)
RETURNS SETOF {schema}.whole LANGUAGE plpgsql AS $$
BEGIN
    PERFORM {schema}.check_version(1);
    RETURN;
END
$$;
DROP FUNCTION {schema}.end_leases;
DROP TABLE {schema}.v1_jobs, {schema}.v1_ready, {schema}.v1_leases, {schema}.v1_payloads, {schema}.v1_attempts,
    {schema}.v1_causes, {schema}.v1_acts, {schema}.v1_notes, {schema}.v1_note_versions,
    {schema}.v1_redrive_migrations;
