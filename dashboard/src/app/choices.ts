import { useInfiniteQuery, useQueries } from '@tanstack/react-query';

interface Named {
  id: string;
  name?: string | null;
}

interface Source<R extends Named> {
  key: readonly string[];
  page: (cursor: string | undefined, signal: AbortSignal) => Promise<{ rows: R[]; nextCursor: string | null }>;
  one: (id: string, signal: AbortSignal) => Promise<Named>;
  chosen: readonly string[];
}

/**
 * Loads the options of a select one page at a time. Chosen records that are on no loaded page are fetched by ID to get their
 * names; if that fails, the ID is shown.
 */
export function useChoices<R extends Named>({ key, page, one, chosen }: Source<R>) {
  const pages = useInfiniteQuery({
    queryKey: [...key, 'choices'],
    queryFn: ({ signal, pageParam }) => page(pageParam, signal),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (last) => last.nextCursor ?? undefined,
  });
  const rows = pages.data?.pages.flatMap((each) => each.rows) ?? [];
  const listed = new Set(rows.map(({ id }) => id));
  const unlisted = [...new Set(chosen)].filter((id) => id !== '' && !listed.has(id));
  const named = useQueries({
    queries: unlisted.map((id) => ({
      queryKey: [...key, 'choice', id],
      queryFn: ({ signal }: { signal: AbortSignal }) => one(id, signal),
      enabled: pages.isSuccess,
    })),
  });
  const options = [...rows, ...unlisted.map((id, index): Named => named[index]?.data ?? { id })].map(
    ({ id, name }) => ({ value: id, label: name ?? id }),
  );
  return { pages, rows, options };
}
