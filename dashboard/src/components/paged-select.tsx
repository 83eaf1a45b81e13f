import { Button, Group, NativeSelect, type NativeSelectProps } from '@mantine/core';
import type { UseInfiniteQueryResult } from '@tanstack/react-query';
import { t } from '../text';

interface Props extends NativeSelectProps {
  label: string;
  pages: Pick<UseInfiniteQueryResult, 'hasNextPage' | 'isFetchingNextPage' | 'fetchNextPage'>;
}

/** A select whose options come from a list with cursor pagination. */
export function PagedSelect({ pages, label, ...select }: Props) {
  return (
    <Group align="flex-end" gap={4} wrap="nowrap">
      <NativeSelect label={label} {...select} />
      {pages.hasNextPage && (
        <Button
          size={select.size === 'xs' ? 'xs' : 'sm'}
          variant="default"
          loading={pages.isFetchingNextPage}
          onClick={() => void pages.fetchNextPage()}
          aria-label={`${t.more}: ${label}`}
        >
          {t.more}
        </Button>
      )}
    </Group>
  );
}
