import { useInfiniteQuery, useQuery } from '@tanstack/react-query';
import { type Schemas, apiOf, read } from '../../api/client';
import { useProject } from '../../app/project';

export interface Choice {
  value: string;
  label: string;
}

type Page = { segments: Array<Schemas['Segment']>; nextCursor: string | null };

/** A hundred segments, newest first: the API counts each of them for its answer. */
function pageOf(projectId: string, cursor: string | null, signal: AbortSignal): Promise<Page> {
  return read(apiOf(projectId).GET('/segments', { params: { query: cursor === null ? {} : { cursor } }, signal }));
}

/** Segments, a page at a time. */
export function useSegmentPages(projectId: string) {
  return useInfiniteQuery({
    queryKey: [projectId, 'segments', 'pages'],
    queryFn: ({ signal, pageParam }) => pageOf(projectId, pageParam, signal),
    initialPageParam: null as string | null,
    getNextPageParam: (last) => last.nextCursor ?? undefined,
  });
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
        const page: Page = await pageOf(projectId, cursor, signal);
        segments.push(...page.segments);
        cursor = page.nextCursor;
      } while (cursor !== null);
      return { segments };
    },
  });
}

/** What can be chosen, and what is chosen without being among it: that is shown by its id, so that nothing of it is lost. */
export function choices(
  known: ReadonlyArray<{ id: string; name?: string | null }> | undefined,
  chosen: readonly string[],
): Choice[] {
  const named = (known ?? []).map(({ id, name }) => ({ value: id, label: name ?? id }));
  const unlisted = chosen.filter((id) => id !== '' && !named.some(({ value }) => value === id));
  return [...named, ...unlisted.map((id) => ({ value: id, label: id }))];
}
