import { useInfiniteQuery } from '@tanstack/react-query';
import { type Schemas, api, read } from '../../api/client';

/** Segments, newest first, a hundred at a time: the API counts each of them for its answer. */
export function useSegmentPages(projectId: string) {
  return useInfiniteQuery({
    queryKey: [projectId, 'segments', 'pages'],
    queryFn: ({ signal, pageParam }) => read(api.GET('/segments', { params: { query: { cursor: pageParam } }, signal })),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (last) => last.nextCursor ?? undefined,
  });
}

/** All of them, to choose from. */
export async function everySegment(signal: AbortSignal): Promise<{ segments: Array<Schemas['Segment']> }> {
  const segments: Array<Schemas['Segment']> = [];
  for (let cursor: string | undefined; ; ) {
    const page = await read(api.GET('/segments', { params: { query: { cursor } }, signal }));
    segments.push(...page.segments);
    if (page.nextCursor === null) return { segments };
    cursor = page.nextCursor;
  }
}
