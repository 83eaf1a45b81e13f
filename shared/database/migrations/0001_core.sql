-- min-reader: 1
-- Every key starts with project_id (it is the distribution column of a distributed deployment), nothing references
-- across tables, and what grows with traffic is partitioned by id, which is time.
-- Tables without a project are small and undistributed: change, worker, ingest_partition, outbox, account, session,
-- login_attempt, clock_jump.

-- What has changed, for caches: one row a topic, moved on in the transaction of the change, so that its order is commit order.
CREATE TABLE change (
    topic text PRIMARY KEY,
    seq   bigint NOT NULL DEFAULT 0
);
INSERT INTO change (topic) VALUES ('project'), ('api_key'), ('automation'), ('template'), ('channel'), ('segment'), ('person'), ('webhook');

CREATE TABLE project (
    project_id      uuid PRIMARY KEY,
    name            text NOT NULL,
    timezone        text NOT NULL DEFAULT 'UTC',
    rate_limit      integer NOT NULL DEFAULT 1000 CHECK (rate_limit > 0),  -- requests a second
    retention_days  integer NOT NULL DEFAULT 400 CHECK (retention_days > 0),
    tracking        boolean NOT NULL DEFAULT true,                         -- of opens and clicks
    identity_verification boolean NOT NULL DEFAULT false,                  -- public keys must prove the user ids they name
    secrets         bytea NOT NULL,                                        -- sealed: webhook secrets, identity secret
    created_at      timestamptz NOT NULL,
    updated_at      timestamptz NOT NULL,
    changed_seq     bigint NOT NULL
);

-- Projects that were deleted: what was accepted for them is dropped when it comes to be applied, and their rows go in slices.
-- Remembered for as long as anything of theirs may wait anywhere.
CREATE TABLE project_removal (
    project_id uuid PRIMARY KEY,
    name       text NOT NULL,
    removed_at timestamptz NOT NULL,
    look_at    timestamptz NOT NULL                                        -- when the scheduler looks for rows of it again
);

CREATE TABLE api_key (
    project_id   uuid NOT NULL,
    id           uuid NOT NULL,
    name         text NOT NULL,
    type         text NOT NULL CHECK (type IN ('public', 'secret')),
    prefix       text NOT NULL,
    hash         bytea NOT NULL,                                           -- SHA-256 of the whole key
    created_at   timestamptz NOT NULL,
    last_used_at timestamptz,
    revoked_at   timestamptz,
    changed_seq  bigint NOT NULL,
    PRIMARY KEY (project_id, id)
);
CREATE INDEX api_key_hash ON api_key (hash);
CREATE INDEX api_key_changed ON api_key (changed_seq);

CREATE TABLE account (
    id            uuid PRIMARY KEY,
    email         text NOT NULL,
    name          text NOT NULL DEFAULT '',
    password_hash text NOT NULL,                                           -- argon2id, PHC string
    created_at    timestamptz NOT NULL,
    updated_at    timestamptz NOT NULL
);
CREATE UNIQUE INDEX account_email ON account (lower(email));

CREATE TABLE member (
    project_id uuid NOT NULL,
    account_id uuid NOT NULL,
    role       text NOT NULL CHECK (role IN ('ADMIN', 'MEMBER')),
    created_at timestamptz NOT NULL,
    PRIMARY KEY (project_id, account_id)
);
CREATE INDEX member_account ON member (account_id);

CREATE TABLE invite (
    project_id  uuid NOT NULL,
    id          uuid NOT NULL,
    email       text NOT NULL,
    role        text NOT NULL CHECK (role IN ('ADMIN', 'MEMBER')),
    token_hash  bytea NOT NULL,                                            -- SHA-256 of the token in the link
    invited_by  uuid NOT NULL,
    created_at  timestamptz NOT NULL,
    expires_at  timestamptz NOT NULL,
    accepted_at timestamptz,
    revoked_at  timestamptz,
    mail_status  text NOT NULL DEFAULT 'none' CHECK (mail_status IN ('none', 'queued', 'sent', 'failed')),
    mail_due_at  timestamptz,                                              -- when delivery has to look at it
    mail_attempt integer NOT NULL DEFAULT 0,                               -- claims so far; the fence of settling
    sealed_link  bytea,                                                    -- sealed, and only until it was mailed
    PRIMARY KEY (project_id, id)
);
CREATE INDEX invite_mail ON invite (mail_due_at) WHERE mail_due_at IS NOT NULL;
CREATE INDEX invite_token ON invite (token_hash);
CREATE INDEX invite_open ON invite (project_id, lower(email)) WHERE accepted_at IS NULL AND revoked_at IS NULL;

-- Somebody who is logged in.
CREATE TABLE session (
    hash       bytea PRIMARY KEY,                                          -- SHA-256 of the cookie's value
    account_id uuid NOT NULL,
    created_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL                                        -- moves on with use, up to a bound
);
CREATE INDEX session_account ON session (account_id);
CREATE INDEX session_expires ON session (expires_at);

-- Wrong passwords of late. By a hash of the address, so that one without an account is counted like any other.
CREATE TABLE login_attempt (
    address_hash bytea PRIMARY KEY,
    failed_at    timestamptz[] NOT NULL,
    expires_at   timestamptz NOT NULL                                      -- when the newest no longer counts
);
CREATE INDEX login_attempt_expires ON login_attempt (expires_at);

-- Who changed what, written in the transaction of the change.
CREATE TABLE audit_log (
    project_id    uuid NOT NULL,
    id            uuid NOT NULL,
    actor_type    text NOT NULL CHECK (actor_type IN ('account', 'api_key', 'operator')),
    actor_id      uuid,
    actor_name    text NOT NULL,                                           -- as it was then: an address, a key's prefix
    action        text NOT NULL,                                           -- 'api_key.created'
    resource_id   text,
    resource_name text,
    details       jsonb NOT NULL DEFAULT '{}',
    request_id    text,
    created_at    timestamptz NOT NULL,
    PRIMARY KEY (project_id, id)
);

