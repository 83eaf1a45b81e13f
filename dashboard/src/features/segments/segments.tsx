import { useProject } from '../../app/project';
import { REQUESTS } from '../../app/requests';
import { Listing } from '../../components/listing';
import { ButtonLink, ScreenLink } from '../../components/links';
import { Moment } from '../../components/moment';
import { More } from '../../components/more';
import { Page } from '../../components/page';
import { t } from '../../text';
import { NextStep } from '../access/next-step';
import { useSegmentPages } from './all-segments';

export function Segments() {
  const { projectId } = useProject();
  const segments = useSegmentPages(projectId);
  return (
    <Page
      title={t.segments.title}
      actions={
        <ButtonLink to="/p/$projectId/segments/$segmentId" params={{ projectId, segmentId: 'new' }}>
          {t.segments.create}
        </ButtonLink>
      }
    >
      <More query={segments} rows={(each) => each.segments}>
        {(rows) => (
          <Listing
            label={t.segments.title}
            rows={rows}
            id={(segment) => segment.id}
            empty={
              <NextStep
                title={t.segments.emptyTitle}
                text={t.segments.emptyText}
                label={t.nextStep.server}
                request={REQUESTS.segment}
              />
            }
            columns={[
              {
                title: t.segments.name,
                cell: (segment) => (
                  <ScreenLink to="/p/$projectId/segments/$segmentId" params={{ projectId, segmentId: segment.id }}>
                    {segment.name}
                  </ScreenLink>
                ),
              },
              { title: t.segments.type, cell: (segment) => t.segments.types[segment.type] },
              {
                title: t.segments.users,
                cell: (segment) => (segment.userCount === null ? t.segments.notCounted : t.number(segment.userCount)),
                end: true,
              },
              { title: t.segments.updated, cell: (segment) => <Moment at={segment.updatedAt} /> },
            ]}
          />
        )}
      </More>
    </Page>
  );
}
