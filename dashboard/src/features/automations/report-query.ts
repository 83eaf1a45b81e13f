import { queryOptions } from '@tanstack/react-query';
import { api, read } from '../../api/client';

const POLL_MS = 5_000;

/** Query for the funnel of an automation; polls while it is active. */
export function reportQuery(projectId: string, automation: { id: string; active: boolean } | null) {
  const id = automation?.id ?? '';
  return queryOptions({
    queryKey: [projectId, 'automation-report', id],
    queryFn: ({ signal }) => read(api.GET('/automations/{id}/report', { params: { path: { id } }, signal })),
    refetchInterval: automation?.active ? POLL_MS : false,
  });
}
