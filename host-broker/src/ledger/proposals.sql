-- What is asked about beside calls: grants above the ceiling, and changes to files that were proposed.
ALTER TABLE approvals ADD COLUMN for_group TEXT;  -- whose access or files it is about; absent: the caller's

CREATE TABLE proposals (
    id         TEXT    PRIMARY KEY,      -- hitl-<uuid>: the proposer's name for it
    caller     TEXT    NOT NULL,
    approval   INTEGER NOT NULL UNIQUE REFERENCES approvals (id),
    path       TEXT    NOT NULL,         -- the first of its files, in the order of their names
    summary    TEXT    NOT NULL,
    settings   BLOB    NOT NULL,         -- digest of how the provider was set up
    patch_hash BLOB    NOT NULL,         -- of the whole diff
    until      INTEGER NOT NULL,         -- when it can no longer be applied
    changes    BLOB,                     -- gone once it can be neither applied nor undone
    applied_at INTEGER,                  -- when it was applied, if it was
    by_request TEXT                      -- the request that applied it
) STRICT;
CREATE INDEX proposals_of ON proposals (caller, approval);
CREATE INDEX proposals_kept ON proposals (approval) WHERE changes IS NOT NULL;
