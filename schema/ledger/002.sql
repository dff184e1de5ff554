-- A store is promised its share at once; `bytes`, what it may use now, grows to it as the trash is deleted.
ALTER TABLE reservation ADD COLUMN share    INTEGER NOT NULL DEFAULT 0;  -- bytes <= share
ALTER TABLE reservation ADD COLUMN most     INTEGER NOT NULL DEFAULT 0;  -- for all stores of the job together
ALTER TABLE reservation ADD COLUMN capacity INTEGER NOT NULL DEFAULT 0;  -- of the tier, when the store was made
ALTER TABLE store       ADD COLUMN job      TEXT    NOT NULL DEFAULT ''; -- which made it
ALTER TABLE trash       ADD COLUMN stuck    INTEGER NOT NULL DEFAULT 0;  -- it could not be deleted: nobody waits for it
UPDATE reservation SET share = bytes, most = bytes;
