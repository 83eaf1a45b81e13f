import { Button, Modal, Text } from '@mantine/core';
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { api, read } from '../../api/client';
import { notify } from '../../app/notice';
import { removeCachedKey, cacheKey } from '../../app/key-cache';
import { useProject } from '../../app/project';
import { ConfirmButton } from '../../components/confirm-button';
import { Empty } from '../../components/empty';
import { Loaded } from '../../components/failure';
import { Listing } from '../../components/listing';
import { Moment } from '../../components/moment';
import { Page } from '../../components/page';
import { SecretOnce } from '../../components/snippet';
import { t } from '../../text';
import { keyOf } from './key';
import { KeyForm } from './key-form';
import { EMPTY, type KeyDraft, type KeyFields, draftOf } from './restrictions';

export function ApiKeys() {
  const { projectId } = useProject();
  const client = useQueryClient();
  const [creating, setCreating] = useState(false);
  const [editing, setEditing] = useState<{ id: string; draft: KeyDraft } | null>(null);
  const [secret, setSecret] = useState<string | null>(null);
  const key = [projectId, 'api-keys'];
  const keys = useQuery({ queryKey: key, queryFn: ({ signal }) => read(api.GET('/api-keys', { signal })) });
  const refresh = () => void client.invalidateQueries({ queryKey: key });
  const create = async ({ name, allowedOrigins, rateLimit }: KeyFields, type: KeyDraft['type']) => {
    const restrictions = type === 'public' ? { allowedOrigins, rateLimit } : {};
    const created = keyOf(await read(api.POST('/api-keys', { body: { name, type, ...restrictions } })));
    if (type === 'public') cacheKey(projectId, created);
    setCreating(false);
    setSecret(created);
    refresh();
  };
  const change = async (id: string, fields: KeyFields) => {
    await read(api.PUT('/api-keys', { body: { id, ...fields } }));
    setEditing(null);
    notify(t.keys.changed);
    refresh();
  };
  return (
    <Page title={t.keys.title} actions={<Button onClick={() => setCreating(true)}>{t.keys.create}</Button>}>
      <Text>{t.keys.text}</Text>
      <Loaded query={keys}>
        {(found) => (
          <Listing
            label={t.keys.title}
            rows={found.keys}
            id={(each) => each.id}
            empty={<Empty title={t.keys.emptyTitle}>{t.keys.emptyText}</Empty>}
            columns={[
              { title: t.keys.name, cell: (each) => each.name },
              { title: t.keys.type, cell: (each) => t.keys.types[each.type] },
              { title: t.keys.prefix, cell: (each) => <code>{each.prefix}</code> },
              {
                title: t.keys.origins,
                cell: (each) =>
                  each.type === 'secret'
                    ? '–'
                    : each.allowedOrigins.length === 0
                      ? t.keys.anyOrigin
                      : each.allowedOrigins.map((origin) => <div key={origin}>{origin}</div>),
              },
              { title: t.keys.limit, cell: (each) => each.rateLimit ?? '–' },
              { title: t.keys.created, cell: (each) => <Moment at={each.createdAt} /> },
              {
                title: t.keys.used,
                cell: (each) => (each.lastUsedAt ? <Moment at={each.lastUsedAt} /> : t.keys.never),
              },
              {
                title: t.keys.change,
                cell: (each) => (
                  <Button
                    variant="default"
                    size="compact-sm"
                    aria-label={t.keys.changeNamed(each.name)}
                    onClick={() => setEditing({ id: each.id, draft: draftOf(each) })}
                  >
                    {t.keys.change}
                  </Button>
                ),
              },
              {
                title: t.keys.revoke,
                cell: (each) => (
                  <ConfirmButton
                    label={t.keys.revoke}
                    title={t.keys.revokeTitle}
                    action={() => read(api.DELETE('/api-keys', { body: { id: each.id } }))}
                    onDone={() => {
                      removeCachedKey(projectId, each.prefix);
                      notify(t.keys.revoked);
                      refresh();
                    }}
                  >
                    {t.keys.revokeText(each.name, each.prefix)}
                  </ConfirmButton>
                ),
              },
            ]}
          />
        )}
      </Loaded>
      <Modal
        opened={creating}
        onClose={() => setCreating(false)}
        title={t.keys.create}
        closeButtonProps={{ 'aria-label': t.close }}
      >
        <KeyForm draft={EMPTY} label={t.keys.create} save={create} />
      </Modal>
      <Modal
        opened={editing !== null}
        onClose={() => setEditing(null)}
        title={t.keys.change}
        closeButtonProps={{ 'aria-label': t.close }}
      >
        {editing && (
          <KeyForm exists draft={editing.draft} label={t.keys.save} save={(fields) => change(editing.id, fields)} />
        )}
      </Modal>
      <SecretOnce title={t.keys.newKey} secret={secret} onClose={() => setSecret(null)} />
    </Page>
  );
}
