-- The tier state of one store's files, written by its stager as the job's user, in the store's folder of its last
-- tier. Root never opens it. A row says `staged` after the file is in place, never before.
CREATE TABLE file (
    id       INTEGER PRIMARY KEY,    -- file id: its number in the manifest
    path     BLOB    NOT NULL,       -- relative to the data set's root
    size     INTEGER NOT NULL,       -- bytes
    mtime_ns INTEGER NOT NULL,
    state    TEXT    NOT NULL,       -- source, staged, failed, retired
    tier     TEXT                    -- where it is staged
);
