-- On whose behalf a waiting request was made, as its token proved it on arrival (JSON); the token is kept nowhere.
ALTER TABLE approvals ADD COLUMN person TEXT;

-- A key is one person's: another's is another key.
CREATE TABLE keys_of_persons (
    caller     TEXT    NOT NULL,
    person     TEXT    NOT NULL,     -- empty where nobody is known
    account    TEXT    NOT NULL,
    provider   TEXT    NOT NULL,
    action     TEXT    NOT NULL,
    key        TEXT    NOT NULL,
    params_digest BLOB NOT NULL,
    request_id TEXT    NOT NULL,
    seq        INTEGER NOT NULL,     -- the intent's row
    claimed_at INTEGER NOT NULL,
    PRIMARY KEY (caller, person, account, provider, action, key)
) STRICT, WITHOUT ROWID;
INSERT INTO keys_of_persons
SELECT caller, '', account, provider, action, key, params_digest, request_id, seq, claimed_at FROM idempotency;
DROP TABLE idempotency;
ALTER TABLE keys_of_persons RENAME TO idempotency;
CREATE INDEX idempotency_age ON idempotency (claimed_at);

-- Tokens that were kept with requests before anybody read them.
UPDATE approvals SET document = CAST(json_remove(CAST(document AS TEXT), '$.context_token') AS BLOB)
WHERE document IS NOT NULL AND json_valid(CAST(document AS TEXT))
      AND json_type(CAST(document AS TEXT), '$.context_token') IS NOT NULL;
