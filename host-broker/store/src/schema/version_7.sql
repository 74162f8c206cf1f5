-- The number of each link of an account. No other link has it, also not one of the same name after an unlink. A link of an
-- earlier version has none.
CREATE TABLE account_keys (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    person      TEXT    NOT NULL,    -- issuer:sub
    capability  TEXT    NOT NULL,
    account_ref TEXT    NOT NULL,
    UNIQUE (person, capability, account_ref)
) STRICT;

-- The accounts whose credential was refused at the last attempt.
CREATE TABLE account_refusals (
    person      TEXT    NOT NULL,
    capability  TEXT    NOT NULL,
    account_ref TEXT    NOT NULL,
    refused_at  INTEGER NOT NULL,
    PRIMARY KEY (person, capability, account_ref)
) STRICT, WITHOUT ROWID;

-- The accounts that the calls on a card use, as the card shows them.
CREATE TABLE approval_accounts (
    approval    INTEGER NOT NULL REFERENCES approvals (id),
    person      TEXT    NOT NULL,    -- on whose behalf the call is made
    capability  TEXT    NOT NULL,
    account_ref TEXT    NOT NULL,    -- begins with its owner if it is a shared one
    account_key INTEGER,             -- the number of the link; absent if an earlier version linked it
    PRIMARY KEY (approval, person, capability, account_ref)
) STRICT, WITHOUT ROWID;
