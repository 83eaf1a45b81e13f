import { useInfiniteQuery, useQuery } from '@tanstack/react-query';
import { type Schemas, apiFor, read } from '../../api/client';
import { useProject } from '../../app/project';

export interface Choice {
  value: string;
  label: string;
}

type Page = { segments: Array<Schemas['Segment']>; nextCursor: string | null };

/** Loads up to 100 segments, newest first. The API counts the users of each. */
function pageOf(projectId: string, cursor: string | null, signal: AbortSignal): Promise<Page> {
  return read(apiFor(projectId).GET('/segments', { params: { query: cursor === null ? {} : { cursor } }, signal }));
}

/** Loads segments page by page. */
export function useSegmentPages(projectId: string) {
  return useInfiniteQuery({
    queryKey: [projectId, 'segments', 'pages'],
    queryFn: ({ signal, pageParam }) => pageOf(projectId, pageParam, signal),
    initialPageParam: null as string | null,
    getNextPageParam: (last) => last.nextCursor ?? undefined,
  });
}

/** Loads all segments, following the cursor to the last page. */
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

/** Returns the options of a select. Chosen IDs that are not among the records are shown by ID, so that they are not lost. */
export function choices(
  records: ReadonlyArray<{ id: string; name?: string | null }> | undefined,
  chosen: readonly string[],
): Choice[] {
  const named = (records ?? []).map(({ id, name }) => ({ value: id, label: name ?? id }));
  const unlisted = chosen.filter((id) => id !== '' && !named.some(({ value }) => value === id));
  return [...named, ...unlisted.map((id) => ({ value: id, label: id }))];
}
