-- One function for each verb that is a transaction of its own: a session keeps its plan, behind a pooler
-- too, and one round trip is enough. They know columns and the fence, and no rule of Redrive: values come
-- from `jobs.transitions`. They look rows up by number, one by one, and leave the planner no other way:
-- statistics taken amid a large submit say that there is next to nothing.

-- Refuses a caller whose version the schema has left behind.
CREATE OR REPLACE FUNCTION {schema}.check_version(known integer) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM {schema}.redrive_migrations WHERE version > known) THEN
        RAISE EXCEPTION 'written by a newer Redrive' USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
END
$$;

-- Writes counts and events, mostly none.
CREATE FUNCTION {schema}.tell(
    tick_times float8[], tick_counts text[], subscriptions text[], event_jobs text[], kinds text[],
    event_times float8[], bodies text[]
) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF cardinality(tick_times) > 0 THEN
        INSERT INTO {schema}.ticks (at, counts) SELECT * FROM unnest(tick_times, tick_counts);
    END IF;
    IF cardinality(bodies) > 0 THEN
        INSERT INTO {schema}.outbox (subscription, job, kind, at, due, body)
        SELECT e.subscription, e.job, e.kind, e.at, e.at, e.body
        FROM unnest(subscriptions, event_jobs, kinds, event_times, bodies)
            AS e (subscription, job, kind, at, body);
    END IF;
END
$$;

-- Stores new jobs, all or none; an error if an id or a key is taken. Tables that get no row are left
-- alone, because opening their indexes would cost a fifth of a submit.
CREATE FUNCTION {schema}.store_jobs(
    known integer, ids text[], createds float8[], keys text[], events text[], givens text[],
    payloads text[], originals text[], states text[], leases bigint[], dues float8[],
    updateds float8[], first_faileds float8[], causes bigint[], variants smallint[], runs bigint[],
    ceilings bigint[], attempts integer[], suspects smallint[], lanes text[], handlers text[],
    categories text[], mores text[], sinces float8[], lease_ends float8[], holders text[],
    attempt_ids text[], ordinals bigint[], records text[], tick_times float8[], tick_counts text[],
    subscriptions text[], event_jobs text[], kinds text[], event_times float8[], bodies text[]
) RETURNS boolean LANGUAGE plpgsql
SET jit = off
AS $$
#variable_conflict use_column
DECLARE
    numbers bigint[] := ARRAY(
        SELECT nextval('{schema}.jobs_n_seq') FROM generate_subscripts(ids, 1)
    );
BEGIN
    PERFORM {schema}.check_version(known);
    WITH stored AS (
        INSERT INTO {schema}.jobs (n, created, id, key, event, given, payload, original)
        SELECT * FROM unnest(numbers, createds, ids, keys, events, givens, payloads, originals)
    )
    INSERT INTO {schema}.open (
        n, lease, at, updated, first_failed, since, lease_end, cause, run, ceiling, attempts, variant,
        suspect, id, lane, handler, category, holder, more
    )
    SELECT n, lease, due, updated, first_failed, since, lease_end, cause, run, ceiling, attempts,
        variant, suspect, id, lane, handler, category, holder, more
    FROM unnest(
        numbers, leases, dues, updateds, first_faileds, sinces, lease_ends, causes, runs, ceilings,
        attempts, variants, suspects, ids, lanes, handlers, categories, holders, mores, states
    ) AS g (
        n, lease, due, updated, first_failed, since, lease_end, cause, run, ceiling, attempts, variant,
        suspect, id, lane, handler, category, holder, more, state
    )
    WHERE state IN ('pending', 'running');
    IF states && ARRAY['completed', 'dead', 'resolved'] THEN
        INSERT INTO {schema}.ended (
            n, lease, at, due, first_failed, cause, run, ceiling, attempts, variant, id, state, lane,
            handler, category, more
        )
        SELECT n, lease, updated, due, first_failed, cause, run, ceiling, attempts, variant, id, state,
            lane, handler, category, more
        FROM unnest(
            numbers, leases, updateds, dues, first_faileds, causes, runs, ceilings, attempts, variants,
            ids, states, lanes, handlers, categories, mores
        ) AS g (
            n, lease, updated, due, first_failed, cause, run, ceiling, attempts, variant, id, state,
            lane, handler, category, more
        )
        WHERE state NOT IN ('pending', 'running');
    END IF;
    IF cardinality(attempt_ids) > 0 THEN
        INSERT INTO {schema}.attempts (n, ordinal, record)
        SELECT g.n, a.ordinal, a.record
        FROM unnest(attempt_ids, ordinals, records) AS a (id, ordinal, record)
        JOIN unnest(numbers, ids) AS g (n, id) USING (id);
    END IF;
    IF cardinality(tick_times) + cardinality(event_jobs) > 0 THEN
        PERFORM {schema}.tell(
            tick_times, tick_counts, subscriptions, event_jobs, kinds, event_times, bodies
        );
    END IF;
    RETURN true;
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
    numbers bigint[];
