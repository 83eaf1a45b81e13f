-- min-reader: 6
-- The queue of delivery becomes a table of its own, and the ledger keeps outcomes only. Stop the programs, migrate, start them again.
-- Messages that wait become chunks that wait, and claimed ones become chunks that are being sent until the lease ends. Recipients of
-- campaigns whose messages were not attempted yet lose their rows: these are written again when they are sent.

-- What is still to be sent, in chunks of up to 500 members of one project, channel and lane. Members are messages or, where
-- is_audience, users whose messages are written when they are sent. Each queued message is an undone member of exactly one chunk. The
-- messages of a chunk lie in one month, so that a transaction locks few partitions.
CREATE TABLE send_chunk (
    project_id  uuid NOT NULL,
    id          uuid NOT NULL,                                             -- also the fence of settling: a chunk whose lease ended is replaced
    channel     text NOT NULL CHECK (channel IN ('EMAIL', 'PUSH', 'IN_APP', 'SMS')),
    lane        text NOT NULL CHECK (lane IN ('direct', 'automation', 'campaign')),
    members     uuid[] NOT NULL,
    done        bit varying NOT NULL,                                      -- a bit for each member: settled, or moved to another chunk
    size        integer NOT NULL,                                          -- members that were not done when it was written; settling does not reduce it
    is_audience boolean NOT NULL DEFAULT false,
    is_begun    boolean NOT NULL DEFAULT false,                            -- a worker calls the provider for its members until due_at
    is_held     boolean NOT NULL DEFAULT false,                            -- waits for the channel's settings to be changed
    due_at      timestamptz,                                               -- when it may be sent, or the lease ends; null: not released
    campaign_id uuid,
    occurrence  integer,                                                   -- of the campaign
    variant     text,                                                      -- of the members, where is_audience
    template_id uuid,                                                      -- likewise
    send_at     timestamptz,                                               -- of a campaign: it is not released before; 'infinity' until a variant has won
    created_at  timestamptz NOT NULL,
    PRIMARY KEY (project_id, id)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.0, autovacuum_vacuum_threshold = 1000,
        toast.autovacuum_vacuum_scale_factor = 0.0, toast.autovacuum_vacuum_threshold = 2000);
-- Which queues have something due; and what one queue has.
CREATE INDEX send_chunk_due ON send_chunk (due_at, project_id, channel, lane) WHERE due_at IS NOT NULL;
CREATE INDEX send_chunk_queue ON send_chunk (project_id, channel, lane, due_at) WHERE due_at IS NOT NULL;
CREATE INDEX send_chunk_campaign ON send_chunk (project_id, campaign_id, send_at) WHERE campaign_id IS NOT NULL;
CREATE INDEX send_chunk_held ON send_chunk (project_id, channel) WHERE is_held;

-- How many recipients of a sending are in each state. The lane is any of a few, so that writers seldom meet.
CREATE TABLE campaign_count (
    project_id  uuid NOT NULL,
    campaign_id uuid NOT NULL,
    occurrence  integer NOT NULL,
    variant     text NOT NULL,                                             -- '' where there is none
    status      text NOT NULL,
    lane        smallint NOT NULL,
    count       bigint NOT NULL,
    PRIMARY KEY (project_id, campaign_id, occurrence, variant, status, lane)
) WITH (fillfactor = 50);

INSERT INTO campaign_count (project_id, campaign_id, occurrence, variant, status, lane, count)
    SELECT m.project_id, m.campaign_id, m.occurrence, coalesce(m.variant, ''), m.status, 0, count(*)
    FROM message m JOIN campaign c ON c.project_id = m.project_id AND c.id = m.campaign_id AND c.occurrence = m.occurrence
    GROUP BY m.project_id, m.campaign_id, m.occurrence, coalesce(m.variant, ''), m.status;

