-- The last checkpoint. A start reads only the rows after it to continue the tree.
CREATE TABLE checkpoint (
    one   INTEGER PRIMARY KEY CHECK (one = 1),
    seq   INTEGER NOT NULL,          -- the row of the checkpoint
    peaks BLOB    NOT NULL,          -- the roots of the complete subtrees over the rows before it, largest first
    key   TEXT    NOT NULL           -- the public key that signed it
) STRICT;
