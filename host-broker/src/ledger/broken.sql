-- Rows were found to be missing or changed. No call is admitted before a verification of all rows finds none.
CREATE TABLE broken_evidence (
    one   INTEGER PRIMARY KEY CHECK (one = 1),
    row   INTEGER NOT NULL,          -- the first row that was wrong
    error TEXT    NOT NULL
) STRICT;
