-- Jobs with their payloads and attempts, the causes they failed of, acts and notes.
--
-- A job's row is narrow because claim and settle rewrite it; what they do not touch lies apart, and
-- all parts share the number n. JSON columns are null when there is nothing to say.

CREATE TABLE jobs (
    n INTEGER PRIMARY KEY,
    id TEXT NOT NULL,
    -- Not IN (…): SQLite would build a table of the five for every row it writes.
    state TEXT NOT NULL CHECK (
        state = 'pending' OR state = 'running' OR state = 'completed' OR state = 'dead'
        OR state = 'resolved'
    ),
    -- 1 for a pending job that crashed before; such jobs are claimed apart.
    suspect INTEGER NOT NULL,
    lane TEXT NOT NULL,
    handler TEXT NOT NULL,
    -- Of the last failure that counts in this state; empty without one.
    category TEXT NOT NULL,
    -- The time this state is sorted by: due while open, finished after.
    at REAL NOT NULL,
    key TEXT,
    reason TEXT,
    detail TEXT NOT NULL,
    created REAL NOT NULL,
    due REAL NOT NULL,
    since REAL NOT NULL,
    updated REAL NOT NULL,
    finished REAL,
    first_failed REAL,
    attempts INTEGER NOT NULL,
    spent TEXT,
    crashes INTEGER NOT NULL,
    redrives INTEGER NOT NULL,
    max_attempts INTEGER,
    ceiling INTEGER NOT NULL,
    failure TEXT,
    lease INTEGER NOT NULL,
    holder TEXT,
    lease_end REAL,
    boot TEXT,
    tags TEXT,
    release TEXT,
    cause INTEGER REFERENCES causes (number),
    run INTEGER,
    resolution TEXT,
    edits INTEGER NOT NULL,
    folded INTEGER NOT NULL,
    origin TEXT
) STRICT;

CREATE UNIQUE INDEX jobs_by_id ON jobs (id);

-- Claims, counts and purges go by this one. Jobs that run are not in it: few do at one time, and so a
-- claim only takes an entry out and an end only puts one in. Queries must say so too, word for word.
CREATE INDEX jobs_by_kind ON jobs (state, suspect, lane, handler, category, at)
WHERE state <> 'running';

CREATE INDEX running_jobs ON jobs (state) WHERE state = 'running';

CREATE UNIQUE INDEX jobs_by_key ON jobs (key) WHERE key IS NOT NULL;

-- Counts a run's jobs by state, and gives the oldest of a state.
CREATE INDEX jobs_by_run ON jobs (run, state, id) WHERE run IS NOT NULL;

-- Both hold `state` as well: without it SQLite reads each row to check what the index promises.
CREATE INDEX dead_by_cause ON jobs (cause, handler, category, updated, first_failed, lane, state)
WHERE state = 'dead';

CREATE INDEX dead_by_change ON jobs (updated, id, state) WHERE state = 'dead';

CREATE TABLE payloads (
    n INTEGER PRIMARY KEY REFERENCES jobs (n),
    payload TEXT NOT NULL,
    -- Before the first edit.
    original TEXT
) STRICT;

CREATE TABLE attempts (
    n INTEGER NOT NULL REFERENCES jobs (n),
    ordinal INTEGER NOT NULL,
    record TEXT NOT NULL,
    PRIMARY KEY (n, ordinal)
) STRICT, WITHOUT ROWID;

-- What people call groups; never removed, so that G7 stays G7.
CREATE TABLE causes (
    number INTEGER PRIMARY KEY,
    fingerprint TEXT NOT NULL UNIQUE,
    title TEXT NOT NULL
) STRICT;

CREATE TABLE acts (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    at REAL NOT NULL,
    actor TEXT NOT NULL,
    verb TEXT NOT NULL,
    target TEXT NOT NULL,
    reason TEXT NOT NULL,
    done INTEGER NOT NULL,
    skipped INTEGER NOT NULL,
    detail TEXT
) STRICT;

CREATE TABLE notes (
    name TEXT PRIMARY KEY,
    value TEXT NOT NULL,
    version INTEGER NOT NULL,
    expires REAL
) STRICT, WITHOUT ROWID;

-- The last version given to any note, so that one removed and written anew is not taken for the old.
CREATE TABLE note_versions (last INTEGER NOT NULL) STRICT;

INSERT INTO note_versions (last) VALUES (0);

CREATE TABLE migrations (
    version INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    at REAL NOT NULL
) STRICT;
