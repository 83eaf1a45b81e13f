-- min-reader: 1
-- Soft bounces in a row belong to a user, so that an erasure finds them.

-- The recipient of the last bounced message; null only where a program of the previous release counted. The counts so far name
-- nobody and start again.
DELETE FROM bounce_streak;
ALTER TABLE bounce_streak ADD COLUMN user_id uuid;
CREATE INDEX bounce_streak_user ON bounce_streak (project_id, user_id);
