import { useQuery } from '@tanstack/react-query';
import { type Schemas, api, read } from '../../api/client';
import { useProject } from '../../app/project';

export interface Choice {
  value: string;
  label: string;
}

/** All segments: those behind the cursor as well. */
export function useSegments() {
  const { projectId } = useProject();
  return useQuery({
    queryKey: [projectId, 'segments', 'all'],
    async queryFn({ signal }) {
      const segments: Array<Schemas['Segment']> = [];
      let cursor: string | null = null;
      do {
        const page: { segments: Array<Schemas['Segment']>; nextCursor: string | null } = await read(api.GET('/segments', { params: { query: cursor === null ? {} : { cursor } }, signal }));
        segments.push(...page.segments);
        cursor = page.nextCursor;
      } while (cursor !== null);
      return { segments };
    },
  });
}

/** What can be chosen, and what is chosen without being among it: that is shown by its id, so that nothing of it is lost. */
export function choices(known: ReadonlyArray<{ id: string; name?: string | null }> | undefined, chosen: readonly string[]): Choice[] {
  const named = (known ?? []).map(({ id, name }) => ({ value: id, label: name ?? id }));
  const unlisted = chosen.filter((id) => id !== '' && !named.some(({ value }) => value === id));
  return [...named, ...unlisted.map((id) => ({ value: id, label: id }))];
}
