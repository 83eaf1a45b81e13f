import { Stack } from '@mantine/core';
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { type Schemas, api, read } from '../../api/client';
import { notify } from '../../app/notice';
import { Ask } from '../../components/ask';
import { Loaded } from '../../components/failure';
import { Listing } from '../../components/listing';
import { Moment } from '../../components/moment';
import { Section } from '../../components/page';
import { t } from '../../text';

const KEY = ['sessions'];

function browserOf({ userAgent }: Schemas['ListedSession']): string {
  return userAgent || t.account.unknown;
}

/** Where the account is signed in, and signing out there. */
export function Sessions() {
  const client = useQueryClient();
  const found = useQuery({ queryKey: KEY, queryFn: ({ signal }) => read(api.GET('/auth/sessions', { signal })) });
  const again = () => {
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
                      <Ask
                        label={t.account.end}
                        title={t.account.endTitle}
                        act={() => read(api.DELETE('/auth/sessions/{id}', { params: { path: { id: session.id } } }))}
                        onDone={again}
                      >
                        {t.account.endText(browserOf(session))}
                      </Ask>
                    ),
                },
              ]}
            />
            <Ask
              label={t.account.endOthers}
              title={t.account.endOthersTitle}
              disabled={sessions.length < 2}
              act={() => read(api.DELETE('/auth/sessions'))}
              onDone={again}
            >
              {t.account.endOthersText}
            </Ask>
          </Stack>
        )}
      </Loaded>
    </Section>
  );
}
