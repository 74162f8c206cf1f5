-- The state beside the evidence. Only the ledger proves anything.

-- Intents without an outcome. One row for each effect that is under way, so a caller has few.
CREATE TABLE open_intents (
    caller     TEXT    NOT NULL,
    seq        INTEGER NOT NULL,     -- the intent's row
    request_id TEXT    NOT NULL,
    stage      TEXT    NOT NULL,     -- prepare, run, probe
    mutating   INTEGER NOT NULL,
    nonce      TEXT    NOT NULL,
    probe      TEXT,                 -- what a probe needs, JSON
    PRIMARY KEY (caller, seq)
) STRICT, WITHOUT ROWID;

-- Outcomes that nobody knows yet, until a probe or a person settles them.
CREATE TABLE unknown_outcomes (
    seq        INTEGER PRIMARY KEY,  -- the intent's row
    caller     TEXT    NOT NULL,
    request_id TEXT    NOT NULL,
    provider   TEXT    NOT NULL,
    action     TEXT    NOT NULL,
    nonce      TEXT    NOT NULL,
    probe      TEXT,
    since      INTEGER NOT NULL DEFAULT 0 -- the target is asked at each start for a week
) STRICT;
CREATE INDEX unknown_outcomes_of ON unknown_outcomes (caller, request_id);

-- Filtered replies, as long as a repeated request may still ask for them. The rows that they rest on say whose.
CREATE TABLE replies (
    seq        INTEGER PRIMARY KEY,  -- the row that the reply rests on
    caller     TEXT    NOT NULL,
    request_id TEXT    NOT NULL,
    stored_at  INTEGER NOT NULL,
    reply      BLOB    NOT NULL,
    kept       INTEGER NOT NULL DEFAULT 0 -- 1: its caller has had another reply, and asks for this one
) STRICT;

-- The cost of one sandbox for the others.

-- Replies to a request are found by its name, however often the name was used.
CREATE INDEX replies_of ON replies (caller, request_id, seq);

-- The oldest replies of a caller go first.
CREATE INDEX replies_by ON replies (caller, seq);

