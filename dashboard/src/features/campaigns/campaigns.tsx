import { Group } from '@mantine/core';
import { useInfiniteQuery } from '@tanstack/react-query';
import { getRouteApi } from '@tanstack/react-router';
import { api, read } from '../../api/client';
import { useProject } from '../../app/project';
import { REQUESTS } from '../../app/requests';
import { CAMPAIGN_STATUSES } from '../../app/values';
import { Empty } from '../../components/empty';
import { Choice } from '../../components/filters';
import { Listing } from '../../components/listing';
import { ButtonLink, ScreenLink } from '../../components/links';
import { Moment } from '../../components/moment';
import { More } from '../../components/more';
import { Page } from '../../components/page';
import { Status } from '../../components/status';
import { t } from '../../text';
import { NextStep } from '../access/next-step';

const route = getRouteApi('/p/$projectId/campaigns');
const POLL_MS = 5_000;

export function Campaigns() {
  const { projectId } = useProject();
  const { status } = route.useSearch();
  const navigate = route.useNavigate();
  const campaigns = useInfiniteQuery({
    queryKey: [projectId, 'campaigns', 'pages', status],
    queryFn: ({ signal, pageParam }) =>
      read(api.GET('/campaigns', { params: { query: { status, cursor: pageParam } }, signal })),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (last) => last.nextCursor ?? undefined,
    refetchInterval: POLL_MS,
  });
  return (
    <Page
      title={t.campaigns.title}
      actions={
        <ButtonLink to="/p/$projectId/campaigns/$campaignId" params={{ projectId, campaignId: 'new' }}>
          {t.campaigns.create}
        </ButtonLink>
      }
    >
      <Group>
        <Choice
          label={t.campaigns.status}
          value={status}
          options={CAMPAIGN_STATUSES}
          name={(each) => t.statuses[each] ?? each}
          onChange={(value) => void navigate({ search: { status: value }, replace: true })}
        />
      </Group>
      <More query={campaigns} rows={(each) => each.campaigns}>
        {(rows) => (
          <Listing
            label={t.campaigns.title}
            rows={rows}
            id={(campaign) => campaign.id}
            empty={
              status ? (
                <Empty title={t.campaigns.emptyTitle}>{t.campaigns.emptyFiltered}</Empty>
              ) : (
                <NextStep
                  title={t.campaigns.emptyTitle}
                  text={t.campaigns.emptyText}
                  label={t.nextStep.server}
                  request={REQUESTS.campaign}
                />
              )
            }
            columns={[
              {
                title: t.campaigns.name,
                cell: (campaign) => (
                  <ScreenLink to="/p/$projectId/campaigns/$campaignId" params={{ projectId, campaignId: campaign.id }}>
                    {campaign.name}
                  </ScreenLink>
                ),
              },
              {
                title: t.campaigns.status,
                cell: (campaign) => <Status of={campaign.status} />,
              },
              { title: t.campaigns.channel, cell: (campaign) => t.channelName(campaign.channel) },
              {
                title: t.campaigns.when,
                cell: (campaign) =>
                  (campaign.startedAt ?? campaign.scheduledAt) ? (
                    <Moment at={campaign.startedAt ?? campaign.scheduledAt} />
                  ) : (
                    t.campaigns.manualSend
                  ),
              },
              { title: t.campaigns.recipients, cell: (campaign) => t.number(campaign.recipients), end: true },
            ]}
          />
        )}
      </More>
    </Page>
  );
}