-- People. The id is derived from the caller's id, so it needs no unique index of its own. An anonymous person who
-- became a known one stays as a pointer (merged_into), so that both ids lead to one person for ever.
CREATE TABLE users (
    project_id   uuid NOT NULL,
    id           uuid NOT NULL,
    external_id  text,
    anonymous_id text,
    email        text,
    name         text,
    properties   jsonb NOT NULL DEFAULT '{}',
    merged_into  uuid,
    merged_at    timestamptz,
    created_at   timestamptz NOT NULL,
    last_seen_at timestamptz NOT NULL,
    updated_at   timestamptz NOT NULL,
    -- Indexed in place of the time itself, so that a person's row is written within its page all day long but once.
    seen_day     date NOT NULL GENERATED ALWAYS AS ((last_seen_at AT TIME ZONE 'UTC')::date) STORED,
    PRIMARY KEY (project_id, id)
) WITH (fillfactor = 85);
CREATE INDEX users_merged ON users (project_id, merged_into) WHERE merged_into IS NOT NULL;
CREATE INDEX users_newest ON users (project_id, created_at DESC, id DESC) WHERE merged_into IS NULL;
CREATE INDEX users_seen ON users (project_id, seen_day) WHERE merged_into IS NULL;

-- What people are searched by, apart from their rows, which change far more often. A search of some letters reads the
-- index by trigrams where few are found, and walks from the newest on where many are.
CREATE TABLE user_search (
    project_id uuid NOT NULL,
    id         uuid NOT NULL,
    created_at timestamptz NOT NULL,                                       -- the person's: lists are in this order
    text       text NOT NULL,                                              -- lower case; U+0001 begins each of external id, email, name
    begin_1    text COLLATE "C" NOT NULL GENERATED ALWAYS AS (left(split_part(text, E'\x01', 2), 2)) STORED,
    begin_2    text COLLATE "C" NOT NULL GENERATED ALWAYS AS (left(split_part(text, E'\x01', 3), 2)) STORED,
    begin_3    text COLLATE "C" NOT NULL GENERATED ALWAYS AS (left(split_part(text, E'\x01', 4), 2)) STORED,
    PRIMARY KEY (project_id, id)
);
CREATE INDEX user_search_newest ON user_search (project_id, created_at DESC, id DESC);
-- Whether there are more of one or two letters than are counted.
CREATE INDEX user_search_begin_1 ON user_search (project_id, begin_1);
CREATE INDEX user_search_begin_2 ON user_search (project_id, begin_2);
CREATE INDEX user_search_begin_3 ON user_search (project_id, begin_3);
-- The project as text, so that no other index can be taken for this one's work, whatever the planner thinks that costs.
-- New texts wait in a list that the scheduler puts into the index, so that recording does not have to.
CREATE INDEX user_search_text ON user_search USING gin ((project_id::text), text gin_trgm_ops) WITH (gin_pending_list_limit = 16384);

-- Imports of people: how far each has come, so that one that broke off goes on where it was.
CREATE TABLE user_import (
    project_id       uuid NOT NULL,
    id               uuid NOT NULL,
    format           text NOT NULL CHECK (format IN ('ndjson', 'csv')),
    next_line        bigint NOT NULL DEFAULT 1,                            -- those before it are settled
    digest           bigint NOT NULL,                                      -- of these: another body is told by it
    imported         bigint NOT NULL DEFAULT 0,
    failed           bigint NOT NULL DEFAULT 0,
    problems         jsonb NOT NULL DEFAULT '[]',                          -- the first of them: [{line, field, message}]
    problems_omitted bigint NOT NULL DEFAULT 0,
    attempt          integer NOT NULL DEFAULT 0,                           -- fences whoever was thought to be gone
    lease_until      timestamptz,                                          -- null while nobody is at it
    created_at       timestamptz NOT NULL,
    updated_at       timestamptz NOT NULL,
    completed_at     timestamptz,
    PRIMARY KEY (project_id, id)
) WITH (fillfactor = 70);
CREATE INDEX user_import_newest ON user_import (project_id, created_at DESC, id DESC);

-- Devices. The id is a hash of the token, so that a token belongs to one person of a project. What was taken away keeps a
-- row for a while, so that what was said of it before and comes later finds the last word.
CREATE TABLE push_token (
    project_id uuid NOT NULL,
    id         uuid NOT NULL,
    user_id    uuid,                                                       -- none: taken away
    platform   text CHECK (platform IN ('IOS', 'ANDROID', 'WEB')),
    token      text,                                                       -- for WEB the JSON of the subscription
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,                                       -- when the last word on it was accepted
    said_seq   bigint NOT NULL DEFAULT 0,                                  -- and its place in the stream
    PRIMARY KEY (project_id, id),
    CHECK ((user_id IS NULL) = (platform IS NULL) AND (user_id IS NULL) = (token IS NULL))
);
CREATE INDEX push_token_user ON push_token (project_id, user_id);
CREATE INDEX push_token_newest ON push_token (project_id, created_at DESC, id DESC) WHERE user_id IS NOT NULL;
CREATE INDEX push_token_platform ON push_token (project_id, platform, created_at DESC, id DESC) WHERE user_id IS NOT NULL;
CREATE INDEX push_token_taken ON push_token (updated_at) WHERE user_id IS NULL;
CREATE TABLE vapid_key (
    project_id  uuid PRIMARY KEY,
    public_key  bytea NOT NULL,                                            -- an uncompressed point of P-256
    private_key bytea NOT NULL,                                            -- sealed: PKCS #8
    created_at  timestamptz NOT NULL
);

