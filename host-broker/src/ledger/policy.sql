-- What a caller's session has been exposed to: each action that it has called since the session began.
CREATE TABLE exposures (
    caller   TEXT    NOT NULL,
    provider TEXT    NOT NULL,
    action   TEXT    NOT NULL,
    exposes  INTEGER NOT NULL,        -- 1 content that others wrote, 2 private data, 4 a way out
    seq      INTEGER NOT NULL,        -- the first intent's row
    at       INTEGER NOT NULL,
    PRIMARY KEY (caller, provider, action)
) STRICT, WITHOUT ROWID;

-- Of what was called before anybody counted nobody knows what it exposed to: all three, until a person begins the
-- session anew.
INSERT INTO exposures
SELECT caller, provider, action, 7, min(seq), min(ts) FROM ledger
WHERE kind = 'intended' AND caller LIKE 'group:%' AND json_extract(body, '$.stage') = 'run'
      AND provider IS NOT NULL AND action IS NOT NULL
GROUP BY caller, provider, action;

-- Rates. A bucket leaks steadily; this is when it will be empty.
CREATE TABLE buckets (
    caller   TEXT    NOT NULL,
    provider TEXT    NOT NULL,
    scope    TEXT    NOT NULL,        -- read, write, production: of the configuration; grant: of the grant
    empty_at INTEGER NOT NULL,        -- microseconds since 1970
    PRIMARY KEY (caller, provider, scope)
) STRICT, WITHOUT ROWID;

-- What was used of a day's quota. A row of another day counts as nothing.
CREATE TABLE quotas (
    caller   TEXT    NOT NULL,
    provider TEXT    NOT NULL,
    scope    TEXT    NOT NULL,        -- as in buckets; amount:<action>
    day      INTEGER NOT NULL,        -- days since 1970, UTC
    used     INTEGER NOT NULL,        -- calls; of an amount millionths
    PRIMARY KEY (caller, provider, scope)
) STRICT, WITHOUT ROWID;

-- Providers that have failed a caller, until they answer it again.
CREATE TABLE breakers (
    caller     TEXT    NOT NULL,
    provider   TEXT    NOT NULL,
    faults     INTEGER NOT NULL,      -- in a row
    open_until INTEGER,               -- milliseconds since 1970; NULL while there were few
    trial      INTEGER,               -- the intent of the one call that finds out
    PRIMARY KEY (caller, provider)
) STRICT, WITHOUT ROWID;

-- Why a person was asked.
ALTER TABLE approvals ADD COLUMN asks TEXT NOT NULL DEFAULT '["tier"]';

-- Results that look hostile, until a person releases them.
CREATE TABLE quarantine (
    seq        INTEGER PRIMARY KEY,   -- the outcome's row
    caller     TEXT    NOT NULL,
    request_id TEXT    NOT NULL,
    provider   TEXT    NOT NULL,
    action     TEXT    NOT NULL,
    level      INTEGER NOT NULL,
    verdict    TEXT    NOT NULL,
    reasons    TEXT    NOT NULL,      -- JSON list
    data       TEXT    NOT NULL,      -- JSON
    summary    TEXT    NOT NULL,
    at         INTEGER NOT NULL
) STRICT;
CREATE INDEX quarantine_age ON quarantine (at);
