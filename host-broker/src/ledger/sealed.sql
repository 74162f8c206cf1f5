-- The request that a person is asked about, as it will be sent.
ALTER TABLE approvals ADD COLUMN sealed TEXT;  -- JSON; gone once it is closed

-- The agent's name for a question is its row.
CREATE INDEX approvals_named ON approvals (asked_seq);
