-- What waits for a person, and what became of it. The rows of the ledger prove it; these serve it.
CREATE TABLE approvals (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    code       TEXT    NOT NULL UNIQUE,  -- what approvers answer with; never used again
    kind       TEXT    NOT NULL,         -- call
    caller     TEXT    NOT NULL,
    request_id TEXT    NOT NULL,
    reply_as   TEXT,                     -- the reply's name, where the document had no id
    provider   TEXT    NOT NULL,
    action     TEXT    NOT NULL,
    level      INTEGER NOT NULL,
    digest     BLOB    NOT NULL,         -- keyed, of everything that was agreed to
    quorum     INTEGER NOT NULL,
    state      TEXT    NOT NULL CHECK (state IN ('waiting', 'approved', 'denied', 'expired', 'cancelled', 'closed')),
    became     TEXT,                     -- how it ended, once it is closed
    asked_seq  INTEGER NOT NULL,         -- the row that says that a person was asked
    asked_at   INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,         -- silence until then is a no
    reply_by   INTEGER NOT NULL,         -- when the caller stops waiting
    told       INTEGER NOT NULL,         -- whether it has had its one reply, `pending`
    card       TEXT,                     -- what is shown, JSON; gone once it is closed
    document   BLOB,                     -- the request; gone once it is closed
    UNIQUE (caller, request_id)
) STRICT;
CREATE INDEX approvals_open ON approvals (state, caller) WHERE state <> 'closed';

CREATE TABLE approval_answers (
    approval INTEGER NOT NULL REFERENCES approvals (id),
    by       TEXT    NOT NULL,
    channel  TEXT    NOT NULL,
    yes      INTEGER NOT NULL,
    reason   TEXT,
    at       INTEGER NOT NULL,
    PRIMARY KEY (approval, by)
) STRICT, WITHOUT ROWID;

-- A reply that is only kept: its caller has had another one, and asks for this.
ALTER TABLE replies ADD COLUMN kept INTEGER NOT NULL DEFAULT 0;
