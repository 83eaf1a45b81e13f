import { Button, Modal, Text } from '@mantine/core';
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { api, read } from '../../api/client';
import { notify } from '../../app/notice';
import { forgetKey, rememberKey } from '../../app/known-keys';
import { useProject } from '../../app/project';
import { Ask } from '../../components/ask';
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
  const [making, setMaking] = useState(false);
  const [changing, setChanging] = useState<{ id: string; draft: KeyDraft } | null>(null);
  const [secret, setSecret] = useState<string | null>(null);
  const key = [projectId, 'api-keys'];
  const keys = useQuery({ queryKey: key, queryFn: ({ signal }) => read(api.GET('/api-keys', { signal })) });
  const again = () => void client.invalidateQueries({ queryKey: key });
  const create = async ({ name, allowedOrigins, rateLimit }: KeyFields, type: KeyDraft['type']) => {
    const restrictions = type === 'public' ? { allowedOrigins, rateLimit } : {};
    const created = keyOf(await read(api.POST('/api-keys', { body: { name, type, ...restrictions } })));
    if (type === 'public') rememberKey(projectId, created);
    setMaking(false);
    setSecret(created);
    again();
  };
  const change = async (id: string, fields: KeyFields) => {
    await read(api.PUT('/api-keys', { body: { id, ...fields } }));
    setChanging(null);
    notify(t.keys.changed);
    again();
  };
  return (
    <Page title={t.keys.title} actions={<Button onClick={() => setMaking(true)}>{t.keys.create}</Button>}>
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
                    onClick={() => setChanging({ id: each.id, draft: draftOf(each) })}
                  >
                    {t.keys.change}
                  </Button>
                ),
              },
              {
                title: t.keys.revoke,
                cell: (each) => (
                  <Ask
                    label={t.keys.revoke}
                    title={t.keys.revokeTitle}
                    act={() => read(api.DELETE('/api-keys', { body: { id: each.id } }))}
                    onDone={() => {
                      forgetKey(projectId, each.prefix);
                      notify(t.keys.revoked);
                      again();
                    }}
                  >
                    {t.keys.revokeText(each.name, each.prefix)}
                  </Ask>
                ),
              },
            ]}
          />
        )}
      </Loaded>
      <Modal
        opened={making}
        onClose={() => setMaking(false)}
        title={t.keys.create}
        closeButtonProps={{ 'aria-label': t.close }}
      >
        <KeyForm draft={EMPTY} label={t.keys.create} save={create} />
      </Modal>
      <Modal
        opened={changing !== null}
        onClose={() => setChanging(null)}
        title={t.keys.change}
        closeButtonProps={{ 'aria-label': t.close }}
      >
        {changing && (
          <KeyForm exists draft={changing.draft} label={t.keys.save} save={(fields) => change(changing.id, fields)} />
        )}
      </Modal>
      <SecretOnce title={t.keys.made} secret={secret} onClose={() => setSecret(null)} />
    </Page>
  );
}
