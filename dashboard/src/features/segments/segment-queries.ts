import { useInfiniteQuery } from '@tanstack/react-query';
import { api, read } from '../../api/client';

/** Segments, newest first, a hundred at a time: the API counts each of them for its answer. */
export function useSegmentPages(projectId: string) {
  return useInfiniteQuery({
    queryKey: [projectId, 'segments', 'pages'],
    queryFn: ({ signal, pageParam }) => read(api.GET('/segments', { params: { query: { cursor: pageParam } }, signal })),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (last) => last.nextCursor ?? undefined,
  });
}
