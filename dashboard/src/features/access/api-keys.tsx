import { Button, Modal, NativeSelect, Stack, Text, TextInput } from '@mantine/core';
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { api, read } from '../../api/client';
import { problemOf } from '../../api/failure';
import { notify } from '../../app/notice';
import { forgetKey, rememberKey } from '../../app/known-keys';
import { useProject } from '../../app/project';
import { Ask } from '../../components/ask';
import { Empty } from '../../components/empty';
import { Failure, Loaded } from '../../components/failure';
import { Listing } from '../../components/listing';
import { Moment } from '../../components/moment';
import { Page } from '../../components/page';
import { SecretOnce } from '../../components/snippet';
import { t } from '../../text';
import { keyOf } from './key';

export function ApiKeys() {
  const { projectId } = useProject();
  const client = useQueryClient();
  const [making, setMaking] = useState(false);
  const [secret, setSecret] = useState<string | null>(null);
  const key = [projectId, 'api-keys'];
  const keys = useQuery({ queryKey: key, queryFn: ({ signal }) => read(api.GET('/api-keys', { signal })) });
  const again = () => void client.invalidateQueries({ queryKey: key });
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
              { title: t.keys.created, cell: (each) => <Moment at={each.createdAt} /> },
              { title: t.keys.used, cell: (each) => (each.lastUsedAt ? <Moment at={each.lastUsedAt} /> : t.keys.never) },
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
      <Modal opened={making} onClose={() => setMaking(false)} title={t.keys.create} closeButtonProps={{ 'aria-label': t.close }}>
        <Make
          onMade={(made) => {
            setMaking(false);
            setSecret(made);
            again();
          }}
        />
      </Modal>
      <SecretOnce title={t.keys.made} secret={secret} onClose={() => setSecret(null)} />
    </Page>
  );
}

function Make({ onMade }: { onMade: (key: string) => void }) {
  const { projectId } = useProject();
  const [name, setName] = useState('');
  const [type, setType] = useState<'public' | 'secret'>('public');
  const making = useMutation({
    mutationFn: async (body: { name: string; type: typeof type }) => keyOf(await read(api.POST('/api-keys', { body }))),
    // As it was asked for, whatever is chosen meanwhile.
    onSuccess(key, made) {
      if (made.type === 'public') rememberKey(projectId, key);
      onMade(key);
    },
  });
  return (
    <Stack>
      <TextInput label={t.keys.name} description={t.keys.nameHint} required value={name} onChange={(event) => setName(event.currentTarget.value)} error={problemOf(making.error, 'name')} data-autofocus />
      <NativeSelect label={t.keys.type} value={type} onChange={(event) => setType(event.currentTarget.value === 'secret' ? 'secret' : 'public')} data={[{ value: 'public', label: t.keys.types.public }, { value: 'secret', label: t.keys.types.secret }]} />
      <Failure error={making.error} />
      <Button loading={making.isPending} onClick={() => making.mutate({ name, type })}>
        {t.keys.create}
      </Button>
    </Stack>
  );
}
