-- Grants that a person gave for a while, at the group's request. They stand beside the group's own grant.
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

CREATE INDEX temporary_grants_of_group ON temporary_grants (group_folder, provider);
CREATE INDEX temporary_grants_expiry ON temporary_grants (expires_at);

-- The access that a person gave with the answer, if it is not the requested one.
ALTER TABLE approvals ADD COLUMN access TEXT;
