-- The host of a fleet whose rows this database copies. Absent in a home without a fleet.
CREATE TABLE fleet (
    one    INTEGER PRIMARY KEY CHECK (one = 1),
    host   TEXT    NOT NULL,
    holder TEXT    NOT NULL,         -- the name of this home in the fleet's database
    place  TEXT    NOT NULL,         -- the boot of the machine and the lock file; a copied home has another place
    writer TEXT    NOT NULL,         -- the home that has written the last batch
    batch  INTEGER NOT NULL          -- the last batch that the copy contains
) STRICT;

-- Every row of a host has a key, by which the fleet's database knows it.
CREATE TABLE keyed_chat_misses (
    id     INTEGER PRIMARY KEY,
    sender TEXT    NOT NULL,
    at     INTEGER NOT NULL
) STRICT;
INSERT INTO keyed_chat_misses (sender, at) SELECT sender, at FROM chat_misses;
DROP TABLE chat_misses;
ALTER TABLE keyed_chat_misses RENAME TO chat_misses;
CREATE INDEX chat_misses_of ON chat_misses (sender, at);
