-- What workers of version 1 call stays, and refuses: a newer Redrive wrote the store. Their other
-- transactions begin by looking at the version. Then the old tables go.
DO $$
DECLARE
    one record;
    columns text := (
        SELECT string_agg(format('NULL::%s %s AS %I', format_type(atttypid, atttypmod), CASE
            WHEN attcollation = '"C"'::regcollation THEN 'COLLATE "C"'
        END, attname), ', ' ORDER BY attnum)
        FROM pg_attribute WHERE attrelid = '{schema}.whole'::regclass AND attnum > 0
    );
BEGIN
    EXECUTE format('CREATE OR REPLACE VIEW {schema}.whole AS SELECT %s WHERE false', columns);
    FOR one IN
        SELECT oid::regproc AS name, pg_get_function_arguments(oid) AS arguments,
            pg_get_function_result(oid) AS result
        FROM pg_proc
        WHERE pronamespace = '{schema}'::regnamespace AND proname IN (
            'add_job', 'add_jobs', 'claim_jobs', 'finish_jobs', 'fail_jobs', 'to_change', 'lost_jobs'
        )
    LOOP
        EXECUTE format(
            'CREATE OR REPLACE FUNCTION %s(%s) RETURNS %s LANGUAGE plpgsql AS %L', one.name,
            one.arguments, one.result, 'BEGIN PERFORM {schema}.check_version(1); END'
        );
    END LOOP;
END
$$;
DROP FUNCTION {schema}.end_leases;
DROP TABLE {schema}.v1_jobs, {schema}.v1_ready, {schema}.v1_leases, {schema}.v1_payloads, {schema}.v1_attempts,
    {schema}.v1_causes, {schema}.v1_acts, {schema}.v1_notes, {schema}.v1_note_versions,
    {schema}.v1_redrive_migrations;
