import { Button, Group, Text } from '@mantine/core';
import { t } from '../text';

interface Props {
  page: number;
  limit: number;
  total: number;
  totalIsCapped?: boolean;
  onPage: (page: number) => void;
}

/** The API returns pages only within the first 10,000 rows. */
const MAX_ROWS = 10_000;

export function Pager({ page, limit, total, totalIsCapped, onPage }: Props) {
  const pages = Math.max(1, Math.ceil(total / limit));
  const last = Math.min(pages, Math.floor(MAX_ROWS / limit));
  return (
    <Group justify="space-between" component="nav" aria-label={t.pager.label}>
      <Text size="sm" c="dimmed">
        {t.pager.total(total, totalIsCapped === true)}
      </Text>
      {(pages > 1 || page > 1) && (
        <Group gap="xs">
          <Button size="xs" variant="default" disabled={page <= 1} onClick={() => onPage(page - 1)}>
            {t.pager.previous}
          </Button>
          <Text size="sm">{t.pager.page(page, pages)}</Text>
          <Button size="xs" variant="default" disabled={page >= last} onClick={() => onPage(page + 1)}>
            {t.pager.next}
          </Button>
        </Group>
      )}
    </Group>
  );
}