-- Who was erased, under each of their ids: what was accepted until then is dropped when it comes to be applied. Rows that
-- are too many to go at once are removed by the scheduler.
CREATE TABLE erasure (
    project_id uuid NOT NULL,
    user_id    uuid NOT NULL,
    erased_at  timestamptz NOT NULL,                                       -- when the erasure was accepted
    applied_at timestamptz NOT NULL,                                       -- and when it was carried out
    has_left   boolean NOT NULL,
    PRIMARY KEY (project_id, user_id)
);
CREATE INDEX erasure_latest ON erasure (erased_at);
CREATE INDEX erasure_left ON erasure (project_id) WHERE has_left;

-- Events, partitioned by id: a UUIDv7 holds the time, so the primary key both finds a repeat and orders by time.
CREATE TABLE events (
    project_id  uuid NOT NULL,
    id          uuid NOT NULL,
    client_id   uuid,                                                      -- derived from a client id that is no usable UUIDv7
    name        text NOT NULL,
    user_id     uuid NOT NULL,
    anonymous_id text,                                                     -- as sent
    properties  jsonb NOT NULL,
    ts          timestamptz NOT NULL,                                      -- when it happened, corrected for the client's clock
    received_at timestamptz NOT NULL,
    PRIMARY KEY (project_id, id)
) PARTITION BY RANGE (id);
CREATE INDEX events_user ON events (project_id, user_id, id);
CREATE INDEX events_name ON events (project_id, name, id);

-- Ids that cannot serve as a row's own: client ids of another form, and ids of profile updates. Kept as long as events.
CREATE TABLE client_id (
    project_id uuid NOT NULL,
    id         uuid NOT NULL,
    event_id   uuid,                                                       -- the event's row; null for a profile update
    created_at timestamptz NOT NULL,
    PRIMARY KEY (project_id, id)
) PARTITION BY HASH (id);
CREATE TABLE client_id_0 PARTITION OF client_id FOR VALUES WITH (MODULUS 4, REMAINDER 0);
CREATE TABLE client_id_1 PARTITION OF client_id FOR VALUES WITH (MODULUS 4, REMAINDER 1);
CREATE TABLE client_id_2 PARTITION OF client_id FOR VALUES WITH (MODULUS 4, REMAINDER 2);
CREATE TABLE client_id_3 PARTITION OF client_id FOR VALUES WITH (MODULUS 4, REMAINDER 3);

-- Exact totals. Recording adds what it has counted in rows of its own (event_count_new), so that two recorders never
-- wait for one row; they are folded into the sums now and then. The view event_count is both together: read that.
CREATE TABLE event_count_sum (
    project_id uuid NOT NULL,
    day        date NOT NULL,                                              -- of the project's timezone
    name       text NOT NULL,
    count      bigint NOT NULL,
    PRIMARY KEY (project_id, day, name)
) WITH (fillfactor = 70);
CREATE TABLE event_count_new (
    project_id uuid NOT NULL,
    id         uuid NOT NULL,                                              -- of the recording transaction
    day        date NOT NULL,
    counts     jsonb NOT NULL,                                             -- by name
    PRIMARY KEY (project_id, id, day)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 50000);
CREATE VIEW event_count AS
    SELECT project_id, day, name, count FROM event_count_sum
    UNION ALL
    SELECT n.project_id, n.day, c.key, c.value::bigint FROM event_count_new n, jsonb_each_text(n.counts) c;
-- The lane is the recording transaction's.
CREATE TABLE user_count (
    project_id uuid NOT NULL,
    lane       smallint NOT NULL,
    count      bigint NOT NULL,
    PRIMARY KEY (project_id, lane)
) WITH (fillfactor = 70);
-- How many people were last seen on a day of UTC; of the last 100 days.
CREATE TABLE user_seen_count (
    project_id uuid NOT NULL,
    day        date NOT NULL,
    lane       smallint NOT NULL,
    count      bigint NOT NULL,
    PRIMARY KEY (project_id, day, lane)
) WITH (fillfactor = 70);

CREATE TABLE template (
    project_id  uuid NOT NULL,
    id          uuid NOT NULL,
    name        text NOT NULL,
    channel     text NOT NULL CHECK (channel IN ('EMAIL', 'PUSH', 'IN_APP', 'SMS')),
    subject     text NOT NULL DEFAULT '',
    body        text NOT NULL,                                             -- as its author wrote it
    compiled    text,                                                      -- what delivery takes in its place: MJML as HTML, CSS inlined
    not_inlined text,                                                      -- why the CSS is not, where that is so
    url         text CHECK (url IS NULL OR channel = 'PUSH'),              -- what a push opens: a template too
    tags        text[] NOT NULL DEFAULT '{}',
    ai          boolean NOT NULL DEFAULT false,
    version     integer NOT NULL DEFAULT 1,
    created_at  timestamptz NOT NULL,
    updated_at  timestamptz NOT NULL,
    changed_seq bigint NOT NULL,
    PRIMARY KEY (project_id, id)
);

-- Who belongs together: by rules (as they were written; what they mean is in shared/src/rule), or as a list.
CREATE TABLE segment (
    project_id  uuid NOT NULL,
    id          uuid NOT NULL,
    name        text NOT NULL,
    description text NOT NULL DEFAULT '',
    type        text NOT NULL CHECK (type IN ('RULES', 'MANUAL')),
    rules       jsonb NOT NULL DEFAULT '[]',
    rests_on    uuid[] NOT NULL DEFAULT '{}',                              -- the segments that the rules name
    created_at  timestamptz NOT NULL,
    updated_at  timestamptz NOT NULL,
    PRIMARY KEY (project_id, id)
);
CREATE TABLE segment_member (                                              -- of a MANUAL one
    project_id uuid NOT NULL,
    segment_id uuid NOT NULL,
    user_id    uuid NOT NULL,
    added_at   timestamptz NOT NULL,
    PRIMARY KEY (project_id, segment_id, user_id)
);
CREATE INDEX segment_member_user ON segment_member (project_id, user_id);

