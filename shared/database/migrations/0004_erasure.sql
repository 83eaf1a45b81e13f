-- min-reader: 4
-- What an erasure has to find: soft bounces in a row belong to a user, and dead letters that name none go within a day.

-- The recipient of the last bounced message. The counts so far name nobody and start again.
DELETE FROM bounce_streak;
ALTER TABLE bounce_streak ADD COLUMN user_id uuid NOT NULL;
CREATE INDEX bounce_streak_user ON bounce_streak (project_id, user_id);

CREATE INDEX dead_item_unnamed ON dead_item (died_at) WHERE user_id IS NULL;
