import { api, read } from '../../api/client';
import { useChoices } from '../../app/choices';
import { useProject } from '../../app/project';

/** Loads the automations that can be selected. */
export function useAutomationChoices(chosen: readonly string[]) {
  const { projectId } = useProject();
  return useChoices({
    key: [projectId, 'automations'],
    async page(cursor, signal) {
      const { automations, nextCursor } = await read(
        api.GET('/automations', { params: { query: { cursor } }, signal }),
      );
      return { rows: automations, nextCursor };
    },
    one: (id, signal) => read(api.GET('/automations/{id}', { params: { path: { id } }, signal })),
    chosen,
  });
}
