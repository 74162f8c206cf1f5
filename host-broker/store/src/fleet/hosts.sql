CREATE SCHEMA IF NOT EXISTS host_broker;
CREATE TABLE IF NOT EXISTS host_broker.version (
    one     integer PRIMARY KEY CHECK (one = 1),
    version bigint NOT NULL
);
-- The hosts. Only the daemon that knows the fence of a host writes its rows.
CREATE TABLE IF NOT EXISTS host_broker.hosts (
    host  text COLLATE "C" PRIMARY KEY,
    role  text   NOT NULL UNIQUE,
    fence bigint NOT NULL DEFAULT 0,  -- raised by each daemon that takes the host over
    holder text  NOT NULL DEFAULT '', -- the home whose daemon serves the host; empty: none
    writer text  NOT NULL DEFAULT '', -- the home that has written the last batch
    lease bigint NOT NULL DEFAULT 0,  -- raised while a daemon serves the host
    batch bigint NOT NULL DEFAULT 0,  -- the last batch
    seq   bigint NOT NULL DEFAULT 0,  -- the last row of the ledger
    hash  bytea  NOT NULL DEFAULT ''  -- and its hash
);
ALTER TABLE host_broker.hosts ENABLE ROW LEVEL SECURITY;
DROP POLICY IF EXISTS seen ON host_broker.hosts;
CREATE POLICY seen ON host_broker.hosts FOR SELECT USING (true);
DROP POLICY IF EXISTS own ON host_broker.hosts;
CREATE POLICY own ON host_broker.hosts FOR UPDATE USING (role = session_user::text);
