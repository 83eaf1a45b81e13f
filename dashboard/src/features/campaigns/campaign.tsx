import { Alert, Button, Stack } from '@mantine/core';
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { getRouteApi, useNavigate } from '@tanstack/react-router';
import { useState } from 'react';
import { type Schemas, api, ifMatch, read, readTagged } from '../../api/client';
import { notify } from '../../app/notice';
import { useProject } from '../../app/project';
import { campaignReason } from '../../app/reasons';
import { ConfirmButton } from '../../components/confirm-button';
import { Failure, Loaded } from '../../components/failure';
import { Page } from '../../components/page';
import { Status } from '../../components/status';
import { t } from '../../text';
import { planOf } from './plan';
import { Report } from './report';
import { Summary, useSegmentsById } from './summary';
import { TestSend } from './test-send';
import { Wizard } from './wizard';

const route = getRouteApi('/p/$projectId/campaigns/$campaignId');
type Campaign = Schemas['Campaign'];
type Action = 'send' | 'pause' | 'resume' | 'cancel';
const ACTIVE_POLL_MS = 2_000;
const IDLE_POLL_MS = 15_000;

export function CampaignScreen() {
  const { projectId } = useProject();
  const { campaignId } = route.useParams();
  const [editing, setEditing] = useState(false);
  const isNew = campaignId === 'new';
  const campaign = useQuery({
    queryKey: [projectId, 'campaign', campaignId],
    queryFn: ({ signal }) => readTagged(api.GET('/campaigns/{id}', { params: { path: { id: campaignId } }, signal })),
    enabled: !isNew,
    refetchInterval: (query) => (query.state.data?.value.status === 'SENDING' ? ACTIVE_POLL_MS : IDLE_POLL_MS),
  });
  const project = useQuery({
    queryKey: [projectId, 'project', 'zone'],
    queryFn: ({ signal }) => read(api.GET('/projects/{id}', { params: { path: { id: projectId } }, signal })),
  });
  if (!project.data)
    return (
      <Page title={t.campaigns.title}>
        <Loaded query={project}>{() => null}</Loaded>
      </Page>
    );
  const zone = project.data.timezone;
  if (isNew) return <Wizard key="new" opened={null} zone={zone} />;
  if (!campaign.data)
    return (
      <Page title={t.campaigns.title}>
        <Loaded query={campaign}>{() => null}</Loaded>
      </Page>
    );
  if (editing) return <Wizard key={campaignId} opened={campaign.data} zone={zone} onDone={() => setEditing(false)} />;
  return (
    <Campaign
      key={campaignId}
      campaign={campaign.data.value}
      tag={campaign.data.tag}
      zone={zone}
      onEdit={() => setEditing(true)}
    />
  );
}

function Campaign({
  campaign,
  tag,
  zone,
  onEdit,
}: {
  campaign: Campaign;
  tag: string | null;
  zone: string;
  onEdit: () => void;
}) {
  const { status } = campaign;
  const isPlanned = status === 'DRAFT' || status === 'SCHEDULED' || status === 'PAUSED';
  return (
    <Page
      title={campaign.name}
      actions={
        <>
          <Status of={status} />
          <Actions campaign={campaign} tag={tag} />
          {isPlanned && (
            <Button variant="default" onClick={onEdit}>
              {t.campaigns.edit}
            </Button>
          )}
        </>
      }
    >
      {campaign.statusReason && (
        <Alert variant="outline" color="yellow" title={t.campaigns.reason} role="note">
          {campaignReason(campaign.statusReason)}
        </Alert>
      )}
      <Stack gap="xl">
        <Summary plan={planOf(campaign, zone)} zone={zone} />
        {isPlanned && <TestSend campaign={campaign} />}
        <Report campaign={campaign} />
      </Stack>
    </Page>
  );
}

function Actions({ campaign, tag }: { campaign: Campaign; tag: string | null }) {
  const { projectId } = useProject();
  const client = useQueryClient();
  const navigate = useNavigate();
  const [segment] = useSegmentsById([campaign.segmentId]);
  const userCount = segment?.data?.userCount;
  // The count includes users of excluded segments and users who are not subscribed.
  const isUpperBound = campaign.excludeSegmentIds.length > 0 || campaign.subscriptionGroupId !== null;
  const count =
    userCount === null || userCount === undefined
      ? t.campaigns.unknownCount
      : isUpperBound
        ? t.campaigns.atMost(t.number(userCount))
        : t.number(userCount);
  const call = async (action: Action) => {
    const params = { path: { id: campaign.id } };
    const calls = {
      // Sends only the version that is shown.
      send: () => api.POST('/campaigns/{id}/send', { params: { ...params, header: ifMatch(tag) } }),
      pause: () => api.POST('/campaigns/{id}/pause', { params }),
      resume: () => api.POST('/campaigns/{id}/resume', { params }),
      cancel: () => api.POST('/campaigns/{id}/cancel', { params }),
    };
    const changed = await readTagged(calls[action]());
    client.setQueryData([projectId, 'campaign', campaign.id], changed);
    void client.invalidateQueries({ queryKey: [projectId, 'campaigns'] });
    void client.invalidateQueries({ queryKey: [projectId, 'campaign-report', campaign.id] });
  };
  const acting = useMutation({ mutationFn: call });
  const leave = (isMounted: boolean) => {
    notify(t.campaigns.removed);
    void client.invalidateQueries({ queryKey: [projectId, 'campaigns'] });
    if (isMounted) void navigate({ to: '/p/$projectId/campaigns', params: { projectId } });
  };
  const { status } = campaign;
  const running = status === 'SENDING' || status === 'SCHEDULED';
  return (
    <>
      {(status === 'DRAFT' || status === 'SCHEDULED') && (
        <ConfirmButton label={t.campaigns.send} title={t.campaigns.sendTitle} size="sm" action={() => call('send')}>
          {campaign.sendInUserTimezone
            ? t.campaigns.sendTextLocal(campaign.name, count)
            : t.campaigns.sendText(campaign.name, count)}
        </ConfirmButton>
      )}
      {running && (
        <Button variant="default" loading={acting.isPending} onClick={() => acting.mutate('pause')}>
          {t.campaigns.pause}
        </Button>
      )}
      {status === 'PAUSED' && (
        <Button loading={acting.isPending} onClick={() => acting.mutate('resume')}>
          {t.campaigns.resume}
        </Button>
      )}
      {(running || status === 'PAUSED') && (
        <ConfirmButton
          label={t.campaigns.cancel}
          title={t.campaigns.cancelTitle}
          size="sm"
          action={() => call('cancel')}
        >
          {t.campaigns.cancelText}
        </ConfirmButton>
      )}
      {status !== 'SENDING' && (
        <ConfirmButton
          label={t.remove}
          title={t.campaigns.removeTitle}
          size="sm"
          action={() =>
            read(api.DELETE('/campaigns/{id}', { params: { path: { id: campaign.id }, header: ifMatch(tag) } }))
          }
          onDone={leave}
        >
          {t.campaigns.remove(campaign.name)}
        </ConfirmButton>
      )}
      <Failure error={acting.error} />
    </>
  );
}
