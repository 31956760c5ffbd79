-- Columns are what SQL searches, sorts or fences by; `given` (never changed) and `more`
-- (changed by transitions) are sparse JSON (`record_codec`), null when there is nothing to say.
CREATE TABLE jobs (
    n INTEGER PRIMARY KEY,
    id TEXT NOT NULL,
    -- Not IN (…): SQLite would build a table of the five for every row it writes.
    state TEXT NOT NULL CHECK (
        state = 'pending' OR state = 'running' OR state = 'completed' OR state = 'dead'
        OR state = 'resolved'
    ),
    suspect INTEGER NOT NULL,      -- 1: crashed before; stays 1 while it runs
    lane TEXT NOT NULL,
    handler TEXT NOT NULL,
    category TEXT NOT NULL,        -- of the failure that counts in this state; '' without one
    at REAL NOT NULL,              -- pending, running: due. Ended: the last change
    due REAL NOT NULL,             -- so that ends that are alike write nothing of their own
    updated REAL NOT NULL,         -- running: the time of the claim (part of the fence)
    created REAL NOT NULL,
    attempts INTEGER NOT NULL,
    lease INTEGER NOT NULL,
    ceiling INTEGER NOT NULL,
    key TEXT,
    event TEXT,
    first_failed REAL,
    cause INTEGER,
    run INTEGER,
    action INTEGER,                -- the last one on it
    holder TEXT,
    lease_end REAL,
    given TEXT,
    more TEXT
) STRICT;
CREATE UNIQUE INDEX jobs_by_id ON jobs (id);
CREATE UNIQUE INDEX jobs_by_key ON jobs (key) WHERE key IS NOT NULL;
CREATE INDEX jobs_by_event ON jobs (event) WHERE event IS NOT NULL;
-- Claims, counts and purges go by this one. Jobs that run are not in it: few do at one time, and so a
-- claim only takes an entry out and an end only puts one in. Queries must say so too, word for word.
CREATE INDEX jobs_by_kind ON jobs (state, suspect, lane, handler, category, at) WHERE state <> 'running';
CREATE INDEX running_jobs ON jobs (state) WHERE state = 'running';
CREATE INDEX jobs_by_action ON jobs (action) WHERE action IS NOT NULL;
CREATE INDEX jobs_by_run ON jobs (run, state, id) WHERE run IS NOT NULL;
-- These hold `state` as well: without it SQLite reads each row to check what the index promises.
CREATE INDEX dead_by_id ON jobs (id, state) WHERE state = 'dead';
CREATE INDEX dead_by_change ON jobs (at, id, state) WHERE state = 'dead';
-- Only dead jobs that were changed since they died, such as edited ones: a death writes nothing here. Not
-- by json_extract, which would refuse a change of a damaged row.
CREATE INDEX dead_by_death ON jobs (lane, handler, category, CAST(substr(more, instr(more, '"died_at":') + 10) AS REAL))
    WHERE state = 'dead' AND instr(more, '"died_at":') AND CAST(substr(more, instr(more, '"died_at":') + 10) AS REAL) < at;
CREATE INDEX jobs_by_cause ON jobs (cause, state, handler, category, at, lane) WHERE cause IS NOT NULL;

CREATE TABLE payloads (n INTEGER PRIMARY KEY, payload TEXT NOT NULL, original TEXT) STRICT;
CREATE TABLE attempts (n INTEGER NOT NULL, ordinal INTEGER NOT NULL, record TEXT NOT NULL,
    PRIMARY KEY (n, ordinal)) STRICT, WITHOUT ROWID;

CREATE TABLE groups (              -- never removed: G7 stays G7
    number INTEGER PRIMARY KEY,
    fingerprint TEXT NOT NULL UNIQUE,
    title TEXT NOT NULL,
    first_seen REAL,
    last_seen REAL,                -- last_seen, deaths, seen: written by `fold` alone
    deaths INTEGER NOT NULL,
    seen TEXT,                     -- first_release, last_release, since (start of the incident), regressed
    version INTEGER NOT NULL,      -- grows when people change `more`
    more TEXT                      -- resolved, owner, status, note, who and when: what people said
) STRICT;

CREATE TABLE ticks (n INTEGER PRIMARY KEY, at REAL NOT NULL, counts TEXT NOT NULL) STRICT;
CREATE TABLE lane_counts (
    span INTEGER NOT NULL, start INTEGER NOT NULL, lane TEXT NOT NULL,
    attempts INTEGER NOT NULL, successes INTEGER NOT NULL, first_failures INTEGER NOT NULL, deaths INTEGER NOT NULL,
    PRIMARY KEY (span, start, lane)) STRICT, WITHOUT ROWID;
CREATE TABLE group_counts (
    span INTEGER NOT NULL, cause INTEGER NOT NULL, start INTEGER NOT NULL, deaths INTEGER NOT NULL,
    PRIMARY KEY (span, cause, start)) STRICT, WITHOUT ROWID;
-- Which groups a bucket has, and which buckets are too old.
CREATE INDEX group_counts_by_start ON group_counts (span, start);

CREATE TABLE subscriptions (name TEXT PRIMARY KEY, kinds TEXT NOT NULL, created REAL NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE outbox (
    n INTEGER PRIMARY KEY AUTOINCREMENT,
    subscription TEXT NOT NULL, job TEXT NOT NULL, kind TEXT NOT NULL, at REAL NOT NULL, due REAL NOT NULL,
    attempts INTEGER NOT NULL DEFAULT 0, lost INTEGER NOT NULL DEFAULT 0, holder TEXT, lease_end REAL, body TEXT NOT NULL) STRICT;
CREATE INDEX outbox_in_order ON outbox (subscription, job, n);
CREATE INDEX outbox_by_due ON outbox (due) WHERE holder IS NULL;
CREATE INDEX outbox_leased ON outbox (lease_end) WHERE holder IS NOT NULL;

CREATE TABLE acts (
    number INTEGER PRIMARY KEY AUTOINCREMENT, at REAL NOT NULL, actor TEXT NOT NULL, verb TEXT NOT NULL, target TEXT NOT NULL,
    reason TEXT NOT NULL, done INTEGER NOT NULL, skipped INTEGER NOT NULL, detail TEXT) STRICT;

CREATE TABLE notes (name TEXT PRIMARY KEY, value TEXT NOT NULL, version INTEGER NOT NULL, expires REAL) STRICT, WITHOUT ROWID;
CREATE TABLE note_versions (last INTEGER NOT NULL) STRICT;
INSERT INTO note_versions (last) VALUES (0);
