import { Stack } from '@mantine/core';
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { type Schemas, api, read } from '../../api/client';
import { notify } from '../../app/notice';
import { ConfirmButton } from '../../components/confirm-button';
import { Loaded } from '../../components/failure';
import { Listing } from '../../components/listing';
import { Moment } from '../../components/moment';
import { Section } from '../../components/page';
import { t } from '../../text';

const KEY = ['sessions'];

function browserOf({ userAgent }: Schemas['ListedSession']): string {
  return userAgent || t.account.unknown;
}

/** Active sessions of the account, which can be signed out. */
export function Sessions() {
  const client = useQueryClient();
  const found = useQuery({ queryKey: KEY, queryFn: ({ signal }) => read(api.GET('/auth/sessions', { signal })) });
  const refresh = () => {
    notify(t.account.ended);
    void client.invalidateQueries({ queryKey: KEY });
  };
  return (
    <Section title={t.account.sessions}>
      <Loaded query={found}>
        {({ sessions }) => (
          <Stack align="flex-start">
            <Listing
              label={t.account.sessions}
              rows={sessions}
              id={(session) => session.id}
              columns={[
                {
                  title: t.account.browser,
                  cell: (session) => `${browserOf(session)} ${session.current ? t.account.here : ''}`,
                },
                { title: t.account.since, cell: (session) => <Moment at={session.createdAt} /> },
                { title: t.account.used, cell: (session) => <Moment at={session.lastUsedAt} /> },
                {
                  title: t.account.end,
                  cell: (session) =>
                    !session.current && (
                      <ConfirmButton
                        label={t.account.end}
                        title={t.account.endTitle}
                        action={() => read(api.DELETE('/auth/sessions/{id}', { params: { path: { id: session.id } } }))}
                        onDone={refresh}
                      >
                        {t.account.endText(browserOf(session))}
                      </ConfirmButton>
                    ),
                },
              ]}
            />
            <ConfirmButton
              label={t.account.endOthers}
              title={t.account.endOthersTitle}
              disabled={sessions.length < 2}
              action={() => read(api.DELETE('/auth/sessions'))}
              onDone={refresh}
            >
              {t.account.endOthersText}
            </ConfirmButton>
          </Stack>
        )}
      </Loaded>
    </Section>
  );
}
