-- Tokens of operators: who may work with flows over HTTP, and how far. The rows of the ledger prove what became of each.
CREATE TABLE operator_tokens (
    token_id   TEXT    PRIMARY KEY,
    bearer     BLOB    NOT NULL UNIQUE, -- SHA-256 of the bearer, which is 256 random bits and kept nowhere
    label      TEXT    NOT NULL,
    parts      TEXT    NOT NULL,        -- JSON: what may be done
    scopes     TEXT    NOT NULL,        -- JSON: with flows of which scopes
    vault      TEXT    NOT NULL,
    issued_by  TEXT    NOT NULL,
    issued_at  INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    revoked_at INTEGER
) STRICT, WITHOUT ROWID;
