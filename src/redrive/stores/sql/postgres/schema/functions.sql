-- One function for each verb that is a transaction of its own: a session keeps its plan, behind a pooler
-- too, and one round trip is enough. They know columns and the fence, and no rule of Redrive: values come
-- from `jobs.transitions`. They look rows up by number, one by one, and leave the planner no other way:
-- statistics taken amid a large submit say that there is next to nothing.

-- Refuses a caller whose version the schema has left behind.
CREATE OR REPLACE FUNCTION {schema}.check_version(known integer) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM {schema}.redrive_version WHERE version > known) THEN
        RAISE EXCEPTION 'written by a newer Redrive' USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
END
$$;

-- Writes counts and events: JSON, or null where there are none.
CREATE FUNCTION {schema}.tell(extras json) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO {schema}.ticks (at, counts)
    SELECT * FROM json_to_recordset(extras -> 'ticks') AS t (at float8, counts text);
    INSERT INTO {schema}.outbox (subscription, job, kind, at, due, body)
    SELECT e.subscription, e.job, e.kind, e.at, e.at, e.body
    FROM json_to_recordset(extras -> 'events')
        AS e (subscription text, job text, kind text, at float8, body text);
END
$$;

-- Stores new jobs, all or none; an error if an id or a key is taken. The values of job i are texts[..][i],
-- numbers[..][i] and times[..][i], in the order of `postgres.rows.new_row`: few arguments and no `unnest`,
-- which fills a table for each column, take a third off its server time. Tables that get no row are left alone,
-- because opening their indexes would cost a fifth of it. Only a generic plan finds the value of job i without
-- passing those before it.
CREATE FUNCTION {schema}.store_jobs(
    known integer, texts text[], numbers bigint[], times float8[], extras json
) RETURNS void LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan
AS $$
DECLARE
    ns bigint[] := ARRAY(
        SELECT nextval('{schema}.jobs_n_seq') FROM generate_subscripts(texts, 2)
    );
    opened bigint;
BEGIN
    PERFORM {schema}.check_version(known);
    INSERT INTO {schema}.jobs (n, created, id, key, event, given, payload, original)
    SELECT ns[i], times[1][i], texts[1][i], texts[2][i], texts[3][i], texts[4][i], texts[5][i], texts[6][i]
    FROM generate_subscripts(ns, 1) AS i;
    INSERT INTO {schema}.open (
        n, lease, at, updated, first_failed, since, lease_end, cause, run, ceiling, attempts,
        suspect, id, lane, handler, category, holder, more
    )
    SELECT ns[i], numbers[1][i], times[2][i], times[3][i], times[4][i], times[5][i], times[6][i],
        numbers[2][i], numbers[3][i], numbers[4][i], numbers[5][i], numbers[6][i],
        texts[1][i], texts[8][i], texts[9][i], texts[10][i], texts[11][i], texts[12][i]
    FROM generate_subscripts(ns, 1) AS i
    WHERE texts[7][i] IN ('pending', 'running');
    GET DIAGNOSTICS opened = ROW_COUNT;
    IF opened < cardinality(ns) THEN
        INSERT INTO {schema}.ended (
            n, lease, at, due, first_failed, cause, run, ceiling, attempts, id, state, lane,
            handler, category, more
        )
        SELECT ns[i], numbers[1][i], times[3][i], times[2][i], times[4][i], numbers[2][i], numbers[3][i],
            numbers[4][i], numbers[5][i], texts[1][i], texts[7][i], texts[8][i],
            texts[9][i], texts[10][i], texts[12][i]
        FROM generate_subscripts(ns, 1) AS i
        WHERE texts[7][i] NOT IN ('pending', 'running');
    END IF;
    IF extras IS NOT NULL THEN
        INSERT INTO {schema}.attempts (n, ordinal, record)
        SELECT ns[a.job], a.ordinal, a.record
        FROM json_to_recordset(extras -> 'attempts') AS a (job integer, ordinal bigint, record text);
        PERFORM {schema}.tell(extras);
    END IF;
