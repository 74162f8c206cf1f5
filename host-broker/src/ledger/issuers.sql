-- How many accesses each has given: nobody has to count them, and none takes the places of all.
CREATE TABLE flow_grants_by (
    issued_by TEXT    PRIMARY KEY,
    n         INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO flow_grants_by SELECT issued_by, count(*) FROM flow_grants GROUP BY issued_by;
CREATE TRIGGER flow_grants_more_by AFTER INSERT ON flow_grants BEGIN
    INSERT INTO flow_grants_by VALUES (NEW.issued_by, 1) ON CONFLICT DO UPDATE SET n = n + 1;
END;
CREATE TRIGGER flow_grants_less_by AFTER DELETE ON flow_grants BEGIN
    UPDATE flow_grants_by SET n = n - 1 WHERE issued_by = OLD.issued_by;
    DELETE FROM flow_grants_by WHERE issued_by = OLD.issued_by AND n = 0;
END;
-- What ends when the one who gave it does.
CREATE INDEX flow_grants_given ON flow_grants (issued_by) WHERE revoked_at IS NULL;
