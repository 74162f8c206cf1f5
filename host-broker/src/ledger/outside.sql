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
-- How many there are, so that nobody has to count them.
CREATE TABLE flow_grants_count (
    n INTEGER NOT NULL
) STRICT;
INSERT INTO flow_grants_count VALUES (0);
CREATE TRIGGER flow_grants_more AFTER INSERT ON flow_grants BEGIN UPDATE flow_grants_count SET n = n + 1; END;
CREATE TRIGGER flow_grants_less AFTER DELETE ON flow_grants BEGIN
    UPDATE flow_grants_count SET n = n - 1;
    -- With an access goes what was counted of its calls.
    DELETE FROM exposures WHERE caller = 'outside:' || OLD.grant_id;
    DELETE FROM buckets WHERE caller = 'outside:' || OLD.grant_id;
    DELETE FROM quotas WHERE caller = 'outside:' || OLD.grant_id;
    DELETE FROM breakers WHERE caller = 'outside:' || OLD.grant_id;
END;
CREATE INDEX flow_grants_over ON flow_grants (expires_at);
CREATE INDEX flow_grants_listed ON flow_grants (vault, flow_id, grant_id);
-- The same view, with the calls of agents outside: their column says which access called.
DROP VIEW ext_calls;
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
