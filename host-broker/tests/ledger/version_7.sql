-- A home that version 7 of the schema wrote. It is never changed: every later version opens it.
PRAGMA foreign_keys = OFF;
BEGIN TRANSACTION;
CREATE TABLE account_keys (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    person      TEXT    NOT NULL,    -- issuer:sub
    capability  TEXT    NOT NULL,
    account_ref TEXT    NOT NULL,
    UNIQUE (person, capability, account_ref)
) STRICT;
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
CREATE TABLE account_refusals (
    person      TEXT    NOT NULL,
    capability  TEXT    NOT NULL,
    account_ref TEXT    NOT NULL,
    refused_at  INTEGER NOT NULL,
    PRIMARY KEY (person, capability, account_ref)
) STRICT, WITHOUT ROWID;
CREATE TABLE account_shares (
    person      TEXT    NOT NULL,        -- whose it is
    capability  TEXT    NOT NULL,
    account_ref TEXT    NOT NULL,
    with_person TEXT    NOT NULL,
    shared_at   INTEGER NOT NULL,
    shared_by   TEXT    NOT NULL,
    PRIMARY KEY (person, capability, account_ref, with_person)
) STRICT, WITHOUT ROWID;
CREATE TABLE accounts (
    person      TEXT    NOT NULL,    -- issuer:sub
    capability  TEXT    NOT NULL,
    account_ref TEXT    NOT NULL,
    label       TEXT,
    linked_at   INTEGER NOT NULL,
    linked_by   TEXT    NOT NULL,
    PRIMARY KEY (person, capability, account_ref)
) STRICT, WITHOUT ROWID;
CREATE TABLE approval_accounts (
    approval    INTEGER NOT NULL REFERENCES approvals (id),
    person      TEXT    NOT NULL,    -- on whose behalf the call is made
    capability  TEXT    NOT NULL,
    account_ref TEXT    NOT NULL,    -- begins with its owner if it is a shared one
    account_key INTEGER,             -- the number of the link; absent if an earlier version linked it
    PRIMARY KEY (approval, person, capability, account_ref)
) STRICT, WITHOUT ROWID;
CREATE TABLE approval_answers (
    approval INTEGER NOT NULL REFERENCES approvals (id),
    by       TEXT    NOT NULL,
    channel  TEXT    NOT NULL,
    yes      INTEGER NOT NULL,
    reason   TEXT,
    at       INTEGER NOT NULL,
    PRIMARY KEY (approval, by)
) STRICT, WITHOUT ROWID;
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
    person     TEXT, nested TEXT, standing TEXT, access TEXT,                     -- on whose behalf, as the token proved it on arrival, JSON
    UNIQUE (caller, request_id)
) STRICT;
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
CREATE TABLE breakers (
    caller     TEXT    NOT NULL,
    provider   TEXT    NOT NULL,
    faults     INTEGER NOT NULL,      -- in a row
    open_until INTEGER,               -- milliseconds since 1970; NULL while there were few
    trial      INTEGER,               -- the intent of the one call that finds out
    PRIMARY KEY (caller, provider)
) STRICT, WITHOUT ROWID;
CREATE TABLE broken_evidence (
    one   INTEGER PRIMARY KEY CHECK (one = 1),
    row   INTEGER NOT NULL,          -- the first row that was wrong
    error TEXT    NOT NULL
) STRICT;
CREATE TABLE buckets (
    caller   TEXT    NOT NULL,
    provider TEXT    NOT NULL,
    scope    TEXT    NOT NULL,        -- read, write, production: of the configuration; grant: of the grant
    empty_at INTEGER NOT NULL,        -- microseconds since 1970
    PRIMARY KEY (caller, provider, scope)
) STRICT, WITHOUT ROWID;
CREATE TABLE burnt_ids (
    digest BLOB PRIMARY KEY
) STRICT, WITHOUT ROWID;
CREATE TABLE chat_misses (
    sender TEXT    NOT NULL,
    at     INTEGER NOT NULL
) STRICT;
CREATE TABLE chat_silence (
    sender TEXT    PRIMARY KEY,
    until  INTEGER NOT NULL,
    row    INTEGER NOT NULL     -- the row that says so
) STRICT, WITHOUT ROWID;
CREATE TABLE conversations (
    caller TEXT PRIMARY KEY,
    id     TEXT NOT NULL              -- the request that began it
) STRICT, WITHOUT ROWID;
CREATE TABLE credentials (
    person      TEXT    NOT NULL,
    capability  TEXT    NOT NULL,
    account_ref TEXT    NOT NULL,
    sealed      BLOB    NOT NULL,
    fresh_until INTEGER,                 -- when it is to be renewed, if it is
    stored_at   INTEGER NOT NULL,
    PRIMARY KEY (person, capability, account_ref)
) STRICT, WITHOUT ROWID;
CREATE TABLE delivered (
    one  INTEGER PRIMARY KEY CHECK (one = 1),
    seq  INTEGER NOT NULL,
    turn INTEGER NOT NULL             -- changes when there is nothing to write but a sync
) STRICT;
INSERT INTO "delivered" VALUES(1,10,1);
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
CREATE TABLE exposures (
    caller   TEXT    NOT NULL,
    provider TEXT    NOT NULL,
    action   TEXT    NOT NULL,
    exposes  INTEGER NOT NULL,        -- 1 content that others wrote, 2 private data, 4 a way out
    seq      INTEGER NOT NULL,        -- the first intent's row
    at       INTEGER NOT NULL,
    PRIMARY KEY (caller, provider, action)
) STRICT, WITHOUT ROWID;
INSERT INTO "exposures" VALUES('group:developer','cloud-logs','list_services',3,8,1795941233133);
CREATE TABLE flow_documents (
    vault    TEXT NOT NULL,
    flow_id  TEXT NOT NULL,
    version  TEXT NOT NULL,
    document BLOB NOT NULL, -- the bundle, canonical JSON
    PRIMARY KEY (vault, flow_id, version)
) STRICT;
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
CREATE TABLE flow_grants_by (
    issued_by TEXT    PRIMARY KEY,
    n         INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE flow_grants_count (
    n INTEGER NOT NULL
) STRICT;
INSERT INTO "flow_grants_count" VALUES(0);
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
CREATE TABLE gate_approvals (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    task        TEXT    NOT NULL REFERENCES tasks (id),
    gate        TEXT    NOT NULL,
    approved_by TEXT    NOT NULL,
    approved_at INTEGER NOT NULL,
    spent_by    INTEGER               -- the intent's row
) STRICT;
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
INSERT INTO "grants" VALUES(1,'developer','cloud-logs',1,NULL,NULL,NULL,'person:alice',1795941230925,NULL,1,'{"get_log_entry":1,"list_services":1,"query_logs":1}',NULL,NULL,NULL,NULL,NULL);
INSERT INTO "grants" VALUES(2,'developer','github',2,NULL,NULL,NULL,'person:alice',1795941231294,1796546031294,0,'{"add_labels":2,"close_issue":2,"comment_issue":2,"comment_pr":2,"create_branch":2,"create_issue":2,"create_pr":2,"get_file":1,"get_issue":1,"get_issue_comments":1,"get_pr":1,"get_pr_checks":1,"get_pr_comments":1,"get_pr_reviews":1,"get_repo":1,"list_branches":1,"list_issues":1,"list_prs":1,"list_repos":1,"merge_pr":3,"request_review":2,"search_code":1,"update_branch":2}',NULL,NULL,NULL,NULL,'person:alice');
INSERT INTO "grants" VALUES(3,'main','cloud-logs',1,NULL,NULL,NULL,'person:alice',1795941231625,NULL,1,'{"get_log_entry":1,"list_services":1,"query_logs":1}',NULL,NULL,NULL,NULL,NULL);
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
CREATE TABLE kill_switches (
    scope TEXT    PRIMARY KEY,        -- all, provider:<name>, group:<name>
    by    TEXT    NOT NULL,
    at    INTEGER NOT NULL
) STRICT;
INSERT INTO "kill_switches" VALUES('group:security','person:alice',1795941232613);
CREATE TABLE ledger (
    seq           INTEGER PRIMARY KEY,
    ts            INTEGER NOT NULL,  -- milliseconds since 1970, UTC
    kind          TEXT    NOT NULL,
    caller        TEXT    NOT NULL,  -- group:<name>, person:<name>, broker
    person        TEXT,
    request_id    TEXT,
    provider      TEXT,
    action        TEXT,
    level         INTEGER,
    params_digest BLOB,              -- HMAC-SHA256 under the ledger key
    summary       TEXT,
    reason_code   TEXT,
    result_summary TEXT,
    result_digest BLOB,
    task_id       TEXT,
    approval      TEXT,
    policy_version TEXT   NOT NULL,
    duration_ms   INTEGER,
    body          TEXT    NOT NULL,  -- canonical JSON, by kind
    prev_hash     BLOB    NOT NULL,
    event_hash    BLOB    NOT NULL
) STRICT;
INSERT INTO "ledger" VALUES(1,1795941230925,'granted','person:alice',NULL,'cli-bfbfd655525e211189b3aa81b5f9c4bf','cloud-logs',NULL,1,NULL,'developer now has L1 (read) access to cloud-logs without expiry.',NULL,NULL,NULL,NULL,NULL,'ca87d68d1e60',NULL,'{"grant":{"access_level":1,"active":true,"allowed_actions":null,"chat_ids":null,"chat_types":null,"daily_quota":null,"denied_actions":null,"expires_at":null,"granted_at":"2026-11-29T08:33:50.925Z","granted_by":"person:alice","group_folder":"developer","provider":"cloud-logs","rate_per_minute":null,"requires_task_gate":null,"temporary":false},"request":"sha256:a996743a3942e00c45dd65467439b0cdab51b7bf20c01f3f8c17c2f84d244465"}',X'0000000000000000000000000000000000000000000000000000000000000000',X'C74A5070F916757DBD6445E42E2B12A4ED58589895848859420E93B703E0A608');
INSERT INTO "ledger" VALUES(2,1795941231294,'granted','person:alice',NULL,'cli-73c2694811e6d8f34689ee38d6065e6e','github',NULL,2,NULL,'developer now has L2 (write) access to github until 2026-12-06T08:33:51.294Z.',NULL,NULL,NULL,NULL,NULL,'ca87d68d1e60',NULL,'{"grant":{"access_level":2,"active":true,"allowed_actions":null,"chat_ids":null,"chat_types":null,"daily_quota":null,"denied_actions":null,"expires_at":"2026-12-06T08:33:51.294Z","granted_at":"2026-11-29T08:33:51.294Z","granted_by":"person:alice","group_folder":"developer","provider":"github","rate_per_minute":null,"requires_task_gate":null,"temporary":false},"request":"sha256:d2d2e195363d2d38ca7020f6f9e36e50bff4ff96c8d2a912cc63bb2be6827205"}',X'C74A5070F916757DBD6445E42E2B12A4ED58589895848859420E93B703E0A608',X'B727F54E9512058DC5082FCC414836C209DF0D4C8843A9CF69B38A44422B5E4D');
INSERT INTO "ledger" VALUES(3,1795941231625,'granted','person:alice',NULL,'cli-fc7dd7253becd19ed4195daa76ebc085','cloud-logs',NULL,1,NULL,'main now has L1 (read) access to cloud-logs without expiry.',NULL,NULL,NULL,NULL,NULL,'ca87d68d1e60',NULL,'{"grant":{"access_level":1,"active":true,"allowed_actions":null,"chat_ids":null,"chat_types":null,"daily_quota":null,"denied_actions":null,"expires_at":null,"granted_at":"2026-11-29T08:33:51.625Z","granted_by":"person:alice","group_folder":"main","provider":"cloud-logs","rate_per_minute":null,"requires_task_gate":null,"temporary":false},"request":"sha256:d446b41dfcb24fe6b58927ee9b12d1c65630b884fb431a0a28d8be09d7bbb146"}',X'B727F54E9512058DC5082FCC414836C209DF0D4C8843A9CF69B38A44422B5E4D',X'98FC39426F47CD16DCF08919F0D73AF6E25B7CDA4E93B882F0033CE73BAE5434');
INSERT INTO "ledger" VALUES(4,1795941231946,'revoked','person:alice',NULL,'cli-24169c179e698c90a607e47033677c75','github',NULL,NULL,NULL,'developer no longer has access to github.',NULL,NULL,NULL,NULL,NULL,'ca87d68d1e60',NULL,'{"group":"developer","request":"sha256:076816f4ebd42ba3102a96ff085fbe55db0ca072c0dcf956d757835ff65e979a","was_active":true}',X'98FC39426F47CD16DCF08919F0D73AF6E25B7CDA4E93B882F0033CE73BAE5434',X'807902570ED1F6C748F70A184095612B3633E78311A4ABC76238443B5DE15BC6');
INSERT INTO "ledger" VALUES(5,1795941232275,'task','person:alice',NULL,'cli-19b43dbfaa949599a4ea39f0713c7691',NULL,NULL,NULL,NULL,'Task gov-1 is open for developer.',NULL,NULL,NULL,'gov-1',NULL,'ca87d68d1e60',NULL,'{"group":"developer","request":"sha256:b98d44ead7d7fa4a10f47a9f0ef3489503b0c5fc60283741fedcdc7b772db9b6","state":"open"}',X'807902570ED1F6C748F70A184095612B3633E78311A4ABC76238443B5DE15BC6',X'3479CF76637904374FF99B9121874F16B69AC234FDC411465F4EA7FB8DD53ABE');
INSERT INTO "ledger" VALUES(6,1795941232613,'killed','person:alice',NULL,'cli-9eb92a9c28afc60baa1e0643ef38580f',NULL,NULL,NULL,NULL,'Calls of security are stopped.',NULL,NULL,NULL,NULL,NULL,'ca87d68d1e60',NULL,'{"changed":true,"request":"sha256:45feadf951a5200bdc0862176f89380d6fdcefddbaaf899192d798365a3b4906","scope":"group:security"}',X'3479CF76637904374FF99B9121874F16B69AC234FDC411465F4EA7FB8DD53ABE',X'CE4553B7A8052EF8174268C05853081BBF16460CBB82F985531F9497F2221BE3');
INSERT INTO "ledger" VALUES(7,1795941232910,'started','broker',NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'ca87d68d1e60',NULL,'{"catalogue":"sha256:8954293e3e1f28736f443623c0550ba27ef7664a7b300673c46cf37820a55479","version":"0.1.0"}',X'CE4553B7A8052EF8174268C05853081BBF16460CBB82F985531F9497F2221BE3',X'E92F5F3435A2EF59CC7A5D994BECBC019301700D8EA12CD9A0D7750F96B047D1');
INSERT INTO "ledger" VALUES(8,1795941233133,'intended','group:developer',NULL,'r1','cloud-logs','list_services',1,X'6B559A8B637F6541BB4A10553C21A7C64683826511F2C61F3B00F73D1009EDD8','list services with logs',NULL,NULL,NULL,NULL,NULL,'ca87d68d1e60',NULL,'{"nonce":"587d9ffc090d325bf25a7b9ae0f88784","request":"sha256:e9ad48c4ae1dce4465af1381d459e9951738028cd3798ab21b88ab0c1f81e86e","stage":"run"}',X'E92F5F3435A2EF59CC7A5D994BECBC019301700D8EA12CD9A0D7750F96B047D1',X'539075685BA7FC771F862F85F5CA2C5ED89E205898148B071623A3A40A6FE51B');
INSERT INTO "ledger" VALUES(9,1795941233149,'refused','group:developer',NULL,'r2','github','get_repo',1,X'11FDA09521897766568A3B1A5D90A75F448EC28E7DF49623593C93095E8C38AB',NULL,'no_grant',NULL,NULL,NULL,NULL,'ca87d68d1e60',NULL,'{"request":"sha256:630c6f7ef963bcdf31769b3a4a90dc880fefe76ca7084179b143b557e7ca2363"}',X'539075685BA7FC771F862F85F5CA2C5ED89E205898148B071623A3A40A6FE51B',X'E482CB73857D021374A2F63772291AC5DFC743E5206B1FA3B3B1F1209AEFB8ED');
INSERT INTO "ledger" VALUES(10,1795941233162,'succeeded','group:developer',NULL,'r1','cloud-logs','list_services',NULL,NULL,NULL,NULL,'7 services',X'BC432E8D4E70FA22D0269128DFEFA6C9712D6066D3489ED39DF61B24171DA6F1',NULL,NULL,'ca87d68d1e60',12,'{"of":8,"stage":"run"}',X'E482CB73857D021374A2F63772291AC5DFC743E5206B1FA3B3B1F1209AEFB8ED',X'6C59DCDA4C96FBA6D0C22909E0690A8D3BFE5CF5A38DA0533763596CE227E078');
INSERT INTO "ledger" VALUES(11,1795941235195,'stopped','broker',NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'ca87d68d1e60',NULL,'{}',X'6C59DCDA4C96FBA6D0C22909E0690A8D3BFE5CF5A38DA0533763596CE227E078',X'AD6AFBAF1C848F4621420880258C0931D7875CF2A9EB8AD564CE6CAF5A73EB09');
CREATE TABLE notice_events (
    approval INTEGER NOT NULL REFERENCES approvals (id),
    event    TEXT    NOT NULL,   -- asked, answered, lapsed
    said     TEXT    NOT NULL,   -- the question's state then
    PRIMARY KEY (approval, event)
) STRICT, WITHOUT ROWID;
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
CREATE TABLE plan_steps (
    plan       INTEGER NOT NULL REFERENCES approvals (id),
    step       INTEGER NOT NULL,      -- 1 for the first
    caller     TEXT    NOT NULL,
    request_id TEXT    NOT NULL,      -- cannot be guessed
    provider   TEXT    NOT NULL,
    action     TEXT    NOT NULL,
    level      INTEGER NOT NULL,
    digest     BLOB    NOT NULL,      -- keyed, of everything that was approved about the call
    asks       TEXT    NOT NULL,      -- why a person is asked about the call, JSON
    outcome    TEXT CHECK (outcome IN ('started', 'succeeded', 'failed', 'skipped')), -- absent: has not started
    code       TEXT,                  -- why it did not succeed
    document   BLOB,                  -- the call; deleted once it has started or will not start
    sealed     TEXT,                  -- the request as it will be sent, JSON; deleted with the call
    PRIMARY KEY (plan, step),
    UNIQUE (caller, request_id)
) STRICT;
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
CREATE TABLE quotas (
    caller   TEXT    NOT NULL,
    provider TEXT    NOT NULL,
    scope    TEXT    NOT NULL,        -- as in buckets; amount:<action>
    day      INTEGER NOT NULL,        -- days since 1970, UTC
    used     INTEGER NOT NULL,        -- calls; of an amount millionths
    PRIMARY KEY (caller, provider, scope)
) STRICT, WITHOUT ROWID;
CREATE TABLE replies (
    seq        INTEGER PRIMARY KEY,  -- the row that the reply rests on
    caller     TEXT    NOT NULL,
    request_id TEXT    NOT NULL,
    stored_at  INTEGER NOT NULL,
    reply      BLOB    NOT NULL,
    kept       INTEGER NOT NULL DEFAULT 0 -- 1: its caller has had another reply, and asks for this one
) STRICT;
INSERT INTO "replies" VALUES(1,'person:alice','cli-bfbfd655525e211189b3aa81b5f9c4bf',4,X'7B22726571756573745F6964223A22636C692D6266626664363535353235653231313138396233616138316235663963346266222C22737461747573223A226578656375746564222C2264617461223A7B226772616E746564223A747275652C226772616E74223A7B2267726F75705F666F6C646572223A22646576656C6F706572222C2270726F7669646572223A22636C6F75642D6C6F6773222C226163636573735F6C6576656C223A312C22616C6C6F7765645F616374696F6E73223A6E756C6C2C2264656E6965645F616374696F6E73223A6E756C6C2C2272657175697265735F7461736B5F67617465223A6E756C6C2C226772616E7465645F6279223A22706572736F6E3A616C696365222C226772616E7465645F6174223A22323032362D31312D32395430383A33333A35302E3932355A222C22657870697265735F6174223A6E756C6C2C22616374697665223A747275652C22726174655F7065725F6D696E757465223A6E756C6C2C226461696C795F71756F7461223A6E756C6C2C22636861745F7479706573223A6E756C6C2C22636861745F696473223A6E756C6C2C2274656D706F72617279223A66616C73657D7D2C2273756D6D617279223A22646576656C6F706572206E6F7720686173204C31202872656164292061636365737320746F20636C6F75642D6C6F677320776974686F7574206578706972792E222C2274696D657374616D70223A22323032362D31312D32395430383A33333A35302E3932355A222C2265766964656E6365223A7B22736571223A312C226576656E745F68617368223A227368613235363A63373461353037306639313637353764626436343435653432653262313261346564353835383938393538343838353934323065393362373033653061363038222C22707265765F68617368223A227368613235363A30303030303030303030303030303030303030303030303030303030303030303030303030303030303030303030303030303030303030303030303030303030227D7D',0);
INSERT INTO "replies" VALUES(2,'person:alice','cli-73c2694811e6d8f34689ee38d6065e6e',4,X'7B22726571756573745F6964223A22636C692D3733633236393438313165366438663334363839656533386436303635653665222C22737461747573223A226578656375746564222C2264617461223A7B226772616E746564223A747275652C226772616E74223A7B2267726F75705F666F6C646572223A22646576656C6F706572222C2270726F7669646572223A22676974687562222C226163636573735F6C6576656C223A322C22616C6C6F7765645F616374696F6E73223A6E756C6C2C2264656E6965645F616374696F6E73223A6E756C6C2C2272657175697265735F7461736B5F67617465223A6E756C6C2C226772616E7465645F6279223A22706572736F6E3A616C696365222C226772616E7465645F6174223A22323032362D31312D32395430383A33333A35312E3239345A222C22657870697265735F6174223A22323032362D31322D30365430383A33333A35312E3239345A222C22616374697665223A747275652C22726174655F7065725F6D696E757465223A6E756C6C2C226461696C795F71756F7461223A6E756C6C2C22636861745F7479706573223A6E756C6C2C22636861745F696473223A6E756C6C2C2274656D706F72617279223A66616C73657D7D2C2273756D6D617279223A22646576656C6F706572206E6F7720686173204C3220287772697465292061636365737320746F2067697468756220756E74696C20323032362D31322D30365430383A33333A35312E3239345A2E222C2274696D657374616D70223A22323032362D31312D32395430383A33333A35312E3239345A222C2265766964656E6365223A7B22736571223A322C226576656E745F68617368223A227368613235363A62373237663534653935313230353864633530383266636334313438333663323039646630643463383834336139636636396233386134343432326235653464222C22707265765F68617368223A227368613235363A63373461353037306639313637353764626436343435653432653262313261346564353835383938393538343838353934323065393362373033653061363038227D7D',0);
INSERT INTO "replies" VALUES(3,'person:alice','cli-fc7dd7253becd19ed4195daa76ebc085',4,X'7B22726571756573745F6964223A22636C692D6663376464373235336265636431396564343139356461613736656263303835222C22737461747573223A226578656375746564222C2264617461223A7B226772616E746564223A747275652C226772616E74223A7B2267726F75705F666F6C646572223A226D61696E222C2270726F7669646572223A22636C6F75642D6C6F6773222C226163636573735F6C6576656C223A312C22616C6C6F7765645F616374696F6E73223A6E756C6C2C2264656E6965645F616374696F6E73223A6E756C6C2C2272657175697265735F7461736B5F67617465223A6E756C6C2C226772616E7465645F6279223A22706572736F6E3A616C696365222C226772616E7465645F6174223A22323032362D31312D32395430383A33333A35312E3632355A222C22657870697265735F6174223A6E756C6C2C22616374697665223A747275652C22726174655F7065725F6D696E757465223A6E756C6C2C226461696C795F71756F7461223A6E756C6C2C22636861745F7479706573223A6E756C6C2C22636861745F696473223A6E756C6C2C2274656D706F72617279223A66616C73657D7D2C2273756D6D617279223A226D61696E206E6F7720686173204C31202872656164292061636365737320746F20636C6F75642D6C6F677320776974686F7574206578706972792E222C2274696D657374616D70223A22323032362D31312D32395430383A33333A35312E3632355A222C2265766964656E6365223A7B22736571223A332C226576656E745F68617368223A227368613235363A39386663333934323666343763643136646366303839313966306437336166366532356237636461346539336238383266303033336365373362616535343334222C22707265765F68617368223A227368613235363A62373237663534653935313230353864633530383266636334313438333663323039646630643463383834336139636636396233386134343432326235653464227D7D',0);
INSERT INTO "replies" VALUES(4,'person:alice','cli-24169c179e698c90a607e47033677c75',4,X'7B22726571756573745F6964223A22636C692D3234313639633137396536393863393061363037653437303333363737633735222C22737461747573223A226578656375746564222C2264617461223A7B227265766F6B6564223A747275657D2C2273756D6D617279223A22646576656C6F706572206E6F206C6F6E676572206861732061636365737320746F206769746875622E222C2274696D657374616D70223A22323032362D31312D32395430383A33333A35312E3934365A222C2265766964656E6365223A7B22736571223A342C226576656E745F68617368223A227368613235363A38303739303235373065643166366337343866373061313834303935363132623336333365373833313161346162633736323338343433623564653135626336222C22707265765F68617368223A227368613235363A39386663333934323666343763643136646366303839313966306437336166366532356237636461346539336238383266303033336365373362616535343334227D7D',0);
INSERT INTO "replies" VALUES(5,'person:alice','cli-19b43dbfaa949599a4ea39f0713c7691',4,X'7B22726571756573745F6964223A22636C692D3139623433646266616139343935393961346561333966303731336337363931222C22737461747573223A226578656375746564222C2264617461223A7B227461736B5F6964223A22676F762D31222C2267726F75705F666F6C646572223A22646576656C6F706572222C227374617465223A226F70656E227D2C2273756D6D617279223A225461736B20676F762D31206973206F70656E20666F7220646576656C6F7065722E222C2274696D657374616D70223A22323032362D31312D32395430383A33333A35322E3237355A222C2265766964656E6365223A7B22736571223A352C226576656E745F68617368223A227368613235363A33343739636637363633373930343337346666393962393132313837346631366236396163323334666463343131343635663465613766623864643533616265222C22707265765F68617368223A227368613235363A38303739303235373065643166366337343866373061313834303935363132623336333365373833313161346162633736323338343433623564653135626336227D7D',0);
INSERT INTO "replies" VALUES(6,'person:alice','cli-9eb92a9c28afc60baa1e0643ef38580f',4,X'7B22726571756573745F6964223A22636C692D3965623932613963323861666336306261613165303634336566333835383066222C22737461747573223A226578656375746564222C2264617461223A7B2273636F7065223A2267726F75703A7365637572697479222C2273746F70706564223A747275652C226368616E676564223A747275657D2C2273756D6D617279223A2243616C6C73206F66207365637572697479206172652073746F707065642E222C2274696D657374616D70223A22323032362D31312D32395430383A33333A35322E3631335A222C2265766964656E6365223A7B22736571223A362C226576656E745F68617368223A227368613235363A63653435353362376138303532656638313734323638633035383533303831626266313634363063626238326639383535333166393439376632323231626533222C22707265765F68617368223A227368613235363A33343739636637363633373930343337346666393962393132313837346631366236396163323334666463343131343635663465613766623864643533616265227D7D',0);
INSERT INTO "replies" VALUES(9,'group:developer','r2',260,X'7B22726571756573745F6964223A227232222C22737461747573223A2264656E696564222C226572726F72223A2247726F75702027646576656C6F7065722720686173206E6F2061636365737320746F206769746875622E2041736B20746865206D61696E2067726F75702773206167656E74206F7220746865206F70657261746F7220666F722061206772616E742E222C2274696D657374616D70223A22323032362D31312D32395430383A33333A35332E3134395A222C22636F6465223A226E6F5F6772616E74222C2265766964656E6365223A7B22736571223A392C226576656E745F68617368223A227368613235363A65343832636237333835376430323133373461326636333737323239316163356466633734336535323036623166613362336231663132303961656662386564222C22707265765F68617368223A227368613235363A35333930373536383562613766633737316638363266383566356361326335656438396532303538393831343862303731363233613361343061366665353162227D7D',0);
INSERT INTO "replies" VALUES(10,'group:developer','r1',273,X'7B22726571756573745F6964223A227231222C22737461747573223A226578656375746564222C2264617461223A7B227365727669636573223A5B7B2273657276696365223A22616C7465726E617469766573222C226B696E64223A2266696C6573222C226561726C69657374223A22323032352D30362D32345431343A33363A35332E3030305A222C226C6174657374223A22323032362D31312D32395430363A35353A32362E3030305A227D2C7B2273657276696365223A226170742D65697070222C226B696E64223A2266696C6573227D2C7B2273657276696365223A226170742D686973746F7279222C226B696E64223A2266696C6573222C226561726C69657374223A22323032352D30362D32345431343A33363A32352E3030305A222C226C6174657374223A22323032362D31312D32395430373A31313A30342E3030305A227D2C7B2273657276696365223A226170742D7465726D222C226B696E64223A2266696C6573222C226561726C69657374223A22323032352D30362D32345431343A33363A32352E3030305A222C226C6174657374223A22323032362D31312D32395430373A31313A30342E3030305A227D2C7B2273657276696365223A2264706B67222C226B696E64223A2266696C6573222C226561726C69657374223A22323032352D30362D32345431343A33363A32352E3030305A222C226C6174657374223A22323032362D31312D32395430373A31313A31302E3030305A227D2C7B2273657276696365223A22666F6E74636F6E666967222C226B696E64223A2266696C6573227D2C7B2273657276696365223A22706F737467726573716C2D706F737467726573716C2D31352D6D61696E222C226B696E64223A2266696C6573227D5D2C22736B6970706564223A5B7B2273657276696365223A226170742D65697070222C22726561736F6E223A22612066696C6520697320636F6D70726573736564207769746820787A2C207768696368206973206E6F742072656164227D5D7D2C2273756D6D617279223A2237207365727669636573222C2274696D657374616D70223A22323032362D31312D32395430383A33333A35332E3136325A222C2265766964656E6365223A7B22736571223A31302C226576656E745F68617368223A227368613235363A36633539646364613463393666626136643063323239303965303639306138643362666535636635613338646130353333373633353936636532323765303738222C22707265765F68617368223A227368613235363A65343832636237333835376430323133373461326636333737323239316163356466633734336535323036623166613362336231663132303961656662386564227D7D',0);
CREATE TABLE reply_bytes (
    caller TEXT    PRIMARY KEY,
    bytes  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO "reply_bytes" VALUES('group:developer',1397);
INSERT INTO "reply_bytes" VALUES('person:alice',3489);
CREATE TABLE segments (
    first     INTEGER PRIMARY KEY,
    last      INTEGER NOT NULL,
    last_hash BLOB    NOT NULL,      -- the hash of the last row, which the next row names
    last_ts   INTEGER NOT NULL
) STRICT;
CREATE TABLE standing_approvals (
    id         INTEGER PRIMARY KEY,
    caller     TEXT    NOT NULL,
    person     TEXT,                 -- on whose behalf the calls are made
    provider   TEXT    NOT NULL,
    action     TEXT    NOT NULL,
    level      INTEGER NOT NULL,
    terms      BLOB    NOT NULL,     -- digest of everything else about a call that must be the same
    policy     BLOB    NOT NULL,     -- digest of the profiles, and of the settings of the provider
    pattern    TEXT,                 -- the parameters; deleted at the end
    covers     TEXT    NOT NULL,     -- the reasons for asking that it covers
    exposures  TEXT    NOT NULL,     -- the actions whose exposure was on the card
    asked_seq  INTEGER NOT NULL,     -- the row of the approval request
    given_by   TEXT    NOT NULL,
    given_at   INTEGER NOT NULL,
    until      INTEGER NOT NULL,
    of_session INTEGER NOT NULL,     -- whether it ends with the session
    ended_at   INTEGER,
    ended_by   TEXT,
    uses       INTEGER NOT NULL DEFAULT 0,
    used_at    INTEGER
) STRICT;
CREATE TABLE steady (
    one  INTEGER PRIMARY KEY CHECK (one = 1),
    ms   INTEGER NOT NULL,
    wall INTEGER NOT NULL             -- the machine's clock then, in milliseconds since 1970
) STRICT;
INSERT INTO "steady" VALUES(1,2306,1795941235195);
CREATE TABLE tasks (
    id             TEXT    PRIMARY KEY,
    title          TEXT    NOT NULL,
    assigned_group TEXT    NOT NULL,
    state          TEXT    NOT NULL CHECK (state IN ('open', 'done', 'cancelled')),
    created_by     TEXT    NOT NULL,
    created_at     INTEGER NOT NULL
) STRICT;
INSERT INTO "tasks" VALUES('gov-1','a release','developer','open','person:alice',1795941232275);
CREATE TABLE temporary_grants (
    id              INTEGER PRIMARY KEY,
    group_folder    TEXT    NOT NULL,
    provider        TEXT    NOT NULL,
    access_level    INTEGER NOT NULL,
    allowed_actions TEXT    NOT NULL, -- JSON list
    requires_task_gate TEXT,
    granted_by      TEXT    NOT NULL,
    granted_at      INTEGER NOT NULL,
    expires_at      INTEGER NOT NULL,
    catalogue       TEXT    NOT NULL, -- JSON object: action -> level, as it was when granted
    rate_per_minute INTEGER,
    daily_quota     INTEGER,
    chat_types      TEXT,             -- JSON list
    chat_ids        TEXT              -- JSON list
) STRICT;
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
CREATE INDEX ledger_request ON ledger (caller, request_id);
CREATE TRIGGER ledger_is_append_only_update BEFORE UPDATE ON ledger
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER ledger_is_append_only_delete BEFORE DELETE ON ledger
WHEN OLD.seq > coalesce((SELECT last FROM segments ORDER BY first DESC LIMIT 1), 0)
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER ledger_has_no_gaps BEFORE INSERT ON ledger
WHEN NEW.seq IS NOT (SELECT coalesce(max(seq), 0) + 1 FROM ledger)
BEGIN SELECT RAISE(ABORT, 'the next row of the ledger has the next number'); END;
CREATE VIEW ext_calls AS
SELECT first.seq AS id,
       first.request_id,
       CASE WHEN first.caller LIKE 'group:%' THEN substr(first.caller, 7) ELSE first.caller END AS group_folder,
       first.provider,
       first.action,
       first.level AS access_level,
       'sha256:' || lower(hex(first.params_digest)) AS params_hash,
       first.summary AS params_summary,
       CASE WHEN first.kind = 'refused' THEN 'denied'
            WHEN last.kind IS NULL THEN 'authorized'
            WHEN last.kind = 'succeeded' OR later.kind IS NOT NULL THEN 'executed'
            WHEN last.kind = 'timed_out' THEN 'timeout'
            ELSE 'failed' END AS status,
       CASE WHEN first.kind = 'refused' THEN first.reason_code END AS denial_reason,
       coalesce(later.result_summary, last.result_summary) AS result_summary,
       first.task_id,
       last.duration_ms,
       strftime('%Y-%m-%dT%H:%M:%fZ', first.ts / 1000.0, 'unixepoch') AS created_at
FROM ledger AS first
LEFT JOIN ledger AS last
       ON first.kind = 'intended'
      AND last.caller = first.caller AND last.request_id = first.request_id
      AND last.kind IN ('succeeded', 'failed', 'timed_out', 'unknown')
      AND json_extract(last.body, '$.of') = first.seq
LEFT JOIN ledger AS later
       ON last.kind = 'unknown'
      AND later.caller = first.caller AND later.request_id = first.request_id
      AND later.kind = 'settled' AND json_extract(later.body, '$.settles') = first.seq
WHERE first.provider IS NOT NULL
  AND (first.caller LIKE 'group:%' OR first.caller LIKE 'outside:%')
  AND (first.kind = 'refused' AND first.params_digest IS NOT NULL
       OR first.kind = 'intended' AND json_extract(first.body, '$.stage') = 'run');
CREATE INDEX unknown_outcomes_of ON unknown_outcomes (caller, request_id);
CREATE INDEX replies_of ON replies (caller, request_id, seq);
CREATE INDEX replies_by ON replies (caller, seq);
CREATE TRIGGER reply_bytes_more AFTER INSERT ON replies BEGIN
    INSERT INTO reply_bytes VALUES (NEW.caller, length(NEW.reply)) ON CONFLICT DO UPDATE SET bytes = bytes + excluded.bytes;
END;
CREATE TRIGGER reply_bytes_less AFTER DELETE ON replies BEGIN
    UPDATE reply_bytes SET bytes = bytes - length(OLD.reply) WHERE caller = OLD.caller;
END;
CREATE TRIGGER reply_bytes_other AFTER UPDATE OF reply ON replies BEGIN
    UPDATE reply_bytes SET bytes = bytes + length(NEW.reply) - length(OLD.reply) WHERE caller = NEW.caller;
END;
CREATE INDEX idempotency_age ON idempotency (claimed_at);
CREATE INDEX idempotency_key ON idempotency (caller, account, provider, action, key);
CREATE VIEW ext_capabilities AS
SELECT id, group_folder, provider, access_level, allowed_actions, denied_actions, requires_task_gate, granted_by,
       strftime('%Y-%m-%dT%H:%M:%fZ', granted_at / 1000.0, 'unixepoch') AS granted_at,
       CASE WHEN expires_at IS NULL THEN NULL
            ELSE strftime('%Y-%m-%dT%H:%M:%fZ', expires_at / 1000.0, 'unixepoch') END AS expires_at,
       active
FROM grants;
CREATE INDEX gate_approvals_unspent ON gate_approvals (task, gate) WHERE spent_by IS NULL;
CREATE INDEX approvals_open ON approvals (state, caller) WHERE state <> 'closed';
CREATE INDEX approvals_named ON approvals (asked_seq);
CREATE INDEX approvals_definitions ON approvals (provider, id) WHERE kind = 'definition';
CREATE INDEX approvals_of_caller ON approvals (caller, id) WHERE state <> 'closed';
CREATE INDEX approvals_not_closed ON approvals (id) WHERE state <> 'closed';
CREATE INDEX denials_over ON denials (until);
CREATE INDEX proposals_of ON proposals (caller, approval);
CREATE INDEX proposals_applied ON proposals (caller, applied_by) WHERE applied_by IS NOT NULL;
CREATE INDEX proposals_kept ON proposals (until) WHERE changes IS NOT NULL;
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
CREATE INDEX notices_due ON notices (channel, due_at) WHERE state = 'due';
CREATE INDEX notices_over ON notices (changed_at) WHERE state <> 'due';
CREATE INDEX notices_lately ON notices (channel, due_at);
CREATE INDEX chat_misses_of ON chat_misses (sender, at);
CREATE INDEX buckets_over ON buckets (empty_at);
CREATE INDEX quarantine_age ON quarantine (at);
CREATE INDEX quarantine_of ON quarantine (caller, seq);
CREATE INDEX auth_flows_open ON auth_flows (caller, person) WHERE state = 'open';
CREATE INDEX auth_flows_expected ON auth_flows (expected) WHERE expected IS NOT NULL;
CREATE INDEX auth_flows_age ON auth_flows (expires_at);
CREATE INDEX auth_flows_of ON auth_flows (caller, person);
CREATE INDEX account_shares_with ON account_shares (with_person, capability);
CREATE UNIQUE INDEX flow_canonical ON flow_versions (vault, flow_id) WHERE state = 'approved';
CREATE INDEX flow_states ON flow_versions (vault, state, flow_id, version);
CREATE INDEX flow_questions ON flow_versions (approval) WHERE approval IS NOT NULL;
CREATE INDEX flow_grants_over ON flow_grants (expires_at);
CREATE INDEX flow_grants_listed ON flow_grants (vault, flow_id, grant_id);
CREATE INDEX flow_grants_agent ON flow_grants (issued_by, actor);
CREATE INDEX flow_grants_given ON flow_grants (issued_by) WHERE revoked_at IS NULL;
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
CREATE INDEX standing_approvals_in_force ON standing_approvals (caller, provider, action) WHERE ended_at IS NULL;
CREATE INDEX temporary_grants_of_group ON temporary_grants (group_folder, provider);
CREATE INDEX temporary_grants_expiry ON temporary_grants (expires_at);
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('grants',3);
COMMIT;
PRAGMA user_version = 7;
