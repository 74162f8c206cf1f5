-- Old rows are in segments: files beside the database that hold whole parts of the chain.

CREATE TABLE segments (
    first     INTEGER PRIMARY KEY,
    last      INTEGER NOT NULL,
    last_hash BLOB    NOT NULL,      -- the hash of the last row, which the next row names
    last_ts   INTEGER NOT NULL
) STRICT;

-- The request ids of rows that are in segments only, as digests: an id is burnt for ever.
CREATE TABLE burnt_ids (
    digest BLOB PRIMARY KEY
) STRICT, WITHOUT ROWID;

-- When nobody knew an outcome: its target is asked at each start for a week.
ALTER TABLE unknown_outcomes ADD COLUMN since INTEGER NOT NULL DEFAULT 0;
UPDATE unknown_outcomes SET since = coalesce((SELECT ts FROM ledger WHERE ledger.seq = unknown_outcomes.seq), 0);

DROP TRIGGER ledger_is_append_only_delete;
CREATE TRIGGER ledger_is_append_only_delete BEFORE DELETE ON ledger
WHEN OLD.seq > coalesce((SELECT last FROM segments ORDER BY first DESC LIMIT 1), 0)
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
