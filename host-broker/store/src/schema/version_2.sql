-- Values that one reply delivers and no other: passwords. They are encrypted by the vault.
CREATE TABLE one_time_values (
    caller     TEXT    NOT NULL,
    request_id TEXT    NOT NULL,     -- the call whose result lacks the value
    provider   TEXT    NOT NULL,
    field      TEXT    NOT NULL,     -- the member of the result that holds it
    sealed     BLOB    NOT NULL,
    until      INTEGER NOT NULL,     -- in steady time
    taken      INTEGER,              -- the row of the reply that delivers it
    PRIMARY KEY (caller, request_id)
) STRICT, WITHOUT ROWID;

-- The provider of a nested call: approvers need the right for it, too.
ALTER TABLE approvals ADD COLUMN nested TEXT;
