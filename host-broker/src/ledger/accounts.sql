-- Which accounts a person has at a capability, and who has linked them. No credential is here.
CREATE TABLE accounts (
    person      TEXT    NOT NULL,    -- issuer:sub
    capability  TEXT    NOT NULL,
    account_ref TEXT    NOT NULL,
    label       TEXT,
    linked_at   INTEGER NOT NULL,
    linked_by   TEXT    NOT NULL,
    PRIMARY KEY (person, capability, account_ref)
) STRICT, WITHOUT ROWID;
