-- min-reader: 5
-- Erasures that are announced before they are carried out, so that they stop the recording of no other user.

-- The edition (`change`, topic 'person') in which the erasure was announced or, later, carried out; and whether it is yet to be
-- carried out. The defaults are for erasures that were carried out before.
ALTER TABLE erasure ADD COLUMN seq bigint NOT NULL DEFAULT 0;
ALTER TABLE erasure ADD COLUMN is_pending boolean NOT NULL DEFAULT false;
CREATE INDEX erasure_seq ON erasure (seq);
