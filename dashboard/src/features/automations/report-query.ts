import { queryOptions } from '@tanstack/react-query';
import { api, read } from '../../api/client';

const AGAIN_MS = 5_000;

/** How many came how far: again and again while people come in. */
export function reportQuery(projectId: string, automation: { id: string; active: boolean } | null) {
  const id = automation?.id ?? '';
  return queryOptions({
    queryKey: [projectId, 'automation-report', id],
    queryFn: ({ signal }) => read(api.GET('/automations/{id}/report', { params: { path: { id } }, signal })),
    refetchInterval: automation?.active ? AGAIN_MS : false,
  });
}
