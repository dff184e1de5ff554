-- The node's ledger: who holds what on the tiers. Root's alone (0600 in a 0700 folder).

-- One row a store: the local copies of one data set for one user. It goes when its last lease ends.
CREATE TABLE store (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    uid          INTEGER NOT NULL,
    gid          INTEGER NOT NULL,
    name         TEXT    NOT NULL,   -- as the job names the data set
    source       BLOB    NOT NULL,
    boot_id      TEXT    NOT NULL,
    created_at   INTEGER NOT NULL,   -- seconds since the epoch
    stager_pid   INTEGER NOT NULL DEFAULT 0,
    stager_start INTEGER NOT NULL DEFAULT 0,  -- field 22 of /proc/PID/stat: tells a reused pid
    config       BLOB    NOT NULL DEFAULT x'',  -- what the stager is started with (core/fields.h), to restart it
    UNIQUE (uid, source)
);

-- Space on one tier for one store, reserved before a byte is written.
CREATE TABLE reservation (
    store_id INTEGER NOT NULL REFERENCES store (id) ON DELETE CASCADE,
    position INTEGER NOT NULL,       -- 0 = fastest
    tier     TEXT    NOT NULL,
    path     BLOB    NOT NULL,       -- the tier's folder; the store is path/stores/ID
    tmpfs    INTEGER NOT NULL,
    bytes    INTEGER NOT NULL CHECK (bytes >= 0),
    PRIMARY KEY (store_id, tier)
);
CREATE INDEX reservation_path ON reservation (path);

-- What was renamed away and is not deleted yet; counts as used until it is.
CREATE TABLE trash (
    path  BLOB PRIMARY KEY,          -- the folder in the tier's trash
    tier  BLOB    NOT NULL,          -- the tier's folder
    tmpfs INTEGER NOT NULL,
    bytes INTEGER NOT NULL
);

-- One row a session, ended ones too. The counters are those of core/shm.h, in its order.
CREATE TABLE lease (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    store_id     INTEGER,            -- NULL when nothing was staged
    job          TEXT    NOT NULL,
    restart      INTEGER NOT NULL,
    session      INTEGER NOT NULL,   -- its number in RUN/jobs/JOB
    node         TEXT    NOT NULL,
    partition    TEXT    NOT NULL,
    uid          INTEGER NOT NULL,
    name         TEXT    NOT NULL,
    boot_id      TEXT    NOT NULL,
    attached_at  INTEGER NOT NULL,
    ended_at     INTEGER,            -- NULL while it lives
    outcome      TEXT    NOT NULL,   -- attached, refused, failed, detached, requeued, rebooted, lost
    note         TEXT    NOT NULL DEFAULT '',
    predictor    TEXT    NOT NULL DEFAULT '',
    files_total     INTEGER NOT NULL DEFAULT 0,
    bytes_total     INTEGER NOT NULL DEFAULT 0,
    files_planned   INTEGER NOT NULL DEFAULT 0,
    bytes_planned   INTEGER NOT NULL DEFAULT 0,
    files_staged    INTEGER NOT NULL DEFAULT 0,
    bytes_staged    INTEGER NOT NULL DEFAULT 0,
    files_failed    INTEGER NOT NULL DEFAULT 0,
    opens_local     INTEGER NOT NULL DEFAULT 0,
    opens_source    INTEGER NOT NULL DEFAULT 0,
    bytes_local     INTEGER NOT NULL DEFAULT 0,
    bytes_source    INTEGER NOT NULL DEFAULT 0,
    source_reads    INTEGER NOT NULL DEFAULT 0,
    prediction_hits INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX lease_job ON lease (job) WHERE ended_at IS NULL;
CREATE INDEX lease_store ON lease (store_id) WHERE ended_at IS NULL;
