import { api, read } from '../../api/client';
import { useChoices } from '../../app/choices';
import { useProject } from '../../app/project';
import type { Channel } from '../../app/values';

/** Loads the templates of a channel that can be selected. */
export function useTemplateChoices(channel: Channel, chosen: readonly string[]) {
  const { projectId } = useProject();
  return useChoices({
    key: [projectId, 'templates', channel],
    async page(cursor, signal) {
      const { templates, nextCursor } = await read(
        api.GET('/templates', { params: { query: { channel, cursor } }, signal }),
      );
      return { rows: templates, nextCursor };
    },
    one: (id, signal) => read(api.GET('/templates/{id}', { params: { path: { id } }, signal })),
    chosen,
  });
}