BEGIN
    SELECT * INTO g FROM json_to_record(request::json) AS g (
        begun text, wait integer, channel text, known integer,
        ids text[], createds float8[], keys text[], events text[], givens text[], payloads text[],
        originals text[], states text[], leases bigint[], dues float8[], updateds float8[],
        first_faileds float8[], causes bigint[], variants smallint[], runs bigint[],
        ceilings bigint[], attempts integer[], suspects smallint[], lanes text[], handlers text[],
        categories text[], mores text[], sinces float8[], lease_ends float8[], holders text[],
        attempt_ids text[], ordinals bigint[], records text[], tick_times float8[],
        tick_counts text[], subscriptions text[], event_jobs text[], kinds text[],
        event_times float8[], bodies text[]
    );
    IF g.begun <> now()::text THEN
        RAISE no_active_sql_transaction;
    END IF;
    IF usual::interval NOT BETWEEN interval '1 ms' AND g.wait * interval '1 ms' THEN
        PERFORM set_config('lock_timeout', g.wait::text, true);
    END IF;
    PERFORM {schema}.check_version(g.known);
    numbers := array(
        SELECT n FROM {schema}.jobs WHERE id = ANY(g.ids)
        UNION SELECT n FROM {schema}.jobs WHERE key = ANY(g.keys)
    );
    IF cardinality(numbers) = 0 THEN
        PERFORM {schema}.store_jobs(
            g.known, g.ids, g.createds, g.keys, g.events, g.givens, g.payloads, g.originals,
            g.states, g.leases, g.dues, g.updateds, g.first_faileds, g.causes, g.variants, g.runs,
            g.ceilings, g.attempts, g.suspects, g.lanes, g.handlers, g.categories, g.mores,
            g.sinces, g.lease_ends, g.holders, g.attempt_ids, g.ordinals, g.records, g.tick_times,
            g.tick_counts, g.subscriptions, g.event_jobs, g.kinds, g.event_times, g.bodies
        );
        PERFORM pg_notify(g.channel, '');
    END IF;
    PERFORM set_config('lock_timeout', usual, true);
    RETURN json_build_object(
        'stored', cardinality(numbers) = 0,
        'there', (SELECT json_agg(row_to_json(j)) FROM {schema}.job_rows AS j WHERE n = ANY(numbers))
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
        o.at, o.since, o.first_failed, o.cause, o.variant, o.run, o.ceiling, o.attempts, o.lane,
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
-- (number, lease, holder, time of the claim) of one does not stand, nothing is changed: error RD001.
CREATE FUNCTION {schema}.settle_jobs(
    known integer, ns bigint[], leases bigint[], holders text[], sinces float8[],
    states text[], dues float8[], updateds float8[], first_faileds float8[], causes bigint[],
    ceilings bigint[], attempts integer[], variants smallint[], suspects smallint[],
    categories text[], mores text[], lanes text[], ordinals bigint[], records text[],
    tick_times float8[], tick_counts text[], subscriptions text[], event_jobs text[], kinds text[],
    event_times float8[], bodies text[]
) RETURNS void LANGUAGE plpgsql
SET lock_timeout = '4s' SET jit = off SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off
SET enable_mergejoin = off
AS $$
#variable_conflict use_column
DECLARE
    took bigint;
BEGIN
    PERFORM {schema}.check_version(known), set_config('synchronous_commit', 'off', true);
    WITH g AS MATERIALIZED (
        SELECT * FROM unnest(
            ns, leases, holders, sinces, states, dues, updateds, first_faileds, causes, ceilings,
            attempts, variants, suspects, categories, mores, lanes, ordinals, records
        ) AS g (
            n, was, held, since, state, due, updated, first_failed, cause, ceiling, attempts,
            variant, suspect, category, more, lane, ordinal, record
        )
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
            n, lease, at, due, first_failed, cause, run, ceiling, attempts, variant, id, state, lane,
            handler, category, more
        )
        SELECT n, was, updated, due, first_failed, cause, run, ceiling, attempts, variant, id, state,
            lane, handler, category, more
        FROM s WHERE state <> 'pending'
    ), back AS (
        INSERT INTO {schema}.open (
            n, lease, at, updated, first_failed, cause, run, ceiling, attempts, variant, suspect, id,
            lane, handler, category, more
        )
        SELECT n, was, due, updated, first_failed, cause, run, ceiling, attempts, variant, suspect,
            id, lane, handler, category, more
        FROM s WHERE state = 'pending'
    )
    SELECT count(*) FROM s INTO took;
    IF took < cardinality(ns) THEN
        RAISE EXCEPTION 'some claims were lost' USING ERRCODE = 'RD001';
    END IF;
    PERFORM {schema}.tell(
        tick_times, tick_counts, subscriptions, event_jobs, kinds, event_times, bodies
    );
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
    variants smallint[], suspects smallint[], categories text[], mores text[]
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
            variants, suspects, categories, mores
        ) AS g (
            n, was, held, changed, state, due, updated, first_failed, cause, run, ceiling, attempts, variant,
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
            n, lease, at, due, first_failed, cause, run, ceiling, attempts, variant, id, state, lane,
            handler, category, more
        )
        SELECT n, was, updated, due, first_failed, cause, run, ceiling, attempts, variant, id, state,
            lane, handler, category, more
        FROM s WHERE state <> 'pending'
    ), back AS (
        INSERT INTO {schema}.open (
            n, lease, at, updated, first_failed, cause, run, ceiling, attempts, variant, suspect, id,
            lane, handler, category, more
        )
        SELECT n, was, due, updated, first_failed, cause, run, ceiling, attempts, variant, suspect,
            id, lane, handler, category, more
        FROM s WHERE state = 'pending'
    )
    SELECT count(*) FROM s INTO took;
    RETURN took;
END
$$;
