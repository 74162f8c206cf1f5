-- The ledger and the tables beside it. Only the ledger proves anything; everything else can be rebuilt or lost.

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

CREATE TRIGGER ledger_is_append_only_delete BEFORE DELETE ON ledger
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;

-- An INSERT OR REPLACE slips past a delete trigger; a row that is not the next one does not get past this.
CREATE TRIGGER ledger_has_no_gaps BEFORE INSERT ON ledger
WHEN NEW.seq IS NOT (SELECT coalesce(max(seq), 0) + 1 FROM ledger)
BEGIN SELECT RAISE(ABORT, 'the next row of the ledger has the next number'); END;

-- Intents without an outcome. One row for each effect that is under way, so a caller has few.
CREATE TABLE open_intents (
    caller     TEXT    NOT NULL,
    seq        INTEGER NOT NULL,     -- the intent's row
    request_id TEXT    NOT NULL,
    stage      TEXT    NOT NULL,     -- prepare, run, probe
    mutating   INTEGER NOT NULL,
    nonce      TEXT    NOT NULL,
    probe      TEXT,                 -- what a probe needs, JSON
    PRIMARY KEY (caller, seq)
) STRICT, WITHOUT ROWID;

-- Outcomes that nobody knows yet, until a probe or a person settles them.
CREATE TABLE unknown_outcomes (
    seq        INTEGER PRIMARY KEY,  -- the intent's row
    caller     TEXT    NOT NULL,
    request_id TEXT    NOT NULL,
    provider   TEXT    NOT NULL,
    action     TEXT    NOT NULL,
    nonce      TEXT    NOT NULL,
    probe      TEXT
) STRICT;

-- Filtered replies, as long as a repeated request may still ask for them. The rows that they rest on say whose.
CREATE TABLE replies (
    seq        INTEGER PRIMARY KEY,  -- the row that the reply rests on
    caller     TEXT    NOT NULL,
    request_id TEXT    NOT NULL,
    stored_at  INTEGER NOT NULL,
    reply      BLOB    NOT NULL
) STRICT;

-- Replies up to this row have left; the rest is delivered again at start.
CREATE TABLE delivered (
    one  INTEGER PRIMARY KEY CHECK (one = 1),
    seq  INTEGER NOT NULL,
    turn INTEGER NOT NULL             -- changes when there is nothing to write but a sync
) STRICT;
INSERT INTO delivered VALUES (1, 0, 0);

CREATE TABLE idempotency (
    caller     TEXT    NOT NULL,
    account    TEXT    NOT NULL,
    provider   TEXT    NOT NULL,
    action     TEXT    NOT NULL,
    key        TEXT    NOT NULL,
    params_digest BLOB NOT NULL,
    request_id TEXT    NOT NULL,
    seq        INTEGER NOT NULL,     -- the intent's row
    claimed_at INTEGER NOT NULL,
    PRIMARY KEY (caller, account, provider, action, key)
) STRICT, WITHOUT ROWID;

CREATE INDEX idempotency_age ON idempotency (claimed_at);

CREATE TABLE grants (
    id              INTEGER PRIMARY KEY AUTOINCREMENT,
    group_folder    TEXT    NOT NULL,
    provider        TEXT    NOT NULL,
    access_level    INTEGER NOT NULL,
    allowed_actions TEXT,            -- JSON list; NULL = all of the catalogue
    denied_actions  TEXT,            -- JSON list
    requires_task_gate TEXT,
    granted_by      TEXT    NOT NULL,
    granted_at      INTEGER NOT NULL,
    expires_at      INTEGER,
    active          INTEGER NOT NULL,
    catalogue       TEXT    NOT NULL, -- JSON object: action -> level, as it was when granted
    rate_per_minute INTEGER,
    daily_quota     INTEGER,
    chat_types      TEXT,            -- JSON list
    chat_ids        TEXT,            -- JSON list
    revoked_by      TEXT,            -- who ended it, if it was ended
    UNIQUE (group_folder, provider)
) STRICT;

CREATE TABLE tasks (
    id             TEXT    PRIMARY KEY,
    title          TEXT    NOT NULL,
    assigned_group TEXT    NOT NULL,
    state          TEXT    NOT NULL CHECK (state IN ('open', 'done', 'cancelled')),
    created_by     TEXT    NOT NULL,
    created_at     INTEGER NOT NULL
) STRICT;

CREATE TABLE gate_approvals (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    task        TEXT    NOT NULL REFERENCES tasks (id),
    gate        TEXT    NOT NULL,
    approved_by TEXT    NOT NULL,
    approved_at INTEGER NOT NULL,
    spent_by    INTEGER               -- the intent's row
) STRICT;
CREATE INDEX gate_approvals_unspent ON gate_approvals (task, gate) WHERE spent_by IS NULL;

CREATE TABLE kill_switches (
    scope TEXT    PRIMARY KEY,        -- all, provider:<name>, group:<name>
    by    TEXT    NOT NULL,
    at    INTEGER NOT NULL
) STRICT;

-- The names and columns that the broker's first specification gave to its readers.

CREATE VIEW ext_capabilities AS
SELECT id, group_folder, provider, access_level, allowed_actions, denied_actions, requires_task_gate, granted_by,
       strftime('%Y-%m-%dT%H:%M:%fZ', granted_at / 1000.0, 'unixepoch') AS granted_at,
       CASE WHEN expires_at IS NULL THEN NULL
            ELSE strftime('%Y-%m-%dT%H:%M:%fZ', expires_at / 1000.0, 'unixepoch') END AS expires_at,
       active
FROM grants;

CREATE VIEW ext_calls AS
SELECT first.seq AS id,
       first.request_id,
       substr(first.caller, 7) AS group_folder,
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
  AND first.caller LIKE 'group:%'
  AND (first.kind = 'refused' AND first.params_digest IS NOT NULL
       OR first.kind = 'intended' AND json_extract(first.body, '$.stage') = 'run');
