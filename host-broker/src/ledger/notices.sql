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

-- What waits when this version comes.
INSERT INTO notice_events SELECT id, 'asked', state FROM approvals WHERE state = 'waiting';

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