END
$$;

-- Stores jobs in a transaction of the caller's, all or none, through whatever driver that has: the request
-- and the answer are JSON. The answer has `stored`, or `there`: jobs that have one of the ids or keys (then
-- nothing was stored), or `code` and `message` of an error, which leaves the transaction as it was.
-- `begun` is the time of the transaction in which the caller looked at this database; in autocommit mode
-- that is another one by now.
CREATE FUNCTION {schema}.add_within(request text) RETURNS text LANGUAGE plpgsql
SET jit = off SET enable_seqscan = off SET extra_float_digits = 1
AS $$
DECLARE
    usual text := current_setting('lock_timeout');
    g record;
    taken bigint[];
BEGIN
    SELECT * INTO g FROM json_to_record(request::json) AS g (
        begun text, wait integer, channel text, known integer, texts text[], numbers bigint[],
        times float8[], extras json
    );
    IF g.begun <> now()::text THEN
        RAISE no_active_sql_transaction;
    END IF;
    IF usual::interval NOT BETWEEN interval '1 ms' AND g.wait * interval '1 ms' THEN
        PERFORM set_config('lock_timeout', g.wait::text, true);
    END IF;
    PERFORM {schema}.check_version(g.known);
    taken := array(
        SELECT n FROM {schema}.jobs WHERE id = ANY(g.texts[1:1])
        UNION SELECT n FROM {schema}.jobs WHERE key = ANY(g.texts[2:2])
    );
    IF cardinality(taken) = 0 THEN
        PERFORM {schema}.store_jobs(g.known, g.texts, g.numbers, g.times, g.extras);
        PERFORM pg_notify(g.channel, '');
    END IF;
    PERFORM set_config('lock_timeout', usual, true);
    RETURN json_build_object(
        'stored', cardinality(taken) = 0,
        'there', (SELECT json_agg(row_to_json(j)) FROM {schema}.job_rows AS j WHERE n = ANY(taken))
    );
EXCEPTION WHEN OTHERS THEN
    RETURN json_build_object('code', SQLSTATE, 'message', SQLERRM);
END
$$;

-- Leases the jobs that are due first, and returns them; with ids only those jobs. Of one kind the first
-- are locked, past those that others hold. Of several kinds the first few of each come into question, and
-- of all these the earliest are locked one by one until there are enough; where others hold too many,
-- more come into question. Every step is materialized, or the planner might run a LIMIT more than once
-- and claim too much. `but` has the numbers of jobs that the caller cannot read.
CREATE FUNCTION {schema}.lease_jobs(
    known integer, wanted smallint, handlers text[], lanes text[], ids text[], hurried boolean,
    past_pauses boolean, but bigint[], enough integer, new_holder text, lease_for float8,
    new_claim text, stands_in float8
) RETURNS SETOF {schema}.job_rows LANGUAGE plpgsql
SET lock_timeout = '4s' SET jit = off SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off
AS $$
#variable_conflict use_column
DECLARE
    moment float8 := coalesce(stands_in, extract(epoch FROM clock_timestamp()));
    latest float8 := CASE WHEN hurried THEN 'infinity' ELSE moment END;
    paused text[] := '{}';
    kind_lanes text[];
    kind_handlers text[];
    kind_categories text[];
    most bigint := 2::bigint * enough + 30;
    candidates bigint;
    places tid[];
