CREATE OR REPLACE FUNCTION host_broker.append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the ledger is append-only' USING ERRCODE = 'HB002';
END $$;
CREATE OR REPLACE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON host_broker.ledger
    FOR EACH STATEMENT EXECUTE FUNCTION host_broker.append_only();

-- Returns the next fence: a count, and 32 random bits. So two servers that were separated never have the same one.
CREATE OR REPLACE FUNCTION host_broker.raised(fence bigint) RETURNS bigint LANGUAGE sql VOLATILE
    SET search_path = pg_catalog, pg_temp
    AS 'SELECT (((fence >> 32) + 1) << 32) + floor(random() * 4294967296)::bigint';

-- Begins a batch. Later statements of the transaction compare the setting, which ends with the transaction.
DROP FUNCTION IF EXISTS host_broker.enter;
CREATE FUNCTION host_broker.enter(
    host_ text, version_ bigint, fence_ bigint, batch_ bigint, seq_ bigint, hash_ bytea, standby_ boolean
) RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM host_broker.version WHERE one = 1 AND version = version_) THEN
        RAISE EXCEPTION 'the tables are those of another version' USING ERRCODE = 'HB003';
    END IF;
    -- An administrator can change these settings while connections are open.
    IF current_setting('fsync') <> 'on' OR current_setting('full_page_writes') <> 'on' THEN
        RAISE EXCEPTION 'fsync or full_page_writes is off now' USING ERRCODE = 'HB004';
    END IF;
    IF standby_ AND current_setting('synchronous_standby_names') = '' THEN
        RAISE EXCEPTION 'there is no synchronous standby now (synchronous_standby_names)' USING ERRCODE = 'HB005';
    END IF;
    UPDATE host_broker.hosts SET batch = batch_, writer = holder, seq = seq_, hash = hash_, lease = lease + 1
        WHERE host = host_ AND fence = fence_ AND batch = batch_ - 1;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'another daemon serves this host' USING ERRCODE = 'HB001';
    END IF;
    PERFORM set_config('host_broker.batch', host_ || '/' || batch_, true);
END $$;

-- Charges a quota that all hosts share, in the transaction of a batch. Returns the use with the charge, and the seconds
-- until the quota begins again. It runs with the rights of its owner, so a host can only add to the use. `wait_ms_` bounds
-- the time for which all charges of a transaction together wait for other hosts.
DROP FUNCTION IF EXISTS host_broker.charge;
CREATE FUNCTION host_broker.charge(
    host_ text, batch_ bigint, provider_ text, scope_ text, uses_ bigint, most_ bigint, wait_ms_ bigint,
    OUT used bigint, OUT left_s bigint
) LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    largest CONSTANT bigint := 1000000000000000000;
    ms bigint := floor(1000 * extract(epoch FROM clock_timestamp()));
    until_ bigint := nullif(current_setting('host_broker.charge_until', true), '')::bigint;
    now_ timestamp;
    day_ date;
BEGIN
    IF current_setting('host_broker.batch', true) IS DISTINCT FROM host_ || '/' || batch_ THEN
        RAISE EXCEPTION 'no batch has begun' USING ERRCODE = 'HB001';
    END IF;
    IF (uses_ BETWEEN 1 AND largest AND most_ BETWEEN 0 AND largest AND wait_ms_ BETWEEN 1 AND 8000) IS NOT TRUE THEN
        RAISE EXCEPTION 'this is no charge' USING ERRCODE = '22023';
    END IF;
    IF until_ IS NULL THEN
        until_ := ms + wait_ms_;
        PERFORM set_config('host_broker.charge_until', until_::text, true);
    END IF;
    PERFORM set_config('lock_timeout', least(greatest(until_ - ms, 1), wait_ms_) || 'ms', true);
    BEGIN
        -- One lock, so that hosts wait in a queue and only once.
        PERFORM pg_advisory_xact_lock(hashtextextended('host_broker ' || provider_ || ' ' || scope_, 0));
        -- Not before, because a day can begin during the wait. If the clock was set back, the later day goes on.
        now_ := clock_timestamp() AT TIME ZONE 'UTC';
        -- A difference, because a sum can be too large.
        INSERT INTO host_broker.shared_quotas AS q SELECT provider_, scope_, now_::date, uses_ WHERE uses_ <= most_
            ON CONFLICT (provider, scope) DO UPDATE SET
                used = EXCLUDED.used + CASE WHEN q.day >= EXCLUDED.day THEN q.used ELSE 0 END,
                day = greatest(q.day, EXCLUDED.day)
            WHERE EXCLUDED.used <= most_ - CASE WHEN q.day >= EXCLUDED.day THEN q.used ELSE 0 END
            RETURNING q.used, q.day INTO used, day_;
    EXCEPTION WHEN lock_not_available THEN
        RAISE EXCEPTION 'another host holds the shared quota' USING ERRCODE = 'HB007',
            DETAIL = format('0 0 %s %s', provider_, scope_);
    END;
    IF used IS NULL THEN
        SELECT q.used, q.day INTO used, day_ FROM host_broker.shared_quotas AS q
            WHERE q.provider = provider_ AND q.scope = scope_ AND q.day >= now_::date;
        left_s := ceil(extract(epoch FROM (coalesce(day_, now_::date) + 1)::timestamp - now_));
        RAISE EXCEPTION 'the shared quota does not permit this' USING ERRCODE = 'HB006',
            DETAIL = format('%s %s %s %s', coalesce(used, 0), left_s, provider_, scope_);
    END IF;
    left_s := ceil(extract(epoch FROM (day_ + 1)::timestamp - now_));