-- Segments whose members are kept as rows and announced, because an active automation starts by them. Filled person by
-- person in the order of their ids before anything is announced.
CREATE TABLE segment_follow (
    project_id uuid NOT NULL,
    segment_id uuid NOT NULL,
    wanted     boolean NOT NULL DEFAULT true,                              -- false: its rows are on their way out
    since      timestamptz NOT NULL,                                       -- when it came to be wanted, or its rules were changed
    filled     boolean NOT NULL DEFAULT false,                             -- up to the last person
    filled_to  uuid,                                                       -- the person up to whom
    look_at    timestamptz,                                                -- when the scheduler has to look at it as a whole
    error      text,                                                       -- why its members are not kept at present
    error_at   timestamptz,
    PRIMARY KEY (project_id, segment_id)
) WITH (fillfactor = 70);
CREATE INDEX segment_follow_look ON segment_follow (look_at) WHERE look_at IS NOT NULL;
-- What the followed segments of a project look at, so that recording marks people for nothing else: shared/src/rule/look.
CREATE TABLE segment_watch (
    project_id  uuid PRIMARY KEY,
    looks_at    text[] NOT NULL,
    changed_seq bigint NOT NULL
);
CREATE INDEX segment_watch_changed ON segment_watch (changed_seq);
-- Whoever evaluates a project's segments locks its row, so that no verdict is overtaken by an older one.
CREATE TABLE segment_turn (
    project_id uuid PRIMARY KEY,
    starts     bigint NOT NULL DEFAULT 0                                   -- rows of segment_start so far
);
-- Whose segments may have changed by what: a row for each transaction and kind of change; some, where it is about very many.
CREATE TABLE segment_dirty (
    project_id uuid NOT NULL,
    id         uuid NOT NULL,                                              -- of the transaction
    look       text NOT NULL,                                              -- what has changed, as in segment_watch
    people     uuid[] NOT NULL,
    PRIMARY KEY (project_id, id, look)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 10000);
CREATE INDEX segment_dirty_oldest ON segment_dirty (id);
-- Who is in a followed segment, and when that may change by itself. Whoever is not in it has a row only for the latter.
CREATE TABLE segment_membership (
    project_id uuid NOT NULL,
    segment_id uuid NOT NULL,
    user_id    uuid NOT NULL,
    since      timestamptz,                                                -- null: is not in it
    due_at     timestamptz,                                                -- null: by itself never
    PRIMARY KEY (project_id, segment_id, user_id)
) WITH (fillfactor = 85);
CREATE INDEX segment_membership_user ON segment_membership (project_id, user_id);
CREATE INDEX segment_membership_due ON segment_membership (due_at, project_id) WHERE due_at IS NOT NULL;
CREATE INDEX segment_membership_project_due ON segment_membership (project_id, due_at) WHERE due_at IS NOT NULL;
-- Runs that an entry or an exit is to start, on their way to the person's own partition, in the order of their coming.
CREATE TABLE segment_start (
    project_id    uuid NOT NULL,
    seq           bigint NOT NULL,                                         -- as segment_turn counts
    automation_id uuid NOT NULL,
    segment_id    uuid NOT NULL,
    user_id       uuid NOT NULL,
    partition     smallint NOT NULL,
    entered       boolean NOT NULL,                                        -- false: left
    at            timestamptz NOT NULL,
    PRIMARY KEY (project_id, seq)
);
-- How many entered and left on a day of the project's timezone.
CREATE TABLE segment_count (
    project_id uuid NOT NULL,
    segment_id uuid NOT NULL,
    day        date NOT NULL,
    entered    bigint NOT NULL,
    exited     bigint NOT NULL,
    PRIMARY KEY (project_id, segment_id, day)
) WITH (fillfactor = 70);

