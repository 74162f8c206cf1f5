-- The cost of one sandbox for the others.

-- Replies to a request are found by its name, however often the name was used.
CREATE INDEX replies_of ON replies (caller, request_id, seq);

-- The bytes of stored replies of each caller, so that no query adds them up.
CREATE TABLE reply_bytes (
    caller TEXT    PRIMARY KEY,
    bytes  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO reply_bytes SELECT caller, sum(length(reply)) FROM replies GROUP BY caller;
CREATE TRIGGER reply_bytes_more AFTER INSERT ON replies BEGIN
    INSERT INTO reply_bytes VALUES (NEW.caller, length(NEW.reply)) ON CONFLICT DO UPDATE SET bytes = bytes + excluded.bytes;
END;
CREATE TRIGGER reply_bytes_less AFTER DELETE ON replies BEGIN
    UPDATE reply_bytes SET bytes = bytes - length(OLD.reply) WHERE caller = OLD.caller;
END;
CREATE TRIGGER reply_bytes_other AFTER UPDATE OF reply ON replies BEGIN
    UPDATE reply_bytes SET bytes = bytes + length(NEW.reply) - length(OLD.reply) WHERE caller = NEW.caller;
END;
-- The oldest replies of a caller go first.
CREATE INDEX replies_by ON replies (caller, seq);

-- A call without a person may match the key of any person.
CREATE INDEX idempotency_key ON idempotency (caller, account, provider, action, key);

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

-- Rates that are over are found by their time.
CREATE INDEX buckets_over ON buckets (empty_at);

-- The recent notices of a channel are counted by their due time.
CREATE INDEX notices_lately ON notices (channel, due_at);

-- Exposures and used-up limits of external agents count for the agent, however many grants it has. The issuer of the
-- grants and the actor identify an agent.
CREATE INDEX flow_grants_agent ON flow_grants (issued_by, actor);
INSERT INTO exposures
SELECT 'agent:' || substr(lower(hex(actor)), 1, 32), provider, action, exposes, seq, at
FROM exposures JOIN flow_grants ON caller = 'outside:' || grant_id WHERE true
ON CONFLICT (caller, provider, action) DO UPDATE SET exposes = exposes | excluded.exposes;
CREATE TRIGGER flow_grants_last_of_agent AFTER DELETE ON flow_grants
WHEN NOT EXISTS (SELECT 1 FROM flow_grants WHERE issued_by = OLD.issued_by AND actor = OLD.actor)
BEGIN
    DELETE FROM exposures WHERE caller = 'agent:' || substr(lower(hex(OLD.actor)), 1, 32);
    DELETE FROM buckets WHERE caller = 'agent:' || substr(lower(hex(OLD.actor)), 1, 32);
    DELETE FROM quotas WHERE caller = 'agent:' || substr(lower(hex(OLD.actor)), 1, 32);
END;

-- Few questions are open; the number of closed ones only grows.
CREATE INDEX approvals_of_caller ON approvals (caller, id) WHERE state <> 'closed';
CREATE INDEX approvals_not_closed ON approvals (id) WHERE state <> 'closed';
-- Quarantined results, begun sign-ins and unknown outcomes of each caller.
CREATE INDEX quarantine_of ON quarantine (caller, seq);
CREATE INDEX auth_flows_of ON auth_flows (caller, person);
CREATE INDEX unknown_outcomes_of ON unknown_outcomes (caller, request_id);