END $$;

-- Returns the lock of the policy that a host publishes.
CREATE OR REPLACE FUNCTION host_broker.publication_lock(host_ text) RETURNS bigint LANGUAGE sql IMMUTABLE
    SET search_path = pg_catalog, pg_temp
    AS 'SELECT hashtextextended(''host_broker.publication '' || host_, 0)';

-- Holds the transaction to a publication of a host: it commits only while no other publication is in force.
DROP FUNCTION IF EXISTS host_broker.hold_to;
CREATE FUNCTION host_broker.hold_to(host_ text, number_ bigint, digest_ bytea) RETURNS void LANGUAGE plpgsql
    SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF NOT pg_try_advisory_xact_lock_shared(host_broker.publication_lock(host_)) THEN
        -- The host publishes at this moment. A refusal can be repeated, and other events of the batch wait, too.
        PERFORM set_config('lock_timeout', '1s', true);
        BEGIN
            PERFORM pg_advisory_xact_lock_shared(host_broker.publication_lock(host_));
        EXCEPTION WHEN lock_not_available THEN
            RAISE EXCEPTION 'the host publishes at this moment' USING ERRCODE = 'HB008';
        END;
    END IF;
    IF NOT EXISTS (SELECT FROM host_broker.publication WHERE host = host_ AND number = number_ AND digest = digest_) THEN
        RAISE EXCEPTION 'another publication is in force' USING ERRCODE = 'HB008';
    END IF;
END $$;

-- A host that publishes waits for the transactions that are held to its last publication, and wakes all hosts. Such a
-- transaction may wait for a shared quota, and then for a standby.
CREATE OR REPLACE FUNCTION host_broker.publish() RETURNS trigger LANGUAGE plpgsql
    SET search_path = pg_catalog, pg_temp SET lock_timeout = '5s' AS $$
BEGIN
    BEGIN
        PERFORM pg_advisory_xact_lock(host_broker.publication_lock(NEW.host));
    EXCEPTION WHEN lock_not_available THEN
        RAISE EXCEPTION 'other hosts still use the former publication' USING ERRCODE = 'HB009';
    END;
    PERFORM pg_notify(left('host_broker.' || h.host, 63), '') FROM host_broker.hosts AS h;
    RETURN NEW;
END $$;
CREATE OR REPLACE TRIGGER publish BEFORE INSERT OR UPDATE ON host_broker.publication
    FOR EACH ROW EXECUTE FUNCTION host_broker.publish();
-- Every host reads what another one publishes.
DROP POLICY IF EXISTS seen ON host_broker.publication;
CREATE POLICY seen ON host_broker.publication FOR SELECT USING (true);

-- Adds a host, whose broker connects with the role, or gives it another role.
CREATE OR REPLACE FUNCTION host_broker.admit(host_ text, role_ text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    former text := (SELECT role FROM host_broker.hosts WHERE host = host_ AND role <> role_);
BEGIN
    IF former IS NOT NULL AND EXISTS (SELECT FROM pg_roles WHERE rolname = former) THEN
        EXECUTE format('REVOKE ALL ON ALL TABLES IN SCHEMA host_broker FROM %I', former);
        EXECUTE format('REVOKE ALL ON ALL FUNCTIONS IN SCHEMA host_broker FROM %I', former);
        EXECUTE format('REVOKE ALL ON SCHEMA host_broker FROM %I', former);
    END IF;
    INSERT INTO host_broker.hosts (host, role) VALUES (host_, role_) ON CONFLICT (host) DO UPDATE SET role = EXCLUDED.role;
    EXECUTE format('GRANT USAGE ON SCHEMA host_broker TO %I', role_);
    EXECUTE format('GRANT SELECT ON host_broker.version, host_broker.hosts, host_broker.shared_quotas TO %I', role_);
    EXECUTE format('GRANT UPDATE (fence, holder, writer, lease, batch, seq, hash, key_check, has_left, follows, publication, publication_fault) ON host_broker.hosts TO %I', role_);
    EXECUTE format('GRANT SELECT, INSERT ON LEDGER_TABLES TO %I', role_);
    EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON STATE_TABLES TO %I', role_);
    EXECUTE format('GRANT SELECT, DELETE ON host_broker.commands TO %I', role_);
    EXECUTE format('GRANT INSERT (host, sender, id, command) ON host_broker.commands TO %I', role_);
    EXECUTE format('GRANT UPDATE (taken, reply) ON host_broker.commands TO %I', role_);
    EXECUTE format('GRANT EXECUTE ON FUNCTION host_broker.enter, host_broker.charge, host_broker.hold_to, host_broker.publication_lock, host_broker.own_host, host_broker.raised TO %I', role_);
END $$;
REVOKE ALL ON FUNCTION host_broker.admit, host_broker.enter, host_broker.charge, host_broker.hold_to,
    host_broker.publication_lock, host_broker.publish, host_broker.own_host, host_broker.raised FROM PUBLIC;
