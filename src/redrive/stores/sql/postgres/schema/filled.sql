-- What version 1 held, in the tables of version 2. JSON is put together as text: jsonb would refuse some of it
-- and rewrite numbers. It is searched as text too: json would refuse a record with \u0000 in a message.
INSERT INTO {schema}.jobs (n, created, id, key, given, payload, original)
SELECT n, created, id, key, nullif('{' || substr(coalesce(',"tags":' || tags, '') || coalesce(',"release":' || to_json(release)::text, '') || coalesce(',"max_attempts":' || max_attempts, '')
    || coalesce(',"origin":' || origin, ''), 2) || '}', '{}'), payload, original
FROM {schema}.v1_jobs JOIN {schema}.v1_payloads USING (n) ORDER BY n;
CREATE TEMP VIEW whole_v1 AS
SELECT j.*, l.lease AS l_lease, l.since AS l_since, l.lease_end, l.holder, l.claim, nullif('{' || substr(
        CASE WHEN reason IS NULL OR state = 'completed' AND reason = 'done' THEN '' ELSE ',"reason":"' || reason || '"' END || CASE WHEN detail <> '' THEN ',"detail":' || to_json(detail)::text ELSE '' END || coalesce(',"spent":' || spent, '')
        || CASE WHEN crashes > 0 THEN ',"crashes":' || crashes ELSE '' END || CASE WHEN redrives > 0 THEN ',"redrives":' || redrives ELSE '' END || coalesce(',"failure":' || failure, '')
        || coalesce(',"resolution":' || resolution, '') || CASE WHEN edits > 0 THEN ',"edits":' || edits ELSE '' END || CASE WHEN folded > 0 THEN ',"folded":' || folded ELSE '' END
        || coalesce(',"died_at":' || CASE
            WHEN state = 'dead' AND detail <> 'reopened' THEN coalesce(finished, updated)
            WHEN state IN ('dead', 'resolved') THEN coalesce((
                SELECT substring(a.record FROM '"started":([0-9]{1,15}(?:\.[0-9]+)?)')::float8
                    + coalesce(substring(a.record FROM '"duration":([0-9]{1,15}(?:\.[0-9]+)?(?:e-[0-9]{1,2})?)')::float8, 0)
                FROM {schema}.v1_attempts AS a WHERE a.n = j.n AND a.record LIKE '%"failure":{%'
                ORDER BY a.ordinal DESC LIMIT 1), CASE WHEN state = 'dead' THEN coalesce(finished, updated) END)
        END::text, '')
        || CASE WHEN finished <> updated THEN ',"finished":' || finished::text ELSE '' END || CASE WHEN j.since <> due THEN ',"since":' || j.since::text ELSE '' END, 2) || '}', '{}') AS more
FROM {schema}.v1_jobs AS j LEFT JOIN {schema}.v1_leases AS l USING (n);
INSERT INTO {schema}.open (n, lease, at, updated, first_failed, since, lease_end, cause, run, ceiling, attempts, suspect, id, lane, handler, category, holder, claim, more)
SELECT n, coalesce(l_lease, lease), due, updated, first_failed, l_since, lease_end, cause, run, ceiling, attempts, (crashes > 0)::int, id, lane, handler, category, 'upgraded:' || holder, claim, more
FROM whole_v1 WHERE state = 'pending' ORDER BY n;
INSERT INTO {schema}.ended (n, lease, at, due, first_failed, cause, run, ceiling, attempts, id, state, lane, handler, category, more)
SELECT n, lease, updated, due, first_failed, cause, run, ceiling, attempts, id, state, lane, handler, category, more FROM whole_v1 WHERE state <> 'pending' ORDER BY updated;
DROP VIEW whole_v1;
INSERT INTO {schema}.groups (number, v1, title, first_seen, last_seen, deaths, version)
SELECT number, fingerprint, title, first, last, coalesce(dead, 0), 0 FROM {schema}.v1_causes LEFT JOIN (
    SELECT cause AS number, min(coalesce(first_failed, updated)) AS first, max(least(finished, {now})) FILTER (WHERE state = 'dead') AS last, count(*) FILTER (WHERE state = 'dead') AS dead
    FROM {schema}.v1_jobs WHERE cause IS NOT NULL GROUP BY 1) AS t USING (number);
INSERT INTO {schema}.attempts SELECT * FROM {schema}.v1_attempts;
INSERT INTO {schema}.acts SELECT * FROM {schema}.v1_acts;
INSERT INTO {schema}.notes SELECT * FROM {schema}.v1_notes;
UPDATE {schema}.note_versions SET last = (SELECT last FROM {schema}.v1_note_versions);
INSERT INTO {schema}.redrive_migrations SELECT * FROM {schema}.v1_redrive_migrations;
SELECT setval(pg_get_serial_sequence('{schema}.jobs', 'n'), greatest((SELECT last_value FROM {schema}.v1_jobs_n_seq), 1)),
    setval(pg_get_serial_sequence('{schema}.groups', 'number'), greatest((SELECT last_value FROM {schema}.v1_causes_number_seq), 1)),
    setval(pg_get_serial_sequence('{schema}.acts', 'number'), greatest((SELECT last_value FROM {schema}.v1_acts_number_seq), 1));
-- The deaths of the last 30 days, of jobs that are dead still: all that is known of them.
INSERT INTO {schema}.group_counts (span, cause, start, deaths)
SELECT span, cause, floor(least(finished, {now}) / span)::bigint * span, count(*)
FROM {schema}.v1_jobs CROSS JOIN (VALUES (60, 86400.0), (3600, 2592000.0)) AS kept (span, seconds)
WHERE state = 'dead' AND cause IS NOT NULL
    AND finished > {now} - kept.seconds
GROUP BY 1, 2, 3;
