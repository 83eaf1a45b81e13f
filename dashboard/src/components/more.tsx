import { Button, Stack } from '@mantine/core';
import type { InfiniteData, UseInfiniteQueryResult } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import { t } from '../text';
import { Loaded } from './failure';

interface Props<P, R> {
  query: UseInfiniteQueryResult<InfiniteData<P>>;
  rows: (page: P) => R[];
  children: (rows: R[]) => ReactNode;
}

/** A list with cursor pagination and a button that loads the next page. */
export function More<P, R>({ query, rows, children }: Props<P, R>) {
  return (
    <Loaded query={query}>
      {(data) => (
        <Stack align="stretch">
          {children(data.pages.flatMap(rows))}
          {query.hasNextPage && (
            <Button variant="default" loading={query.isFetchingNextPage} onClick={() => void query.fetchNextPage()}>
              {t.more}
            </Button>
          )}
        </Stack>
      )}
    </Loaded>
  );
}