-- Recipients whose messages were never attempted. Of a message that still has no variant, the template is the campaign's.
INSERT INTO send_chunk (project_id, id, channel, lane, members, done, size, is_audience, due_at, campaign_id, occurrence, variant,
                        template_id, send_at, created_at)
    SELECT project_id, gen_random_uuid(), channel, lane, array_agg(user_id ORDER BY id), repeat('0', count(*)::int)::varbit, count(*)::int,
           true, due_at, campaign_id, occurrence, variant, template_id, send_at, min(created_at)
    FROM (SELECT q.*, (row_number() OVER (PARTITION BY project_id, campaign_id, occurrence, variant, template_id, send_at, due_at, channel,
                 lane ORDER BY id) - 1) / 500 AS part
          FROM (SELECT m.project_id, m.id, m.user_id, m.channel, m.lane, m.campaign_id, m.occurrence, m.variant, m.template_id, m.created_at,
                       coalesce(m.send_at, m.created_at) AS send_at, CASE WHEN m.due_at IS NOT NULL THEN now() END AS due_at
                FROM message m JOIN campaign c ON c.project_id = m.project_id AND c.id = m.campaign_id AND c.occurrence = m.occurrence
                WHERE m.status = 'queued' AND m.attempt = 0 AND NOT m.claimed) AS q) AS parts
    GROUP BY project_id, campaign_id, occurrence, variant, template_id, send_at, due_at, channel, lane, part;
WITH gone AS (
    DELETE FROM message m USING campaign c
    WHERE c.project_id = m.project_id AND c.id = m.campaign_id AND c.occurrence = m.occurrence
    AND m.status = 'queued' AND m.attempt = 0 AND NOT m.claimed
    RETURNING m.project_id)
INSERT INTO message_count AS n (project_id, lane, count) SELECT project_id, 1000, -count(*) FROM gone GROUP BY project_id
    ON CONFLICT (project_id, lane) DO UPDATE SET count = n.count + excluded.count;

-- All other messages that wait, by the minute of their time. A message without a time waits for its campaign. The claims of messages
-- that receipts have moved on since are over.
INSERT INTO send_chunk (project_id, id, channel, lane, members, done, size, is_begun, is_held, due_at, campaign_id, occurrence, send_at, created_at)
    SELECT project_id, gen_random_uuid(), channel, lane, array_agg(id ORDER BY id), repeat('0', count(*)::int)::varbit, count(*)::int,
           claimed, held, CASE WHEN claimed THEN coalesce(max(due_at), now()) ELSE min(due_at) END, campaign_id, occurrence,
           CASE WHEN campaign_id IS NOT NULL THEN min(created_at) END, min(created_at)
    FROM (SELECT q.*, (row_number() OVER (PARTITION BY project_id, channel, lane, claimed, held, minute, month, campaign_id, occurrence
                 ORDER BY id) - 1) / 500 AS part
          FROM (SELECT m.*, NOT claimed AND coalesce(status_reason, '') LIKE 'channel_misconfigured%' AS held,
                       date_trunc('minute', due_at) AS minute,
                       date_trunc('month', to_timestamp(('x' || lpad(left(replace(id::text, '-', ''), 12), 16, '0'))::bit(64)::bigint / 1000.0)
                           AT TIME ZONE 'UTC') AS month
                FROM message m WHERE status = 'queued') AS q) AS parts
    GROUP BY project_id, channel, lane, claimed, held, minute, month, campaign_id, occurrence, part;

-- What was to be published for delivery: rows that are in chunks now.
DELETE FROM outbox WHERE subject LIKE '%send.%.automation' OR subject LIKE '%send.%.campaign' OR subject LIKE '%send.%.direct';

DROP INDEX message_due;
DROP INDEX message_project_due;
DROP INDEX message_campaign;
DROP INDEX message_had;
ALTER TABLE message DROP COLUMN due_at, DROP COLUMN claimed, DROP COLUMN send_at;
-- The messages of a sending: their ids hold its beginning. No index holds what changes while a message is sent, so that
-- settling is a HOT update; and partitions leave room for it on their pages.
CREATE INDEX message_campaign ON message (project_id, campaign_id, id) WHERE campaign_id IS NOT NULL;
DO $$
DECLARE
    partition regclass;
BEGIN
    FOR partition IN SELECT inhrelid::regclass FROM pg_inherits WHERE inhparent = 'message'::regclass LOOP
        EXECUTE format('ALTER TABLE %s SET (fillfactor = 33)', partition);
    END LOOP;
END $$;
