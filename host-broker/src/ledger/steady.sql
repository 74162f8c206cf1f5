-- The steady clock: time that has passed while a daemon ran. It begins with the last row that is there.
-- From now on these columns are dated by it: idempotency.claimed_at, replies.stored_at, denials.until, chat_misses.at,
-- chat_silence.until, buckets.empty_at, breakers.open_until.
CREATE TABLE steady (
    one  INTEGER PRIMARY KEY CHECK (one = 1),
    ms   INTEGER NOT NULL,
    wall INTEGER NOT NULL             -- the machine's clock then, in milliseconds since 1970
) STRICT;
INSERT INTO steady SELECT 1, t, t FROM (SELECT coalesce((SELECT ts FROM ledger ORDER BY seq DESC LIMIT 1), 0) AS t);
