-- min-reader: 1
-- Erasures that are announced before they are carried out, so that they stop the recording of no other user.

-- The edition (`change`, topic 'person') in which the erasure was announced or, later, carried out; and whether it is yet to be
-- carried out. The defaults are for programs of before, whose erasures move the edition on without a row of it.
ALTER TABLE erasure ADD COLUMN seq bigint NOT NULL DEFAULT 0;
ALTER TABLE erasure ADD COLUMN is_pending boolean NOT NULL DEFAULT false;
CREATE INDEX erasure_seq ON erasure (seq);
