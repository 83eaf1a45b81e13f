-- min-reader: 2
-- Accounts whose mailbox is proven, sessions that can be listed, and frequency caps that count addresses. Older programs give the
-- links of invitations to those who invite, so they must stop first.

-- When it was proven whose mailbox it is; null: never. Of the accounts that exist, those are proven that an operator created or
-- added to a project. The others came by an invitation's link, which was also shown to the project's ADMINs.
ALTER TABLE account ADD COLUMN verified_at timestamptz;
UPDATE account a SET verified_at = a.created_at
    WHERE EXISTS (SELECT FROM audit_log l WHERE l.action = 'member.joined' AND l.actor_type = 'operator' AND l.resource_id = a.id::text)
    AND NOT EXISTS (SELECT FROM invite i WHERE lower(i.email) = lower(a.email) AND i.accepted_at IS NOT NULL);

-- Only ASCII letters are equal without regard to case: other foldings make one address of two mailboxes.
DROP INDEX account_email;
CREATE UNIQUE INDEX account_email ON account (lower(email COLLATE "C"));
DROP INDEX invite_open;
CREATE INDEX invite_open ON invite (project_id, lower(email COLLATE "C")) WHERE accepted_at IS NULL AND revoked_at IS NULL;

-- The SHA-256 of the token in the mailed link (null: none was mailed), and of the one in the link that an operator printed last.
-- The links of pending invitations prove nothing: those invitations are revoked.
ALTER TABLE invite ALTER COLUMN token_hash DROP NOT NULL;
ALTER TABLE invite ADD COLUMN operator_token_hash bytea;
UPDATE invite SET revoked_at = now(), token_hash = NULL, sealed_link = NULL, mail_due_at = NULL,
    mail_status = CASE mail_status WHEN 'queued' THEN 'failed' ELSE mail_status END
    WHERE accepted_at IS NULL AND revoked_at IS NULL;
CREATE INDEX invite_operator_token ON invite (operator_token_hash) WHERE operator_token_hash IS NOT NULL;

-- `id` names a session in lists and opens nothing; `user_agent` is the browser's, shortened; `used_at` is exact to the hour.
-- The defaults are for sessions that exist.
ALTER TABLE session ADD COLUMN id uuid NOT NULL DEFAULT gen_random_uuid();
ALTER TABLE session ADD COLUMN user_agent text NOT NULL DEFAULT '';
ALTER TABLE session ADD COLUMN used_at timestamptz NOT NULL DEFAULT now();

-- Sends that count against a frequency cap: written when a message is claimed, removed if it is not sent. Apart from the
-- ledger, so that only projects with a cap pay for it.
CREATE TABLE capped_send (
    project_id uuid NOT NULL,
    message_id uuid NOT NULL,
    attempt    integer NOT NULL,                                           -- the claim's number
    user_id    uuid NOT NULL,
    address    uuid,                                                       -- hash of the channel and the normalised address; null for a channel without addresses
    at         timestamptz NOT NULL,                                       -- of the claim
    PRIMARY KEY (project_id, message_id)
);
CREATE INDEX capped_send_user ON capped_send (project_id, user_id, at);
CREATE INDEX capped_send_address ON capped_send (project_id, address, at) WHERE address IS NOT NULL;
