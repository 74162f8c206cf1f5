-- The policy that this host has published last for the hosts of its fleet.
CREATE TABLE publication (
    one      INTEGER PRIMARY KEY CHECK (one = 1),
    number   INTEGER NOT NULL,       -- from 1
    digest   BLOB    NOT NULL,       -- of the policy
    document TEXT    NOT NULL        -- the policy, signed by the host
) STRICT;
