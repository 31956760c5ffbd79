-- name: check_pages -- Whether the file's pages and indexes hang together.
PRAGMA integrity_check(20)

-- name: schema_version -- The version of the schema.
PRAGMA user_version

-- name: journal_mode -- How commits are written.
PRAGMA journal_mode

-- name: odd_lease -- Jobs whose state and lease contradict each other.
SELECT id FROM jobs WHERE (state = 'running') <> (holder IS NOT NULL) LIMIT 20

-- name: no_payload -- Jobs whose payload is missing.
SELECT id FROM jobs LEFT JOIN payloads USING (n) WHERE payload IS NULL LIMIT 20

-- name: stray_payload -- Payloads without a job.
SELECT p.n FROM payloads p LEFT JOIN jobs USING (n) WHERE id IS NULL LIMIT 20

-- name: checked -- Some jobs, whole, with the columns that follow from the others.
SELECT suspect, category, at, action, {read} FROM jobs JOIN payloads USING (n)
WHERE n > ? ORDER BY n LIMIT ?