-- A time as rules read it from a property: RFC 3339, also without an offset (then UTC), or a date; null for all else. It
-- never fails, whatever the text. shared::rule::time reads the same texts as the same times.
CREATE FUNCTION rule_time(value jsonb) RETURNS timestamptz LANGUAGE sql STABLE STRICT PARALLEL SAFE AS $$
    SELECT CASE WHEN jsonb_typeof(value) = 'string' AND value #>> '{}' ~
            '^(?!0000)[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])([T ]([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]([.][0-9]{1,9})?(Z|[+-](0[0-9]|1[0-4]):[0-5][0-9])?)?$'
        THEN CASE WHEN substr(value #>> '{}', 9, 2)::int <= extract(day FROM (substr(value #>> '{}', 1, 7) || '-01')::date + interval '1 month - 1 day')
            THEN regexp_replace(value #>> '{}', '([.][0-9]{6})[0-9]+', '\1')::timestamptz END END
$$;

-- An automation's head; what runs is a version, which never changes once made.
CREATE TABLE automation (
    project_id    uuid NOT NULL,
    id            uuid NOT NULL,
    name          text NOT NULL,
    trigger_type  text NOT NULL,
    trigger_event text,
    active        boolean NOT NULL DEFAULT false,
    version       integer NOT NULL DEFAULT 1,
    definition    jsonb NOT NULL,                                          -- trigger, rules, goal, re-entry and steps, as the API shows them
    hears         text[] NOT NULL DEFAULT '{}',                            -- events that runs of any version may listen for
    dates_since   timestamptz,                                             -- from when on everybody's dates are to be noted (date_due); null: they are
    dates_to      uuid,                                                    -- the person up to whom they are
    created_at    timestamptz NOT NULL,
    updated_at    timestamptz NOT NULL,
    deleted_at    timestamptz,                                             -- the row stays, so that caches see it go
    changed_seq   bigint NOT NULL,
    PRIMARY KEY (project_id, id)
);
CREATE INDEX automation_changed ON automation (changed_seq);
CREATE INDEX automation_dates ON automation (dates_since) WHERE dates_since IS NOT NULL;
CREATE TABLE automation_version (
    project_id    uuid NOT NULL,
    automation_id uuid NOT NULL,
    version       integer NOT NULL,
    definition    jsonb NOT NULL,
    created_at    timestamptz NOT NULL,
    PRIMARY KEY (project_id, automation_id, version)
);

-- What is sent to a segment at a time, once or again and again.
CREATE TABLE campaign (
    project_id          uuid NOT NULL,
    id                  uuid NOT NULL,
    name                text NOT NULL,
    channel             text NOT NULL CHECK (channel IN ('EMAIL', 'PUSH', 'IN_APP', 'SMS')),
    segment_id          uuid NOT NULL,
    exclude_segment_ids uuid[] NOT NULL DEFAULT '{}',
    template_id         uuid,
    template_ids        uuid[] NOT NULL,                                   -- that one, and those of the variants; while it is under way also those that were
    settings            jsonb NOT NULL,                                    -- throttle, variants, winner, goal, recurrence, as the API shows them
    subscription_group_id uuid,                                            -- kept while it is under way
    scheduled_at        timestamptz,
    status              text NOT NULL CHECK (status IN ('DRAFT', 'SCHEDULED', 'SENDING', 'PAUSED', 'COMPLETED', 'CANCELLED', 'FAILED')),
    status_reason       text,
    look_at             timestamptz,                                       -- when the scheduler has to look at it; null: never
    faults              integer NOT NULL DEFAULT 0,                        -- looks in a row that failed by its own fault
    occurrence          integer NOT NULL DEFAULT 0,                        -- sendings begun
    started_at          timestamptz,                                       -- of the last one, as the rest
    meant_for           timestamptz,                                       -- the time that it was begun for
    taken_to            uuid,                                              -- the person up to whom the audience has been taken
    taken               boolean NOT NULL DEFAULT false,                    -- up to the last
    recipients          bigint NOT NULL DEFAULT 0,
    under_way           boolean NOT NULL DEFAULT false,                    -- begun and not ended, also while paused
    paced_to            timestamptz,                                       -- until when the throttle has been used up
    test_sent_at        timestamptz,                                       -- when the test of its variants had been sent
    verdict             jsonb,                                             -- and what came of it
    created_at          timestamptz NOT NULL,
    updated_at          timestamptz NOT NULL,
    PRIMARY KEY (project_id, id)
) WITH (fillfactor = 70);
CREATE INDEX campaign_look ON campaign (look_at, project_id) WHERE look_at IS NOT NULL;
CREATE INDEX campaign_project_look ON campaign (project_id, look_at) WHERE look_at IS NOT NULL;

-- What came of its messages since it was last begun or resumed; it pauses itself when too many fail.
CREATE TABLE campaign_outcome (
    project_id    uuid NOT NULL,
    campaign_id   uuid NOT NULL,
    sent          bigint NOT NULL,                                         -- since their share was last judged
    failed        bigint NOT NULL,                                         -- tries, for good or for now
    failed_in_row bigint NOT NULL,                                         -- since one was last sent
    reason        text,                                                    -- of one of the last failures
    PRIMARY KEY (project_id, campaign_id)
) WITH (fillfactor = 50);

-- The links of its messages that are told apart, as many as are counted, and the messages in which each was clicked. Under the id
-- 0 are the clicks on all others.
CREATE TABLE campaign_link (
    project_id  uuid NOT NULL,
    campaign_id uuid NOT NULL,
    link        uuid NOT NULL,                                             -- MD5 of the address
    url         text NOT NULL,
    PRIMARY KEY (project_id, campaign_id, link)
);
CREATE TABLE campaign_click (
    project_id  uuid NOT NULL,
    campaign_id uuid NOT NULL,
    message_id  uuid NOT NULL,
    link        uuid NOT NULL,
    user_id     uuid NOT NULL,                                             -- whom the message was for
    variant     text,
    clicks      bigint NOT NULL,
    PRIMARY KEY (project_id, campaign_id, message_id, link)
) WITH (fillfactor = 80);
CREATE INDEX campaign_click_user ON campaign_click (project_id, user_id);
CREATE INDEX campaign_click_link ON campaign_click (project_id, campaign_id, link);

-- How often what happened at which step of a version; what concerns whole runs stands at the step ''. The lane is the
-- recording transaction's.
CREATE TABLE automation_count (
    project_id    uuid NOT NULL,
    automation_id uuid NOT NULL,
    version       integer NOT NULL,
    step          text NOT NULL,                                           -- its place: 'steps[2].then[0]'
    did           text NOT NULL,
    arm           text NOT NULL,                                           -- that was taken; '' where there is none
    lane          smallint NOT NULL,
    count         bigint NOT NULL,
    PRIMARY KEY (project_id, automation_id, version, step, did, arm, lane)
) WITH (fillfactor = 70);

-- One person's way through one version of an automation. The id is made of the trigger's time and a hash of
-- (automation, trigger), so that a trigger starts a run once.
CREATE TABLE run (
    project_id    uuid NOT NULL,
    id            uuid NOT NULL,
    automation_id uuid NOT NULL,
    version       integer NOT NULL,
    user_id       uuid NOT NULL,
    status        text NOT NULL CHECK (status IN ('waiting', 'frozen', 'completed', 'exited', 'failed')),
    position      text NOT NULL,                                           -- place of the step that it stands at, in its version's definition; '' at the ends
    wait_seq      integer NOT NULL DEFAULT 0,                              -- number of waits begun; an older timer is stale
    partition     smallint NOT NULL,                                       -- where the person's own items flow
    depth         smallint NOT NULL DEFAULT 0,                             -- automations that stand behind it
    context       jsonb NOT NULL,                                          -- the trigger: {id, name, properties, timestamp}
    memory        jsonb NOT NULL DEFAULT '{}',                             -- what its steps left for later ones
    trail         jsonb NOT NULL DEFAULT '[]',                             -- what happened to it: [{at, step, did, arm, why, until, messageId}]
    reason        text,
    trace         bytea,                                                   -- what it is traced under: 16 bytes of the trace, 8 of the span
    due_at        timestamptz,                                             -- when its wait ends, or ended
    converted_at  timestamptz,                                             -- when the goal was reached
    started_at    timestamptz NOT NULL,
    updated_at    timestamptz NOT NULL,
    ended_at      timestamptz,
    PRIMARY KEY (project_id, id)
) WITH (fillfactor = 85);
CREATE INDEX run_person ON run (project_id, user_id, automation_id);
CREATE INDEX run_automation ON run (project_id, automation_id, id);
CREATE INDEX run_under_way ON run (project_id, automation_id, version) WHERE ended_at IS NULL;
CREATE INDEX run_frozen ON run (project_id, automation_id) WHERE status = 'frozen';

-- Which of a person's events a run is to hear of.
CREATE TABLE run_listener (
    project_id uuid NOT NULL,
    user_id    uuid NOT NULL,
    event      text NOT NULL,                                              -- '': whatever they do, and every change of the profile
    run_id     uuid NOT NULL,
    until      timestamptz,                                                -- null: until the run moves on
    PRIMARY KEY (project_id, user_id, event, run_id)
);
CREATE INDEX run_listener_until ON run_listener (until) WHERE until IS NOT NULL;

-- When a date among a person's properties comes next that starts an automation.
CREATE TABLE date_due (
    project_id    uuid NOT NULL,
    automation_id uuid NOT NULL,
    user_id       uuid NOT NULL,
    partition     smallint NOT NULL,                                       -- where the person's own items flow
    due_at        timestamptz NOT NULL,
    look_at       timestamptz NOT NULL,                                    -- later than that where a scheduler has taken it
    last_at       timestamptz,                                             -- the one that came before
    PRIMARY KEY (project_id, automation_id, user_id)
);
CREATE INDEX date_due_look ON date_due (look_at, project_id);
CREATE INDEX date_due_project_look ON date_due (project_id, look_at);
CREATE INDEX date_due_user ON date_due (project_id, user_id);

-- Calls that runs wait for, removed once the broker has the answer; the run's wait_seq makes a repeat harmless.
CREATE TABLE webhook_call (
    project_id uuid NOT NULL,
    id         uuid NOT NULL,                                              -- by which the callee knows a repeat
    run_id     uuid NOT NULL,
    wait_seq   integer NOT NULL,
    user_id    uuid NOT NULL,
    partition  smallint NOT NULL,
    url        text NOT NULL,
    body       jsonb NOT NULL,
    attempt    integer NOT NULL DEFAULT 0,                                 -- calls begun
    due_at     timestamptz NOT NULL,
    created_at timestamptz NOT NULL,
    PRIMARY KEY (project_id, id)
);
CREATE INDEX webhook_call_due ON webhook_call (due_at, project_id);
CREATE INDEX webhook_call_project_due ON webhook_call (project_id, due_at);
CREATE INDEX webhook_call_user ON webhook_call (project_id, user_id);

-- What falls due: removed once the broker has the timer; the run's wait_seq makes a repeat harmless.
CREATE TABLE timer (
    project_id uuid NOT NULL,
    run_id     uuid NOT NULL,
    wait_seq   integer NOT NULL,
    partition  smallint NOT NULL,
    due_at     timestamptz NOT NULL,
    PRIMARY KEY (project_id, run_id)
);
CREATE INDEX timer_due ON timer (due_at, project_id);                      -- which projects have something due
CREATE INDEX timer_project_due ON timer (project_id, due_at);              -- and what

-- The send ledger. due_at is when somebody has to look at the row again: a retry, a lease that ran out, or a
-- hand-over that never arrived; null once the outcome is known, and while a campaign's row is not released yet.
CREATE TABLE message (
    project_id          uuid NOT NULL,
    id                  uuid NOT NULL,
    user_id             uuid NOT NULL,
    channel             text NOT NULL,
    lane                text NOT NULL CHECK (lane IN ('direct', 'automation', 'campaign')),
    status              text NOT NULL,
    status_reason       text,
    template_id         uuid,
    content             jsonb NOT NULL DEFAULT '{}',                       -- {subject, body, title} of a direct message
    data                jsonb NOT NULL DEFAULT '{}',                       -- what the template sees beside the user
    automation_id       uuid,
    run_id              uuid,
    campaign_id         uuid,
    occurrence          integer,                                           -- of the campaign
    variant             text,
    subscription_group_id uuid,                                            -- whoever is not subscribed to it is not sent it
    attempt             integer NOT NULL DEFAULT 0,                        -- claims so far; the fence of settling
    failures            integer NOT NULL DEFAULT 0,                        -- provider failures that count against the limit
    ambiguous           integer NOT NULL DEFAULT 0,                        -- calls of which the outcome was never learned
    forgiven            integer NOT NULL DEFAULT 0,                        -- those of them from before it was last sent again by hand
    dead                boolean NOT NULL DEFAULT false,                    -- failed, and not by its own fault: it can be sent again
    send_at             timestamptz,                                       -- of a campaign: it is not released before; 'infinity' until a variant has won
    released_at         timestamptz,                                       -- of a campaign: handed to delivery, last; its age counts from there
    due_at              timestamptz,
    claimed             boolean NOT NULL DEFAULT false,
    subject             text,                                              -- as rendered
    provider            text,
    provider_message_id text,
    devices             jsonb,                                             -- of a push: [{platform, provider, outcome, reason}]
    address             text,                                              -- it was sent to, as suppressions name it
    segments            integer,                                           -- of an SMS that was sent
    trace               bytea,                                             -- what it is traced under: 16 bytes of the trace, 8 of the span
    created_at          timestamptz NOT NULL,
    sent_at             timestamptz,
    delivered_at        timestamptz,
    opened_at           timestamptz,
    clicked_at          timestamptz,
    failed_at           timestamptz,
    bounced_at          timestamptz,
    complained_at       timestamptz,
    updated_at          timestamptz NOT NULL,
    PRIMARY KEY (project_id, id)
) PARTITION BY RANGE (id);
-- Which projects have something due, and what. Both hold both columns: were the first smaller, it would be taken for
-- the second's work, and all that others have due be read on the way.
CREATE INDEX message_due ON message (due_at, project_id) WHERE due_at IS NOT NULL;
CREATE INDEX message_project_due ON message (project_id, due_at) WHERE due_at IS NOT NULL;
-- By the person first. Were it the project, the key and this would seem alike as long as a partition is empty, and a plan of that time would
-- look for an id through all that the project has.
CREATE INDEX message_user ON message (user_id, project_id, id);
CREATE INDEX message_campaign ON message (project_id, campaign_id, status, send_at) INCLUDE (id, variant) WHERE campaign_id IS NOT NULL; -- a report reads nothing else
CREATE INDEX message_dead ON message (project_id, id) WHERE dead;
-- What the frequency cap counts: not what waits, nor what was kept back, of which there may be any number. With the id, or
-- message_user would be taken, which holds all of that.
CREATE INDEX message_had ON message (project_id, user_id, id) WHERE lane <> 'direct' AND (claimed OR sent_at IS NOT NULL);

-- Their exact number, as of people: recorders have a lane each, delivery shares some of its own.
CREATE TABLE message_count (
    project_id uuid NOT NULL,
    lane       smallint NOT NULL,
    count      bigint NOT NULL,
    PRIMARY KEY (project_id, lane)
) WITH (fillfactor = 70);

-- What could not be recorded or read, taken from the dead-letter stream. Published again, it goes by the outbox.
CREATE TABLE dead_item (
    project_id uuid NOT NULL,
    id         uuid NOT NULL,                                              -- made of the time it was put aside and its place in the stream
    user_id    uuid,                                                       -- whom it names
    name       text NOT NULL,                                              -- what it is: 'track bought', 'message'
    channel    text,                                                       -- of a message, as its id
    message_id uuid,
    reason     text NOT NULL,
    partition  smallint NOT NULL,                                          -- of the outbox, as the rest
    subject    text NOT NULL,
    payload    bytea NOT NULL,
    created_at timestamptz NOT NULL,                                       -- accepted
    died_at    timestamptz NOT NULL,                                       -- put aside
    PRIMARY KEY (project_id, id)
);
CREATE INDEX dead_item_user ON dead_item (project_id, user_id) WHERE user_id IS NOT NULL;

-- How many came to each state, by the quarter of an hour: every timezone's days begin at one.
CREATE TABLE message_status_count (
    project_id uuid NOT NULL,
    at         timestamptz NOT NULL,                                       -- the quarter's beginning
    channel    text NOT NULL,
    status     text NOT NULL,
    lane       smallint NOT NULL,                                          -- any of a few, so that two who count seldom meet
    count      bigint NOT NULL,
    PRIMARY KEY (project_id, at, channel, status, lane)
) WITH (fillfactor = 70);

-- Addresses that nothing is sent to, and why; several reasons may hold for one. Of a channel without addresses of its own
-- the address is the person's internal id.
CREATE TABLE suppression (
    project_id uuid NOT NULL,
    channel    text NOT NULL CHECK (channel IN ('EMAIL', 'PUSH', 'IN_APP', 'SMS')),
    address    text NOT NULL,                                              -- normalised: lower case, E.164
    reason     text NOT NULL CHECK (reason IN ('unsubscribed', 'bounced', 'complained', 'manual')),
    id         uuid NOT NULL,                                              -- made of channel, address and reason
    message_id uuid,                                                       -- by which it came about
    note       text NOT NULL DEFAULT '',
    created_at timestamptz NOT NULL,
    PRIMARY KEY (project_id, channel, address, reason)
);
CREATE INDEX suppression_id ON suppression (project_id, id);
CREATE INDEX suppression_newest ON suppression (project_id, created_at DESC, id DESC);
-- Soft bounces in a row.
CREATE TABLE bounce_streak (
    project_id uuid NOT NULL,
    channel    text NOT NULL,
    address    text NOT NULL,
    count      integer NOT NULL,
    PRIMARY KEY (project_id, channel, address)
);

-- What people may choose to get or not, and what they chose: whoever has no row is as the group says.
CREATE TABLE subscription_group (
    project_id         uuid NOT NULL,
    id                 uuid NOT NULL,
    name               text NOT NULL,
    description        text NOT NULL DEFAULT '',
    default_subscribed boolean NOT NULL DEFAULT true,
    public             boolean NOT NULL DEFAULT true,                      -- shown on the preference page
    deleted_at         timestamptz,                                        -- the row stays until what was chosen of it is gone
    created_at         timestamptz NOT NULL,
    updated_at         timestamptz NOT NULL,
    PRIMARY KEY (project_id, id)
);
CREATE TABLE subscription (
    project_id uuid NOT NULL,
    user_id    uuid NOT NULL,
    group_id   uuid NOT NULL,
    subscribed boolean NOT NULL,
    source     text NOT NULL CHECK (source IN ('page', 'link', 'api')),
    changed_at timestamptz NOT NULL,                                       -- when the choice was accepted: the latest counts
    PRIMARY KEY (project_id, user_id, group_id)
);
CREATE INDEX subscription_group_members ON subscription (project_id, group_id);

-- What people have to read in the app; the id is the message's. Each person's arrive one after another (inbox_owner), so
-- that who has seen the one of a time has seen all before it.
CREATE TABLE inbox (
    project_id uuid NOT NULL,
    id         uuid NOT NULL,
    user_id    uuid NOT NULL,
    title      text NOT NULL,
    body       text NOT NULL,
    created_at timestamptz NOT NULL,                                       -- of its arrival
    read_at    timestamptz,
    PRIMARY KEY (project_id, id)
);
CREATE INDEX inbox_user ON inbox (project_id, user_id, created_at, id);
CREATE INDEX inbox_unread ON inbox (project_id, user_id) WHERE read_at IS NULL;
CREATE TABLE inbox_owner (
    project_id uuid NOT NULL,
    user_id    uuid NOT NULL,
    last_at    timestamptz NOT NULL,                                       -- of the newest arrival
    PRIMARY KEY (project_id, user_id)
);

-- Who is told of messages and automations. The row stays until its deliveries are gone.
CREATE TABLE webhook_endpoint (
    project_id      uuid NOT NULL,
    id              uuid NOT NULL,
    url             text NOT NULL,
    description     text NOT NULL DEFAULT '',
    types           text[] NOT NULL,                                       -- what it asks for; '*': everything
    enabled         boolean NOT NULL DEFAULT true,
    disabled_reason text,                                                  -- where the product did it: 'gone', 'failing'
    disabled_at     timestamptz,
    secrets         bytea NOT NULL,                                        -- sealed: what signs
    failures        integer NOT NULL DEFAULT 0,                            -- calls in a row that failed
    failing_since   timestamptz,                                           -- the first of them
    rests_until     timestamptz,                                           -- nothing is sent to it before
    created_at      timestamptz NOT NULL,
    updated_at      timestamptz NOT NULL,
    deleted_at      timestamptz,
    PRIMARY KEY (project_id, id)
);
-- What endpoints are told, and what came of it. The id is that of what is told: by it the receiver knows a repeat.
CREATE TABLE webhook_delivery (
    project_id  uuid NOT NULL,
    endpoint_id uuid NOT NULL,
    id          uuid NOT NULL,
    type        text NOT NULL,
    user_id     uuid,                                                      -- whom it names
    data        jsonb NOT NULL,
    happened_at timestamptz NOT NULL,
    status      text NOT NULL DEFAULT 'pending' CHECK (status IN ('pending', 'delivered', 'failed')),
    attempt     integer NOT NULL DEFAULT 0,                                -- claims so far; the fence of settling
    tries       integer NOT NULL DEFAULT 0,                                -- calls that failed, since it was last sent again by hand
    attempts    jsonb NOT NULL DEFAULT '[]',                               -- the newest: [{at, durationMs, status, error, response}]
    due_at      timestamptz,                                               -- when it is sent, or its lease runs out; null once the outcome is known
    created_at  timestamptz NOT NULL,
    PRIMARY KEY (project_id, endpoint_id, id)
) WITH (fillfactor = 70);
CREATE INDEX webhook_delivery_due ON webhook_delivery (project_id, endpoint_id, due_at) WHERE due_at IS NOT NULL;
CREATE INDEX webhook_delivery_user ON webhook_delivery (project_id, user_id) WHERE user_id IS NOT NULL;
CREATE INDEX webhook_delivery_oldest ON webhook_delivery (id);

CREATE TABLE news (
    project_id   uuid NOT NULL,
    id           uuid NOT NULL,
    title        text NOT NULL,
    body         text NOT NULL,
    published_at timestamptz,                                              -- null while it is not published
    created_at   timestamptz NOT NULL,
    updated_at   timestamptz NOT NULL,
    PRIMARY KEY (project_id, id)
);
CREATE INDEX news_feed ON news (project_id, published_at DESC, id DESC) WHERE published_at IS NOT NULL;

CREATE TABLE channel (
    project_id  uuid NOT NULL,
    channel     text NOT NULL CHECK (channel IN ('email', 'push', 'sms', 'in_app')),
    settings    jsonb NOT NULL DEFAULT '{}',                               -- what may be shown
    secrets     bytea,                                                     -- sealed JSON object
    error       text,                                                      -- the provider's last words about the configuration
    error_at    timestamptz,
    updated_at  timestamptz NOT NULL,
    changed_seq bigint NOT NULL,
    PRIMARY KEY (project_id, channel)
);

-- Who reads which part of the ingest stream, and how far it has been applied. The epoch fences a deposed owner.
CREATE TABLE ingest_partition (
    partition      smallint PRIMARY KEY,
    owner          uuid,
    lease_until    timestamptz,
    epoch          bigint NOT NULL DEFAULT 0,
    applied_seq    bigint NOT NULL DEFAULT 0,
    applied_ns     bigint NOT NULL DEFAULT 0,                              -- when the broker stored it (Unix nanoseconds); 0: not known
    stream_created timestamptz                                             -- of the stream that the position counts in
) WITH (fillfactor = 50);

CREATE TABLE worker (
    id         uuid PRIMARY KEY,
    kind       text NOT NULL,
    seen_until timestamptz NOT NULL
);

-- A jump of the database's clock ahead that nobody has judged yet: one row, or none.
CREATE TABLE clock_jump (
    one       boolean PRIMARY KEY DEFAULT true CHECK (one),
    ahead_ms  bigint NOT NULL,                                             -- of the time that has passed
    jumped_at timestamptz NOT NULL                                         -- what it showed then
);

-- Messages to the broker, written with what caused them and published after the commit.
CREATE TABLE outbox (
    partition  smallint NOT NULL,
    id         uuid NOT NULL,
    subject    text NOT NULL,
    payload    bytea NOT NULL,
    created_at timestamptz NOT NULL,
    PRIMARY KEY (partition, id)
);
