CREATE SCHEMA IF NOT EXISTS host_broker;
CREATE TABLE IF NOT EXISTS host_broker.version (
    one     integer PRIMARY KEY CHECK (one = 1),
    version bigint NOT NULL
);
-- Tables before version 100 have bodies in plain text, and other types.
DO $$ BEGIN
    IF EXISTS (SELECT FROM host_broker.version WHERE version < 100) THEN
        RAISE EXCEPTION 'these tables are of a version before the first release; make a new database, and give each host another name';
    END IF;
END $$;
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
    hash  bytea  NOT NULL DEFAULT '', -- and its hash
    key_check bytea NOT NULL DEFAULT '' -- an empty body that the key of the host encrypted
);
-- The time of the last sign of its daemon: when the lease was raised. No role can write it.
ALTER TABLE host_broker.hosts ADD COLUMN IF NOT EXISTS seen_at timestamptz;
-- Whether its home has left the database. No daemon serves the host then.
ALTER TABLE host_broker.hosts ADD COLUMN IF NOT EXISTS has_left boolean NOT NULL DEFAULT false;
-- The host whose policy it uses, the number of that publication, and the reason why it cannot use a later one.
ALTER TABLE host_broker.hosts ADD COLUMN IF NOT EXISTS follows text NOT NULL DEFAULT '';
ALTER TABLE host_broker.hosts ADD COLUMN IF NOT EXISTS publication bigint NOT NULL DEFAULT 0;
ALTER TABLE host_broker.hosts ADD COLUMN IF NOT EXISTS publication_fault text NOT NULL DEFAULT '';
CREATE OR REPLACE FUNCTION host_broker.mark_seen() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    NEW.seen_at := clock_timestamp();
    RETURN NEW;
END $$;
CREATE OR REPLACE TRIGGER mark_seen BEFORE UPDATE OF lease ON host_broker.hosts
    FOR EACH ROW EXECUTE FUNCTION host_broker.mark_seen();
ALTER TABLE host_broker.hosts ENABLE ROW LEVEL SECURITY;
DROP POLICY IF EXISTS seen ON host_broker.hosts;
CREATE POLICY seen ON host_broker.hosts FOR SELECT USING (true);
DROP POLICY IF EXISTS own ON host_broker.hosts;
CREATE POLICY own ON host_broker.hosts FOR UPDATE USING (role = session_user::text);
-- The commands that hosts send each other, with the replies. Both are signed, so the database cannot make any.
CREATE TABLE IF NOT EXISTS host_broker.commands (
    host    text COLLATE "C" NOT NULL,  -- executes the command
    sender  text COLLATE "C" NOT NULL,
    id      text COLLATE "C" NOT NULL,
    command text NOT NULL CHECK (octet_length(command) <= 131072),
    taken   boolean NOT NULL DEFAULT false,  -- the host may have executed it
    reply   text CHECK (octet_length(reply) <= 8388608),
    sent_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (host, sender, id)
);
ALTER TABLE host_broker.commands ENABLE ROW LEVEL SECURITY;
CREATE OR REPLACE FUNCTION host_broker.own_host() RETURNS text LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
    AS 'SELECT host FROM host_broker.hosts WHERE role = session_user::text';
DROP POLICY IF EXISTS seen ON host_broker.commands;
CREATE POLICY seen ON host_broker.commands FOR SELECT USING ((SELECT host_broker.own_host()) IN (host, sender));
DROP POLICY IF EXISTS sent ON host_broker.commands;
CREATE POLICY sent ON host_broker.commands FOR INSERT WITH CHECK (sender = (SELECT host_broker.own_host()));
DROP POLICY IF EXISTS executed ON host_broker.commands;
CREATE POLICY executed ON host_broker.commands FOR UPDATE USING (host = (SELECT host_broker.own_host()));
DROP POLICY IF EXISTS removed ON host_broker.commands;
CREATE POLICY removed ON host_broker.commands FOR DELETE USING ((SELECT host_broker.own_host()) IN (host, sender));
-- The use of the quotas that all hosts share. Only the function `charge` writes it.
CREATE TABLE IF NOT EXISTS host_broker.shared_quotas (
    provider text COLLATE "C" NOT NULL CHECK (octet_length(provider) <= 128),
    scope    text COLLATE "C" NOT NULL CHECK (octet_length(scope) <= 160),  -- a level, or amount:<action>
    day      date   NOT NULL,            -- UTC, by the clock of the server
    used     bigint NOT NULL,            -- calls; of an amount millionths
    PRIMARY KEY (provider, scope)
);
