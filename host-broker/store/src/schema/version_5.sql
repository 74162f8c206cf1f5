-- The calls of plans. A call gets an approval of its own when the calls before it have succeeded.
CREATE TABLE plan_steps (
    plan       INTEGER NOT NULL REFERENCES approvals (id),
    step       INTEGER NOT NULL,      -- 1 for the first
    caller     TEXT    NOT NULL,
    request_id TEXT    NOT NULL,      -- cannot be guessed
    provider   TEXT    NOT NULL,
    action     TEXT    NOT NULL,
    level      INTEGER NOT NULL,
    digest     BLOB    NOT NULL,      -- keyed, of everything that was approved about the call
    asks       TEXT    NOT NULL,      -- why a person is asked about the call, JSON
    outcome    TEXT CHECK (outcome IN ('started', 'succeeded', 'failed', 'skipped')), -- absent: has not started
    code       TEXT,                  -- why it did not succeed
    document   BLOB,                  -- the call; deleted once it has started or will not start
    sealed     TEXT,                  -- the request as it will be sent, JSON; deleted with the call
    PRIMARY KEY (plan, step),
    UNIQUE (caller, request_id)
) STRICT;
