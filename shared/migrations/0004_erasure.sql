-- min-reader: 1
-- What an erasure has to find: soft bounces in a row belong to a user, and dead letters that name none go within a day.

-- The recipient of the last bounced message; null only where a program of the previous release counted. The counts so far name
-- nobody and start again.
DELETE FROM bounce_streak;
ALTER TABLE bounce_streak ADD COLUMN user_id uuid;
CREATE INDEX bounce_streak_user ON bounce_streak (project_id, user_id);

CREATE INDEX dead_item_unnamed ON dead_item (died_at) WHERE user_id IS NULL;