BEGIN
    PERFORM {schema}.check_version(known), pg_advisory_xact_lock(hashtextextended(new_claim, 0));
    IF wanted = 1 AND ids IS NULL AND NOT hurried THEN
        PERFORM pg_advisory_xact_lock(hashtextextended('redrive suspects {schema}', 0));
        -- Another that was claimed in the last 2 seconds, and runs, is waited for.
        IF EXISTS (
            SELECT FROM {schema}.open
            WHERE holder IS NOT NULL AND suspect = 1 AND abs(moment - since) < 2 AND n <> ALL(but)
        ) THEN
            RETURN;
        END IF;
    END IF;
    IF NOT (hurried OR past_pauses) THEN
        paused := array(
            SELECT substr(name, 7) FROM {schema}.notes
            WHERE name >= 'pause:' AND name < 'pause;' AND (expires IS NULL OR expires > moment)
        );
    END IF;
    IF ids IS NOT NULL THEN
        WITH asked AS MATERIALIZED (
            SELECT o.ctid AS place
            FROM {schema}.jobs AS j CROSS JOIN LATERAL (
                SELECT o.ctid, o.* FROM {schema}.open AS o WHERE o.n = j.n LIMIT 1
            ) AS o
            WHERE j.id = ANY(ids) AND o.holder IS NULL AND suspect = wanted AND at <= latest
                AND handler = ANY(handlers) AND lane <> ALL(paused)
                AND (lanes IS NULL OR lane = ANY(lanes)) AND o.n <> ALL(but)
            ORDER BY at, o.n
        )
        SELECT array(
            SELECT locked.place FROM asked CROSS JOIN LATERAL (
                SELECT ctid AS place FROM {schema}.open
                WHERE ctid = asked.place AND holder IS NULL FOR UPDATE SKIP LOCKED
            ) AS locked
            LIMIT enough
        )
        INTO places;
    ELSE
        WITH RECURSIVE kind AS (
            (
                SELECT lane, handler, category FROM {schema}.open
                WHERE holder IS NULL AND suspect = wanted
                ORDER BY lane, handler, category LIMIT 1
            )
            UNION ALL
            SELECT following.*
            FROM kind CROSS JOIN LATERAL (
                SELECT lane, handler, category FROM {schema}.open AS r
                WHERE holder IS NULL AND suspect = wanted
                    AND (r.lane, r.handler, r.category) > (kind.lane, kind.handler, kind.category)
                ORDER BY lane, handler, category LIMIT 1
            ) AS following
        )
        SELECT array_agg(lane), array_agg(handler), array_agg(category) FROM kind
        WHERE handler = ANY(handlers) AND lane <> ALL(paused)
            AND (lanes IS NULL OR lane = ANY(lanes))
        INTO kind_lanes, kind_handlers, kind_categories;
    END IF;
    IF cardinality(kind_lanes) = 1 THEN
        places := array(
            SELECT ctid FROM {schema}.open
            WHERE holder IS NULL AND suspect = wanted AND lane = kind_lanes[1]
                AND handler = kind_handlers[1] AND category = kind_categories[1] AND at <= latest
                AND n <> ALL(but)
            ORDER BY at, n LIMIT enough
            FOR UPDATE SKIP LOCKED
        );
    END IF;
    WHILE cardinality(kind_lanes) > 1 LOOP
        WITH candidate AS MATERIALIZED (
            SELECT first.*
            FROM unnest(kind_lanes, kind_handlers, kind_categories)
                AS wanted_kind (lane, handler, category)
            CROSS JOIN LATERAL (
                SELECT ctid AS place, at, n FROM {schema}.open AS r
                WHERE holder IS NULL AND suspect = wanted AND r.lane = wanted_kind.lane
                    AND r.handler = wanted_kind.handler AND r.category = wanted_kind.category
                    AND r.at <= latest AND n <> ALL(but)
                ORDER BY at, n LIMIT most
            ) AS first
        ), chosen AS MATERIALIZED (
            SELECT locked.place
            FROM (SELECT place FROM candidate ORDER BY at, n) AS first CROSS JOIN LATERAL (
                SELECT ctid AS place FROM {schema}.open
                WHERE ctid = first.place AND holder IS NULL FOR UPDATE SKIP LOCKED
            ) AS locked
            LIMIT enough
        )
        SELECT (SELECT count(*) FROM candidate), array(SELECT place FROM chosen)
        INTO candidates, places;
        EXIT WHEN cardinality(places) = enough OR candidates < most OR most > 100000;
        most := most * 8;
    END LOOP;
    RETURN QUERY
    WITH taken AS (
        UPDATE {schema}.open AS q
        SET lease = q.lease + 1, since = moment, lease_end = moment + lease_for, holder = new_holder,
            claim = new_claim
        WHERE q.ctid = ANY(places) AND q.holder IS NULL
        RETURNING q.*
    )
    SELECT o.n, o.id, j.created, j.key, j.event, j.given, j.payload, j.original, 'running', o.lease,
        o.at, o.since, o.first_failed, o.cause, o.run, o.ceiling, o.attempts, o.lane,
        o.handler, o.more, o.since, o.lease_end, o.holder
    FROM taken AS o CROSS JOIN LATERAL (
        SELECT * FROM {schema}.jobs AS b WHERE b.n = o.n LIMIT 1
    ) AS j
    ORDER BY o.at, o.n;
