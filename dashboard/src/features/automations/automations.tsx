import { useInfiniteQuery } from '@tanstack/react-query';
import { type Schemas, api, read } from '../../api/client';
import { useProject } from '../../app/project';
import { REQUESTS } from '../../app/requests';
import { Listing } from '../../components/listing';
import { ButtonLink, ScreenLink } from '../../components/links';
import { Moment } from '../../components/moment';
import { More } from '../../components/more';
import { Page } from '../../components/page';
import { Status } from '../../components/status';
import { t } from '../../text';
import { NextStep } from '../access/next-step';
import { type Step, countSteps } from './step';

/** Describes the trigger of an automation. */
function describeTrigger(automation: Schemas['Automation']): string {
  const type = t.automations.triggers[automation.triggerType ?? 'EVENT'];
  const name = automation.triggerEvent ?? automation.triggerDate?.property;
  return name ? `${type}: ${name}` : type;
}

export function Automations() {
  const { projectId } = useProject();
  const automations = useInfiniteQuery({
    queryKey: [projectId, 'automations', 'pages'],
    queryFn: ({ signal, pageParam }) =>
      read(api.GET('/automations', { params: { query: { cursor: pageParam } }, signal })),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (last) => last.nextCursor ?? undefined,
  });
  return (
    <Page
      title={t.automations.title}
      actions={
        <ButtonLink to="/p/$projectId/automations/$automationId" params={{ projectId, automationId: 'new' }}>
          {t.automations.create}
        </ButtonLink>
      }
    >
      <More query={automations} rows={(each) => each.automations}>
        {(rows) => (
          <Listing
            label={t.automations.title}
            rows={rows}
            id={(automation) => automation.id}
            empty={
              <NextStep
                title={t.automations.emptyTitle}
                text={t.automations.emptyText}
                label={t.nextStep.server}
                request={REQUESTS.automation}
              />
            }
            columns={[
              {
                title: t.automations.name,
                cell: (automation) => (
                  <ScreenLink
                    to="/p/$projectId/automations/$automationId"
                    params={{ projectId, automationId: automation.id }}
                  >
                    {automation.name}
                  </ScreenLink>
                ),
              },
              {
                title: t.automations.state,
                cell: (automation) => (
                  <Status
                    of={automation.active ? 'active' : 'inactive'}
                    label={automation.active ? t.automations.active : t.automations.inactive}
                  />
                ),
              },
              { title: t.automations.trigger, cell: describeTrigger },
              {
                title: t.automations.steps,
                cell: (automation) => countSteps(automation.steps as unknown as Step[]),
                end: true,
              },
              { title: t.automations.updated, cell: (automation) => <Moment at={automation.updatedAt} /> },
            ]}
          />
        )}
      </More>
    </Page>
  );
}
