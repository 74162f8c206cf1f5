-- The changes that can be undone, by the caller whose oldest ones are forgotten.
CREATE INDEX proposals_undoable ON proposals (caller, approval)
WHERE applied_at IS NOT NULL AND changes IS NOT NULL;
