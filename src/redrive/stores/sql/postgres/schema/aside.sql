-- From version 1: the old tables are put aside, in one transaction. Old workers wait here, and then find a
-- newer version.
LOCK TABLE {schema}.jobs, {schema}.ready, {schema}.leases, {schema}.payloads, {schema}.attempts
IN ACCESS EXCLUSIVE MODE;
-- out of the way; their indexes and constraints keep their names, so these go too
DO $$
DECLARE one record;
BEGIN
    FOR one IN SELECT indexname FROM pg_indexes WHERE schemaname = {literal} AND tablename IN ('jobs', 'causes', 'attempts', 'acts', 'notes', 'payloads', 'leases', 'ready', 'redrive_migrations') LOOP
        EXECUTE format('ALTER INDEX %I.%I RENAME TO %I', {literal}, one.indexname, 'v1_' || one.indexname);
    END LOOP;
    FOR one IN SELECT sequencename FROM pg_sequences WHERE schemaname = {literal} AND sequencename IN ('jobs_n_seq', 'causes_number_seq', 'acts_number_seq') LOOP
        EXECUTE format('ALTER SEQUENCE %I.%I RENAME TO %I', {literal}, one.sequencename, 'v1_' || one.sequencename);
    END LOOP;
    FOR one IN SELECT tablename FROM pg_tables WHERE schemaname = {literal} AND tablename IN ('jobs', 'causes', 'attempts', 'acts', 'notes', 'note_versions', 'payloads', 'leases', 'ready', 'redrive_migrations') LOOP
        EXECUTE format('ALTER TABLE %I.%I RENAME TO %I', {literal}, one.tablename, 'v1_' || one.tablename);
    END LOOP;
END $$;
