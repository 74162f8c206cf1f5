-- What is asked about beside calls: grants above the ceiling, and changes to files that were proposed.
ALTER TABLE approvals ADD COLUMN for_group TEXT;  -- whose access or files it is about; absent: the caller's

CREATE TABLE proposals (
    id          TEXT    PRIMARY KEY,     -- hitl-<uuid>: the proposer's name for it
    approval    INTEGER NOT NULL UNIQUE REFERENCES approvals (id),
    caller      TEXT    NOT NULL,
    proposed_by TEXT    NOT NULL,        -- the request
    path        TEXT    NOT NULL,        -- the one that it goes by
    summary     TEXT    NOT NULL,
    patch_hash  BLOB    NOT NULL,        -- of the whole diff
    until       INTEGER NOT NULL,        -- when it can no longer be applied
    changes     BLOB,                    -- gone once it can be neither applied nor undone
    diff        TEXT,                    -- as a person is shown it; gone with the changes
    is_revert   INTEGER NOT NULL,        -- whether it undoes another
    apply_as    TEXT,                    -- the request that a person wants it applied by, at once
    applied_by  TEXT,                    -- the request that spent the yes
    applied_at  INTEGER                  -- when it was applied, if it is known that it was
) STRICT;
CREATE INDEX proposals_of ON proposals (caller, approval);
CREATE INDEX proposals_applied ON proposals (caller, applied_by) WHERE applied_by IS NOT NULL;
CREATE INDEX proposals_kept ON proposals (until) WHERE changes IS NOT NULL;
