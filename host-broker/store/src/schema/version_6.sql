-- The conversation of each group whose exposure ends with a conversation.
CREATE TABLE conversations (
    caller TEXT PRIMARY KEY,
    id     TEXT NOT NULL              -- the request that began it
) STRICT, WITHOUT ROWID;
