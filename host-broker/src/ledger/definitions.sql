-- The questions about what a server says of its tools, which are looked up with each look at it.
CREATE INDEX approvals_definitions ON approvals (provider, id) WHERE kind = 'definition';
