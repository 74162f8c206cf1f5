-- The evidence: the chain of rows, the segments that hold its oldest part, and the clock that never goes back.

CREATE TABLE ledger (
    seq           INTEGER PRIMARY KEY,
    ts            INTEGER NOT NULL,  -- milliseconds since 1970, UTC
    kind          TEXT    NOT NULL,
    caller        TEXT    NOT NULL,  -- group:<name>, person:<name>, broker
    person        TEXT,
    request_id    TEXT,
    provider      TEXT,
    action        TEXT,
    level         INTEGER,
    params_digest BLOB,              -- HMAC-SHA256 under the ledger key
    summary       TEXT,
    reason_code   TEXT,
    result_summary TEXT,
    result_digest BLOB,
    task_id       TEXT,
    approval      TEXT,
    policy_version TEXT   NOT NULL,
    duration_ms   INTEGER,
    body          TEXT    NOT NULL,  -- canonical JSON, by kind
    prev_hash     BLOB    NOT NULL,
    event_hash    BLOB    NOT NULL
) STRICT;

-- Not partial: with a parameter in the condition SQLite would prepare the look-up anew every time.
CREATE INDEX ledger_request ON ledger (caller, request_id);
CREATE TRIGGER ledger_is_append_only_update BEFORE UPDATE ON ledger
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;

-- Old rows are in segments: files beside the database that hold whole parts of the chain.

CREATE TABLE segments (
    first     INTEGER PRIMARY KEY,
    last      INTEGER NOT NULL,
    last_hash BLOB    NOT NULL,      -- the hash of the last row, which the next row names
    last_ts   INTEGER NOT NULL
) STRICT;
CREATE TRIGGER ledger_is_append_only_delete BEFORE DELETE ON ledger
WHEN OLD.seq > coalesce((SELECT last FROM segments ORDER BY first DESC LIMIT 1), 0)
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;

-- An INSERT OR REPLACE slips past a delete trigger; a row that is not the next one does not get past this.
CREATE TRIGGER ledger_has_no_gaps BEFORE INSERT ON ledger
WHEN NEW.seq IS NOT (SELECT coalesce(max(seq), 0) + 1 FROM ledger)
BEGIN SELECT RAISE(ABORT, 'the next row of the ledger has the next number'); END;

-- The request ids of rows that are in segments only, as digests: an id is burnt for ever.
CREATE TABLE burnt_ids (
    digest BLOB PRIMARY KEY
) STRICT, WITHOUT ROWID;

-- Rows were found to be missing or changed. No call is admitted before a verification of all rows finds none.
CREATE TABLE broken_evidence (
    one   INTEGER PRIMARY KEY CHECK (one = 1),
    row   INTEGER NOT NULL,          -- the first row that was wrong
    error TEXT    NOT NULL
) STRICT;

-- The steady clock: time that has passed while a daemon ran.
-- These columns are dated by it: idempotency.claimed_at, replies.stored_at, denials.until, chat_misses.at,
-- chat_silence.until, buckets.empty_at, breakers.open_until.
CREATE TABLE steady (
    one  INTEGER PRIMARY KEY CHECK (one = 1),
    ms   INTEGER NOT NULL,
    wall INTEGER NOT NULL             -- the machine's clock then, in milliseconds since 1970
) STRICT;
INSERT INTO steady VALUES (1, 0, 0);

CREATE VIEW ext_calls AS
SELECT first.seq AS id,
       first.request_id,
       CASE WHEN first.caller LIKE 'group:%' THEN substr(first.caller, 7) ELSE first.caller END AS group_folder,
       first.provider,
       first.action,
       first.level AS access_level,
       'sha256:' || lower(hex(first.params_digest)) AS params_hash,
       first.summary AS params_summary,
       CASE WHEN first.kind = 'refused' THEN 'denied'
            WHEN last.kind IS NULL THEN 'authorized'
            WHEN last.kind = 'succeeded' OR later.kind IS NOT NULL THEN 'executed'
            WHEN last.kind = 'timed_out' THEN 'timeout'
            ELSE 'failed' END AS status,
       CASE WHEN first.kind = 'refused' THEN first.reason_code END AS denial_reason,
       coalesce(later.result_summary, last.result_summary) AS result_summary,
       first.task_id,
       last.duration_ms,
       strftime('%Y-%m-%dT%H:%M:%fZ', first.ts / 1000.0, 'unixepoch') AS created_at
FROM ledger AS first
LEFT JOIN ledger AS last
       ON first.kind = 'intended'
      AND last.caller = first.caller AND last.request_id = first.request_id
      AND last.kind IN ('succeeded', 'failed', 'timed_out', 'unknown')
      AND json_extract(last.body, '$.of') = first.seq
LEFT JOIN ledger AS later
       ON last.kind = 'unknown'
      AND later.caller = first.caller AND later.request_id = first.request_id
      AND later.kind = 'settled' AND json_extract(later.body, '$.settles') = first.seq
WHERE first.provider IS NOT NULL
  AND (first.caller LIKE 'group:%' OR first.caller LIKE 'outside:%')
  AND (first.kind = 'refused' AND first.params_digest IS NOT NULL
       OR first.kind = 'intended' AND json_extract(first.body, '$.stage') = 'run');
