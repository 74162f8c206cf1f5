-- What links accounts, and what they are worked with. Everything of persons that must not be read is sealed by the vault.

-- Flows that were begun: one handle, one person, one group, one use.
CREATE TABLE auth_flows (
    id         TEXT    PRIMARY KEY,      -- caf_<capability>_<32 hex>
    caller     TEXT    NOT NULL,
    person     TEXT    NOT NULL,         -- issuer:sub
    behalf     TEXT    NOT NULL,         -- the same in full, with the chat, JSON
    capability TEXT    NOT NULL,
    state      TEXT    NOT NULL CHECK (state IN ('open', 'spent', 'asked')),
    sealed     BLOB,                     -- what goes back to the provider; gone once it does not
    expected   TEXT,                     -- the `state` that the address comes back with
    pace_ms    INTEGER,                  -- how often the provider may be asked how far it is
    polled_at  INTEGER,
    begun_at   INTEGER NOT NULL,
    expires_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX auth_flows_open ON auth_flows (caller, person) WHERE state = 'open';
CREATE INDEX auth_flows_expected ON auth_flows (expected) WHERE expected IS NOT NULL;
CREATE INDEX auth_flows_age ON auth_flows (expires_at);

-- Accounts about which a person is asked, and what became of them.
CREATE TABLE account_links (
    approval    INTEGER PRIMARY KEY REFERENCES approvals (id),
    flow        TEXT    NOT NULL UNIQUE,
    person      TEXT    NOT NULL,
    capability  TEXT    NOT NULL,
    account_ref TEXT    NOT NULL,
    label       TEXT,
    fresh_until INTEGER,                 -- when the credential is to be renewed, if it is
    replaces    INTEGER NOT NULL,        -- whether the card says that another one makes room for it
    sealed      BLOB                     -- the credential; gone once the question is answered
) STRICT;

-- Accounts that another person may work with: each by a word of somebody on the host.
CREATE TABLE account_shares (
    person      TEXT    NOT NULL,        -- whose it is
    capability  TEXT    NOT NULL,
    account_ref TEXT    NOT NULL,
    with_person TEXT    NOT NULL,
    shared_at   INTEGER NOT NULL,
    shared_by   TEXT    NOT NULL,
    PRIMARY KEY (person, capability, account_ref, with_person)
) STRICT, WITHOUT ROWID;
CREATE INDEX account_shares_with ON account_shares (with_person, capability);

-- The credentials of linked accounts.
CREATE TABLE credentials (
    person      TEXT    NOT NULL,
    capability  TEXT    NOT NULL,
    account_ref TEXT    NOT NULL,
    sealed      BLOB    NOT NULL,
    fresh_until INTEGER,                 -- when it is to be renewed, if it is
    stored_at   INTEGER NOT NULL,
    PRIMARY KEY (person, capability, account_ref)
) STRICT, WITHOUT ROWID;
