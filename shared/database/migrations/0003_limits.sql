-- min-reader: 3
-- Owners of projects, and restrictions of public keys, which older programs would not enforce.

-- The account that created the project; null: the operator did. Limits on shared resources are counted by it.
ALTER TABLE project ADD COLUMN created_by uuid;
UPDATE project p SET created_by = a.actor_id
    FROM audit_log a WHERE a.project_id = p.project_id AND a.action = 'project.created' AND a.actor_type = 'account';
CREATE INDEX project_created_by ON project (created_by);

-- Origins of browsers (empty: any), and requests per second (null: the project's limit alone).
ALTER TABLE api_key ADD COLUMN allowed_origins text[] NOT NULL DEFAULT '{}';
ALTER TABLE api_key ADD COLUMN rate_limit integer CHECK (rate_limit > 0);