-- The bytes of stored replies of each caller, so that no query adds them up.
CREATE TABLE reply_bytes (
    caller TEXT    PRIMARY KEY,
    bytes  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TRIGGER reply_bytes_more AFTER INSERT ON replies BEGIN
    INSERT INTO reply_bytes VALUES (NEW.caller, length(NEW.reply)) ON CONFLICT DO UPDATE SET bytes = bytes + excluded.bytes;
END;
CREATE TRIGGER reply_bytes_less AFTER DELETE ON replies BEGIN
    UPDATE reply_bytes SET bytes = bytes - length(OLD.reply) WHERE caller = OLD.caller;
END;
CREATE TRIGGER reply_bytes_other AFTER UPDATE OF reply ON replies BEGIN
    UPDATE reply_bytes SET bytes = bytes + length(NEW.reply) - length(OLD.reply) WHERE caller = NEW.caller;
END;

-- Replies up to this row have left; the rest is delivered again at start.
CREATE TABLE delivered (
    one  INTEGER PRIMARY KEY CHECK (one = 1),
    seq  INTEGER NOT NULL,
    turn INTEGER NOT NULL             -- changes when there is nothing to write but a sync
) STRICT;
INSERT INTO delivered VALUES (1, 0, 0);

-- A key is one person's: another's is another key.
CREATE TABLE idempotency (
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
CREATE INDEX idempotency_age ON idempotency (claimed_at);

-- A call without a person may match the key of any person.
CREATE INDEX idempotency_key ON idempotency (caller, account, provider, action, key);

CREATE TABLE grants (
    id              INTEGER PRIMARY KEY AUTOINCREMENT,
    group_folder    TEXT    NOT NULL,
    provider        TEXT    NOT NULL,
    access_level    INTEGER NOT NULL,
    allowed_actions TEXT,            -- JSON list; NULL = all of the catalogue
    denied_actions  TEXT,            -- JSON list
    requires_task_gate TEXT,
    granted_by      TEXT    NOT NULL,
    granted_at      INTEGER NOT NULL,
    expires_at      INTEGER,
    active          INTEGER NOT NULL,
    catalogue       TEXT    NOT NULL, -- JSON object: action -> level, as it was when granted
    rate_per_minute INTEGER,
    daily_quota     INTEGER,
    chat_types      TEXT,            -- JSON list
    chat_ids        TEXT,            -- JSON list
    revoked_by      TEXT,            -- who ended it, if it was ended
    UNIQUE (group_folder, provider)
) STRICT;

-- The names and columns that the broker's first specification gave to its readers.

CREATE VIEW ext_capabilities AS
SELECT id, group_folder, provider, access_level, allowed_actions, denied_actions, requires_task_gate, granted_by,
       strftime('%Y-%m-%dT%H:%M:%fZ', granted_at / 1000.0, 'unixepoch') AS granted_at,
       CASE WHEN expires_at IS NULL THEN NULL
            ELSE strftime('%Y-%m-%dT%H:%M:%fZ', expires_at / 1000.0, 'unixepoch') END AS expires_at,
       active
FROM grants;

CREATE TABLE tasks (
    id             TEXT    PRIMARY KEY,
    title          TEXT    NOT NULL,
    assigned_group TEXT    NOT NULL,
    state          TEXT    NOT NULL CHECK (state IN ('open', 'done', 'cancelled')),
    created_by     TEXT    NOT NULL,
    created_at     INTEGER NOT NULL
) STRICT;

CREATE TABLE gate_approvals (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    task        TEXT    NOT NULL REFERENCES tasks (id),
    gate        TEXT    NOT NULL,
    approved_by TEXT    NOT NULL,
    approved_at INTEGER NOT NULL,
    spent_by    INTEGER               -- the intent's row
) STRICT;
CREATE INDEX gate_approvals_unspent ON gate_approvals (task, gate) WHERE spent_by IS NULL;

CREATE TABLE kill_switches (
    scope TEXT    PRIMARY KEY,        -- all, provider:<name>, group:<name>
    by    TEXT    NOT NULL,
    at    INTEGER NOT NULL
) STRICT;

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
    for_group  TEXT,                     -- whose access or files it is about; absent: the caller's
    sealed     TEXT,                     -- the request as it will be sent, JSON; gone once it is closed
    asks       TEXT    NOT NULL DEFAULT '["tier"]', -- why a person is asked, JSON
    person     TEXT,                     -- on whose behalf, as the token proved it on arrival, JSON
    UNIQUE (caller, request_id)
) STRICT;
CREATE INDEX approvals_open ON approvals (state, caller) WHERE state <> 'closed';

-- The agent's name for a question is its row.
CREATE INDEX approvals_named ON approvals (asked_seq);

-- The questions about what a server says of its tools, which are looked up with each look at it.
CREATE INDEX approvals_definitions ON approvals (provider, id) WHERE kind = 'definition';

-- Few questions are open; the number of closed ones only grows.
CREATE INDEX approvals_of_caller ON approvals (caller, id) WHERE state <> 'closed';
CREATE INDEX approvals_not_closed ON approvals (id) WHERE state <> 'closed';

CREATE TABLE approval_answers (
    approval INTEGER NOT NULL REFERENCES approvals (id),
    by       TEXT    NOT NULL,
    channel  TEXT    NOT NULL,
    yes      INTEGER NOT NULL,
    reason   TEXT,
    at       INTEGER NOT NULL,
    PRIMARY KEY (approval, by)
) STRICT, WITHOUT ROWID;

-- Calls that a person refused: the broker does not ask about them again at once.
CREATE TABLE denials (
    caller        TEXT    NOT NULL,
    person        TEXT    NOT NULL,  -- on whose behalf; empty where nobody is known
    provider      TEXT    NOT NULL,
    action        TEXT    NOT NULL,
    params_digest BLOB    NOT NULL,
    times         INTEGER NOT NULL,
    until         INTEGER NOT NULL,
    PRIMARY KEY (caller, person, provider, action, params_digest)
) STRICT, WITHOUT ROWID;
CREATE INDEX denials_over ON denials (until);

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

-- Who is told of what, and what became of it. The rows of the ledger prove it; these serve it.

-- What has happened to questions and nobody was told of yet. Written by the triggers below, so that it is there whoever
-- asks or answers, and in the same transaction.
CREATE TABLE notice_events (
    approval INTEGER NOT NULL REFERENCES approvals (id),
    event    TEXT    NOT NULL,   -- asked, answered, lapsed
    said     TEXT    NOT NULL,   -- the question's state then
    PRIMARY KEY (approval, event)
) STRICT, WITHOUT ROWID;
CREATE TRIGGER approvals_are_asked AFTER INSERT ON approvals
WHEN NEW.state = 'waiting'
BEGIN INSERT OR IGNORE INTO notice_events VALUES (NEW.id, 'asked', NEW.state); END;
CREATE TRIGGER approvals_are_over AFTER UPDATE OF state ON approvals
WHEN OLD.state = 'waiting' AND NEW.state <> 'waiting'
BEGIN
    INSERT OR IGNORE INTO notice_events
    VALUES (NEW.id, CASE coalesce(NEW.became, NEW.state) WHEN 'expired' THEN 'lapsed' ELSE 'answered' END,
            coalesce(NEW.became, NEW.state));
END;

CREATE TABLE notices (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    approval   INTEGER NOT NULL REFERENCES approvals (id),
    event      TEXT    NOT NULL,
    said       TEXT    NOT NULL,
    channel    TEXT    NOT NULL,
    state      TEXT    NOT NULL CHECK (state IN ('due', 'sent', 'failed', 'dropped')),
    due_at     INTEGER NOT NULL, -- when it is tried next
    until      INTEGER NOT NULL, -- it is not tried after that
    attempts   INTEGER NOT NULL,
    announced  TEXT,             -- what the row before its first attempt says that it shows
    fault      TEXT,             -- of the last attempt
    changed_at INTEGER NOT NULL,
    UNIQUE (approval, event, channel)
) STRICT;
CREATE INDEX notices_due ON notices (channel, due_at) WHERE state = 'due';
CREATE INDEX notices_over ON notices (changed_at) WHERE state <> 'due';

-- The recent notices of a channel are counted by their due time.
CREATE INDEX notices_lately ON notices (channel, due_at);

-- Wrong codes from chats, and who is not listened to for a while.
CREATE TABLE chat_misses (
    sender TEXT    NOT NULL,
    at     INTEGER NOT NULL
) STRICT;
CREATE INDEX chat_misses_of ON chat_misses (sender, at);

CREATE TABLE chat_silence (
    sender TEXT    PRIMARY KEY,
    until  INTEGER NOT NULL,
    row    INTEGER NOT NULL     -- the row that says so
) STRICT, WITHOUT ROWID;

-- What a caller's session has been exposed to: each action that it has called since the session began.
CREATE TABLE exposures (
    caller   TEXT    NOT NULL,
    provider TEXT    NOT NULL,
    action   TEXT    NOT NULL,
    exposes  INTEGER NOT NULL,        -- 1 content that others wrote, 2 private data, 4 a way out
    seq      INTEGER NOT NULL,        -- the first intent's row
    at       INTEGER NOT NULL,
    PRIMARY KEY (caller, provider, action)
) STRICT, WITHOUT ROWID;

-- Rates. A bucket leaks steadily; this is when it will be empty.
CREATE TABLE buckets (
    caller   TEXT    NOT NULL,
    provider TEXT    NOT NULL,
    scope    TEXT    NOT NULL,        -- read, write, production: of the configuration; grant: of the grant
    empty_at INTEGER NOT NULL,        -- microseconds since 1970
    PRIMARY KEY (caller, provider, scope)
) STRICT, WITHOUT ROWID;

-- Rates that are over are found by their time.
CREATE INDEX buckets_over ON buckets (empty_at);

-- What was used of a day's quota. A row of another day counts as nothing.
CREATE TABLE quotas (
    caller   TEXT    NOT NULL,
    provider TEXT    NOT NULL,
    scope    TEXT    NOT NULL,        -- as in buckets; amount:<action>
    day      INTEGER NOT NULL,        -- days since 1970, UTC
    used     INTEGER NOT NULL,        -- calls; of an amount millionths
    PRIMARY KEY (caller, provider, scope)
) STRICT, WITHOUT ROWID;

-- Providers that have failed a caller, until they answer it again.
CREATE TABLE breakers (
    caller     TEXT    NOT NULL,
    provider   TEXT    NOT NULL,
    faults     INTEGER NOT NULL,      -- in a row
    open_until INTEGER,               -- milliseconds since 1970; NULL while there were few
    trial      INTEGER,               -- the intent of the one call that finds out
    PRIMARY KEY (caller, provider)
) STRICT, WITHOUT ROWID;

-- Results that look hostile, until a person releases them.
CREATE TABLE quarantine (
    seq        INTEGER PRIMARY KEY,   -- the outcome's row
    caller     TEXT    NOT NULL,
    request_id TEXT    NOT NULL,
    provider   TEXT    NOT NULL,
    action     TEXT    NOT NULL,
    level      INTEGER NOT NULL,
    verdict    TEXT    NOT NULL,
    reasons    TEXT    NOT NULL,      -- JSON list
    data       TEXT    NOT NULL,      -- JSON
    summary    TEXT    NOT NULL,
    at         INTEGER NOT NULL
) STRICT;
CREATE INDEX quarantine_age ON quarantine (at);

-- Quarantined results, begun sign-ins and unknown outcomes of each caller.
CREATE INDEX quarantine_of ON quarantine (caller, seq);

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
CREATE INDEX auth_flows_of ON auth_flows (caller, person);

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

-- Versions of flows. The rows of the ledger prove what became of each; these serve it.
CREATE TABLE flow_versions (
    vault       TEXT    NOT NULL,
    flow_id     TEXT    NOT NULL,
    version     TEXT    NOT NULL,
    state       TEXT    NOT NULL CHECK (state IN ('proposed', 'approved', 'deprecated')),
    scope       TEXT    NOT NULL,
    title       TEXT    NOT NULL,
    steps       INTEGER NOT NULL,
    digest      BLOB    NOT NULL,
    proposed_by TEXT    NOT NULL,
    proposed_at INTEGER NOT NULL,
    approval    INTEGER,          -- the question about it, if one was put
    decided_by  TEXT,             -- who made it what it is, once somebody has
    decided_at  INTEGER,
    approved_seq INTEGER,         -- the row before the one that says that it became canonical: the later, the greater
    PRIMARY KEY (vault, flow_id, version)
) STRICT;

-- What they say, apart from where they stand: a list reads none of it.
CREATE TABLE flow_documents (
    vault    TEXT NOT NULL,
    flow_id  TEXT NOT NULL,
    version  TEXT NOT NULL,
    document BLOB NOT NULL, -- the bundle, canonical JSON
    PRIMARY KEY (vault, flow_id, version)
) STRICT;

-- At most one version of a flow is the canonical one.
CREATE UNIQUE INDEX flow_canonical ON flow_versions (vault, flow_id) WHERE state = 'approved';
CREATE INDEX flow_states ON flow_versions (vault, state, flow_id, version);
CREATE INDEX flow_questions ON flow_versions (approval) WHERE approval IS NOT NULL;

-- What agents outside were given. The rows of the ledger prove what became of each; these serve it.
CREATE TABLE flow_grants (
    grant_id        TEXT    PRIMARY KEY,
    bearer          BLOB    NOT NULL UNIQUE, -- SHA-256 of the bearer, which is 256 random bits and kept nowhere
    vault           TEXT    NOT NULL,
    scope           TEXT    NOT NULL,
    flow_id         TEXT    NOT NULL,
    version         TEXT    NOT NULL,
    tools           TEXT    NOT NULL,        -- JSON
    actor           BLOB    NOT NULL,        -- SHA-256 of who it is for
    issued_by       TEXT    NOT NULL,
    issued_at       INTEGER NOT NULL,
    expires_at      INTEGER NOT NULL,
    revoked_at      INTEGER,
    max_invocations INTEGER NOT NULL,        -- 0 is no end
    invocations     INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;
CREATE INDEX flow_grants_over ON flow_grants (expires_at);
CREATE INDEX flow_grants_listed ON flow_grants (vault, flow_id, grant_id);

-- Exposures and used-up limits of external agents count for the agent, however many grants it has. The issuer of the
-- grants and the actor identify an agent.
CREATE INDEX flow_grants_agent ON flow_grants (issued_by, actor);

-- What ends when the one who gave it does.
CREATE INDEX flow_grants_given ON flow_grants (issued_by) WHERE revoked_at IS NULL;

-- How many there are, so that nobody has to count them.
CREATE TABLE flow_grants_count (
    n INTEGER NOT NULL
) STRICT;
INSERT INTO flow_grants_count VALUES (0);

-- How many accesses each has given: nobody has to count them, and none takes the places of all.
CREATE TABLE flow_grants_by (
    issued_by TEXT    PRIMARY KEY,
    n         INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TRIGGER flow_grants_more AFTER INSERT ON flow_grants BEGIN UPDATE flow_grants_count SET n = n + 1; END;
CREATE TRIGGER flow_grants_less AFTER DELETE ON flow_grants BEGIN
    UPDATE flow_grants_count SET n = n - 1;
    -- With an access goes what was counted of its calls.
    DELETE FROM exposures WHERE caller = 'outside:' || OLD.grant_id;
    DELETE FROM buckets WHERE caller = 'outside:' || OLD.grant_id;
    DELETE FROM quotas WHERE caller = 'outside:' || OLD.grant_id;
    DELETE FROM breakers WHERE caller = 'outside:' || OLD.grant_id;
END;
CREATE TRIGGER flow_grants_more_by AFTER INSERT ON flow_grants BEGIN
    INSERT INTO flow_grants_by VALUES (NEW.issued_by, 1) ON CONFLICT DO UPDATE SET n = n + 1;
END;
CREATE TRIGGER flow_grants_less_by AFTER DELETE ON flow_grants BEGIN
    UPDATE flow_grants_by SET n = n - 1 WHERE issued_by = OLD.issued_by;
    DELETE FROM flow_grants_by WHERE issued_by = OLD.issued_by AND n = 0;
END;
CREATE TRIGGER flow_grants_last_of_agent AFTER DELETE ON flow_grants
WHEN NOT EXISTS (SELECT 1 FROM flow_grants WHERE issued_by = OLD.issued_by AND actor = OLD.actor)
BEGIN
    DELETE FROM buckets WHERE caller = 'agent:' || substr(lower(hex(OLD.actor)), 1, 32);
    DELETE FROM quotas WHERE caller = 'agent:' || substr(lower(hex(OLD.actor)), 1, 32);
END;

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