END
$$;

-- Lengthens leases that are still as given; returns which, by their places in the lists.
CREATE FUNCTION {schema}.renew_leases(
    known integer, ns bigint[], leases bigint[], holders text[], sinces float8[], new_end float8
) RETURNS SETOF bigint LANGUAGE plpgsql
SET lock_timeout = '4s' SET jit = off SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off
SET enable_mergejoin = off
AS $$
BEGIN
    PERFORM {schema}.check_version(known), set_config('synchronous_commit', 'off', true);
    RETURN QUERY
    UPDATE {schema}.open AS q SET lease_end = new_end
    FROM unnest(ns, leases, holders, sinces) WITH ORDINALITY AS g (n, lease, holder, since, place)
    WHERE q.n = g.n AND q.lease = g.lease AND (q.holder = g.holder) IS TRUE AND q.since = g.since
    RETURNING g.place;
END
$$;

-- Ends claims, in every way a claim can end: the state rows, attempts, counts and events. If the fence
-- (number, lease, holder, time of the claim) of one does not stand, nothing is changed: error RD001. The
-- values of end i are given as those of `store_jobs`, in the order of `postgres.settling._row`.
CREATE FUNCTION {schema}.settle_jobs(
    known integer, texts text[], numbers bigint[], times float8[], extras json
) RETURNS void LANGUAGE plpgsql
SET lock_timeout = '4s' SET jit = off SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off
SET enable_mergejoin = off
AS $$
DECLARE
    took bigint;
BEGIN
    PERFORM {schema}.check_version(known), set_config('synchronous_commit', 'off', true);
    WITH g AS MATERIALIZED (
        SELECT texts[1][i] AS held, texts[2][i] AS state, texts[3][i] AS category, texts[4][i] AS more,
            texts[5][i] AS lane, texts[6][i] AS record, numbers[1][i] AS n, numbers[2][i] AS was,
            numbers[3][i] AS cause, numbers[4][i] AS ceiling, numbers[5][i] AS attempts,
            numbers[6][i] AS suspect, numbers[7][i] AS ordinal,
            times[1][i] AS since, times[2][i] AS due, times[3][i] AS updated, times[4][i] AS first_failed
        FROM generate_subscripts(numbers, 2) AS i
    ), s AS (
        DELETE FROM {schema}.open AS q USING g
        -- IS TRUE keeps the planner from the index of holders, along which a batch costs its square.
        WHERE q.n = g.n AND q.lease = g.was AND (q.holder = g.held) IS TRUE AND q.since = g.since
        RETURNING g.*, q.id, q.handler, q.run
    ), kept AS (
        INSERT INTO {schema}.attempts (n, ordinal, record)
        SELECT n, ordinal, record FROM s WHERE record IS NOT NULL
    ), done AS (
        INSERT INTO {schema}.ended (
            n, lease, at, due, first_failed, cause, run, ceiling, attempts, id, state, lane,
            handler, category, more
        )
        SELECT n, was, updated, due, first_failed, cause, run, ceiling, attempts, id, state,
            lane, handler, category, more
        FROM s WHERE state <> 'pending'
    ), back AS (
        INSERT INTO {schema}.open (
            n, lease, at, updated, first_failed, cause, run, ceiling, attempts, suspect, id,
            lane, handler, category, more
        )
        SELECT n, was, due, updated, first_failed, cause, run, ceiling, attempts, suspect,
            id, lane, handler, category, more
        FROM s WHERE state = 'pending'
    )
    SELECT count(*) FROM s INTO took;
    IF took < array_length(numbers, 2) THEN
        RAISE EXCEPTION 'some claims were lost' USING ERRCODE = 'RD001';
    END IF;
    IF extras IS NOT NULL THEN
        PERFORM {schema}.tell(extras);
    END IF;
