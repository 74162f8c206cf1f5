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
