-- A data set's manifest: its files in manifest order, written once and read by every node.
CREATE TABLE file (
    id       INTEGER PRIMARY KEY,    -- file id, from 0 without a gap
    path     BLOB    NOT NULL,       -- relative to the data set's root
    size     INTEGER NOT NULL,       -- bytes
    mtime_ns INTEGER NOT NULL
);
-- Symbolic links: no file id, made on the tiers beside the files.
CREATE TABLE link (
    path   BLOB PRIMARY KEY,
    target BLOB NOT NULL
);