END
$$;

-- Returns jobs that are about to be changed, locked: open rows, then ended ones, each by number. What is
-- returned was read after all that waiting. A job that changed tables meanwhile may not be locked; then
-- `change_jobs` refuses it, and the caller begins anew.
CREATE FUNCTION {schema}.jobs_to_change(ids text[]) RETURNS SETOF {schema}.job_rows LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off
AS $$
#variable_conflict use_column
DECLARE
    numbers bigint[] := array(SELECT n FROM {schema}.jobs WHERE id = ANY(ids));
BEGIN
    PERFORM FROM {schema}.open WHERE n = ANY(numbers) ORDER BY n FOR UPDATE;
    PERFORM FROM {schema}.ended WHERE n = ANY(numbers) ORDER BY n FOR UPDATE;
    RETURN QUERY
    SELECT r.* FROM unnest(numbers) AS number CROSS JOIN LATERAL (
        SELECT * FROM {schema}.job_rows WHERE n = number LIMIT 1
    ) AS r
    ORDER BY r.id;
END
$$;

-- Changes jobs that still have the lease, the holder and the last change given; returns how many took.
CREATE FUNCTION {schema}.change_jobs(
    ns bigint[], leases bigint[], holders text[], changes float8[], states text[], dues float8[], updateds float8[],
    first_faileds float8[], causes bigint[], runs bigint[], ceilings bigint[], attempts integer[],
    suspects smallint[], categories text[], mores text[]
) RETURNS bigint LANGUAGE plpgsql
SET jit = off SET enable_seqscan = off SET enable_bitmapscan = off
AS $$
#variable_conflict use_column
DECLARE
    took bigint;
BEGIN
    WITH g AS MATERIALIZED (
        SELECT * FROM unnest(
            ns, leases, holders, changes, states, dues, updateds, first_faileds, causes, runs, ceilings, attempts,
            suspects, categories, mores
        ) AS g (
            n, was, held, changed, state, due, updated, first_failed, cause, run, ceiling, attempts,
            suspect, category, more
        )
    ), o AS (
        DELETE FROM {schema}.open AS q USING g
        WHERE q.n = g.n AND q.lease = g.was AND q.holder IS NOT DISTINCT FROM g.held
            AND coalesce(q.since, q.updated) = g.changed
        RETURNING g.*, q.id, q.lane, q.handler
    ), e AS (
        DELETE FROM {schema}.ended AS q USING g
        WHERE q.n = g.n AND q.lease = g.was AND q.at = g.changed
        RETURNING g.*, q.id, q.lane, q.handler
    ), s AS (
        SELECT * FROM o UNION ALL SELECT * FROM e
    ), done AS (
        INSERT INTO {schema}.ended (
            n, lease, at, due, first_failed, cause, run, ceiling, attempts, id, state, lane,
            handler, category, more
        )
        SELECT n, was, updated, due, first_failed, cause, run, ceiling, attempts, id, state,
            lane, handler, category, more
        FROM s WHERE state <> 'pending'
    ), back AS (
        INSERT INTO {schema}.open (
            n, lease, at, updated, first_failed, cause, run, ceiling, attempts, suspect, id,
            lane, handler, category, more
        )
        SELECT n, was, due, updated, first_failed, cause, run, ceiling, attempts, suspect,
            id, lane, handler, category, more
        FROM s WHERE state = 'pending'
    )
    SELECT count(*) FROM s INTO took;
    RETURN took;
END
$$;
