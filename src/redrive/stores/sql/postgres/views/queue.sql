-- One handler's jobs as the table of a queue, for people and programs that use SQL.
--
-- It takes one change: SET status = 'pending' retries a dead letter and records the action, in the
-- caller's transaction and name; retry_count = 0 may stand beside it. This writes what the store would
-- (`jobs.transitions`); a test compares the two, column by column.

SET LOCAL lock_timeout = '4s';

CREATE OR REPLACE FUNCTION {schema}.change_queue() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    moment double precision := extract(epoch FROM clock_timestamp());
    retried record := OLD;
    dead {schema}.ended;
    past json;
    act bigint;
BEGIN
    IF TG_OP = 'INSERT' THEN
        RAISE EXCEPTION 'no job is inserted here; the program does it: `HANDLER.submit(...)`'
            USING ERRCODE = 'feature_not_supported';
    ELSIF TG_OP = 'DELETE' THEN
        RAISE EXCEPTION 'no job is deleted here; to close it: `redrive discard % --reason WHY`', OLD.job_id
            USING ERRCODE = 'feature_not_supported';
    END IF;
    retried.status := 'pending';
    retried.retry_count := CASE WHEN NEW.retry_count = 0 THEN 0 ELSE OLD.retry_count END;
    IF NEW IS DISTINCT FROM retried THEN
        RAISE EXCEPTION 'job % is not changed: this view only takes SET status = ''pending'', alone or with'
            ' retry_count = 0, which is `redrive retry %`; for anything else use `redrive resolve %`,'
            ' `discard` or `reopen`', OLD.job_id, OLD.job_id, OLD.job_id
            USING ERRCODE = 'feature_not_supported';
    END IF;
    DELETE FROM {schema}.ended WHERE id = OLD.job_id AND state = 'dead' RETURNING * INTO dead;
    IF NOT FOUND THEN
        RAISE NOTICE 'job % is % and stays as it is; only a dead letter is driven again', OLD.job_id,
            coalesce((SELECT state FROM {schema}.states WHERE id = OLD.job_id), 'gone');
        RETURN NULL;
    END IF;
    past := replace(coalesce(dead.more, '{{}}'), '\u0000', '\ufffd')::json;
    INSERT INTO {schema}.acts (at, actor, verb, target, reason, done, skipped)
    VALUES (moment, current_user, 'retry', OLD.job_id, 'UPDATE ' || TG_TABLE_NAME, 1, 0)
    RETURNING number INTO act;
    UPDATE {schema}.jobs SET action = act WHERE n = dead.n;
    INSERT INTO {schema}.open (
        n, lease, at, updated, first_failed, cause, run, ceiling, attempts, suspect, id, lane,
        handler, category, more
    )
    SELECT dead.n, dead.lease, moment, moment, dead.first_failed, dead.cause,
        CASE WHEN dead.run < 0 THEN NULL ELSE dead.run END,  -- by hand it leaves the run it waits for
        dead.ceiling, 0, 0, dead.id, dead.lane, dead.handler, '', (
            SELECT '{{' || string_agg(to_json(kept.key)::text || ':' || kept.value::text, ',') || '}}'
            FROM (
                SELECT key, value FROM json_each(past)
                WHERE key IN ('failure', 'edits', 'folded', 'died_at', 'failed_release')
                UNION ALL
                SELECT 'redrives', to_json(coalesce((past ->> 'redrives')::int, 0) + 1)
                UNION ALL
                SELECT 'actions', json_agg(number ORDER BY number) FROM (
                    SELECT value::text::bigint AS number FROM json_array_elements(past -> 'actions')
                    UNION ALL SELECT act
                    ORDER BY number DESC LIMIT 20
                ) AS newest
            ) AS kept
        );
    PERFORM pg_notify({channel}, '');
    NEW.retry_count := 0;
    NEW.completed_at := NULL;
    RETURN NEW;
END
$$;

CREATE OR REPLACE VIEW {view} AS
SELECT j.id AS job_id,
    {columns}CASE s.state
        WHEN 'dead' THEN 'dead_letter'
        WHEN 'resolved' THEN 'completed'
        ELSE s.state
    END AS status,
    coalesce(
        (SELECT sum(value::bigint) FROM json_each_text(replace(s.more, '\u0000', '\ufffd')::json -> 'spent')), 0
    )::bigint AS retry_count,
    s.ceiling AS max_retries,
    (
        SELECT coalesce(nullif(concat_ws(': ', f.type, f.message), ''), f.why)
        FROM json_to_record(replace(s.more, '\u0000', '\ufffd')::json -> 'failure') AS f (type text, message text, why text)
    ) AS error_message,
    to_timestamp(j.created) AS created_at,
    CASE
        WHEN s.state = 'running' THEN to_timestamp(s.updated)
        ELSE (
            SELECT to_timestamp((replace(a.record, '\u0000', '\ufffd')::json ->> 'started')::double precision)
            FROM {schema}.attempts AS a WHERE a.n = j.n ORDER BY a.ordinal DESC LIMIT 1
        )
    END AS started_at,
    to_timestamp(
        CASE
            WHEN s.state NOT IN ('pending', 'running')
            THEN coalesce((replace(s.more, '\u0000', '\ufffd')::json ->> 'finished')::double precision, s.updated)
        END
    ) AS completed_at
FROM {schema}.jobs AS j JOIN {schema}.states AS s USING (n)
WHERE s.handler = {handler};

DROP TRIGGER IF EXISTS change_queue ON {view};

CREATE TRIGGER change_queue INSTEAD OF INSERT OR UPDATE OR DELETE ON {view}
FOR EACH ROW EXECUTE FUNCTION {schema}.change_queue();

COMMENT ON VIEW {view} IS {comment};
