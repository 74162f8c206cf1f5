-- All agents of one issuer that is no person share their exposure, because such an issuer names agents as it wants.
INSERT INTO exposures
SELECT 'issuer:' || issued_by, provider, action, exposes, seq, at
FROM exposures JOIN flow_grants ON caller = 'agent:' || substr(lower(hex(actor)), 1, 32)
WHERE issued_by NOT LIKE 'person:%'
ON CONFLICT (caller, provider, action) DO UPDATE SET exposes = exposes | excluded.exposes;
DELETE FROM exposures WHERE caller IN (
    SELECT 'agent:' || substr(lower(hex(actor)), 1, 32) FROM flow_grants WHERE issued_by NOT LIKE 'person:%');

-- Exposure outlives the accesses: an agent that gets a new access still knows what it has read.
DROP TRIGGER flow_grants_last_of_agent;
CREATE TRIGGER flow_grants_last_of_agent AFTER DELETE ON flow_grants
WHEN NOT EXISTS (SELECT 1 FROM flow_grants WHERE issued_by = OLD.issued_by AND actor = OLD.actor)
BEGIN
    DELETE FROM buckets WHERE caller = 'agent:' || substr(lower(hex(OLD.actor)), 1, 32);
    DELETE FROM quotas WHERE caller = 'agent:' || substr(lower(hex(OLD.actor)), 1, 32);
END;
