-- Approvals that also cover later calls like the one on the card.
CREATE TABLE standing_approvals (
    id         INTEGER PRIMARY KEY,
    caller     TEXT    NOT NULL,
    person     TEXT,                 -- on whose behalf the calls are made
    provider   TEXT    NOT NULL,
    action     TEXT    NOT NULL,
    level      INTEGER NOT NULL,
    terms      BLOB    NOT NULL,     -- digest of everything else about a call that must be the same
    policy     BLOB    NOT NULL,     -- digest of the profiles, and of the settings of the provider
    pattern    TEXT,                 -- the parameters; deleted at the end
    covers     TEXT    NOT NULL,     -- the reasons for asking that it covers
    exposures  TEXT    NOT NULL,     -- the actions whose exposure was on the card
    asked_seq  INTEGER NOT NULL,     -- the row of the approval request
    given_by   TEXT    NOT NULL,
    given_at   INTEGER NOT NULL,
    until      INTEGER NOT NULL,
    of_session INTEGER NOT NULL,     -- whether it ends with the session
    ended_at   INTEGER,
    ended_by   TEXT,
    uses       INTEGER NOT NULL DEFAULT 0,
    used_at    INTEGER
) STRICT;

CREATE INDEX standing_approvals_in_force ON standing_approvals (caller, provider, action) WHERE ended_at IS NULL;

-- The standing approval that a person can give with the answer.
ALTER TABLE approvals ADD COLUMN standing TEXT;
