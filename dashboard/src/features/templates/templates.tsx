import { Group } from '@mantine/core';
import { useInfiniteQuery } from '@tanstack/react-query';
import { getRouteApi } from '@tanstack/react-router';
import { api, read } from '../../api/client';
import { useProject } from '../../app/project';
import { REQUESTS } from '../../app/requests';
import { CHANNELS } from '../../app/values';
import { Empty } from '../../components/empty';
import { Choice } from '../../components/filters';
import { Listing } from '../../components/listing';
import { ButtonLink, ScreenLink } from '../../components/links';
import { Moment } from '../../components/moment';
import { More } from '../../components/more';
import { Page } from '../../components/page';
import { t } from '../../text';
import { NextStep } from '../access/next-step';

const route = getRouteApi('/p/$projectId/templates');

export function Templates() {
  const { projectId } = useProject();
  const { channel } = route.useSearch();
  const navigate = route.useNavigate();
  const templates = useInfiniteQuery({
    queryKey: [projectId, 'templates', 'pages', channel],
    queryFn: ({ signal, pageParam }) =>
      read(api.GET('/templates', { params: { query: { channel, cursor: pageParam } }, signal })),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (last) => last.nextCursor ?? undefined,
  });
  return (
    <Page
      title={t.templates.title}
      actions={
        <ButtonLink to="/p/$projectId/templates/$templateId" params={{ projectId, templateId: 'new' }}>
          {t.templates.create}
        </ButtonLink>
      }
    >
      <Group>
        <Choice
          label={t.templates.channel}
          value={channel}
          options={CHANNELS}
          name={t.channelName}
          onChange={(value) => void navigate({ search: { channel: value }, replace: true })}
        />
      </Group>
      <More query={templates} rows={(each) => each.templates}>
        {(rows) => (
          <Listing
            label={t.templates.title}
            rows={rows}
            id={(template) => template.id}
            empty={
              channel ? (
                <Empty title={t.templates.emptyTitle}>{t.templates.emptyFiltered}</Empty>
              ) : (
                <NextStep
                  title={t.templates.emptyTitle}
                  text={t.templates.emptyText}
                  label={t.nextStep.server}
                  request={REQUESTS.template}
                />
              )
            }
            columns={[
              {
                title: t.templates.name,
                cell: (template) => (
                  <ScreenLink to="/p/$projectId/templates/$templateId" params={{ projectId, templateId: template.id }}>
                    {template.name}
                  </ScreenLink>
                ),
              },
              { title: t.templates.channel, cell: (template) => t.channelName(template.channel) },
              { title: t.templates.tags, cell: (template) => template.tags.join(', ') },
              { title: t.templates.ai, cell: (template) => (template.ai ? t.yes : t.no) },
              { title: t.templates.version, cell: (template) => template.version, end: true },
              { title: t.templates.updated, cell: (template) => <Moment at={template.updatedAt} /> },
            ]}
          />
        )}
      </More>
    </Page>
  );
}
