import { Paper, Stack, Text, Title } from '@mantine/core';
import type { ReactNode } from 'react';

/** Nothing is here yet: what it would be, and what to do next. */
export function Empty({ title, children }: { title: string; children?: ReactNode }) {
  return (
    <Paper withBorder p="xl">
      <Stack gap="sm" align="flex-start">
        <Title order={2} size="h4">
          {title}
        </Title>
        {typeof children === 'string' ? <Text>{children}</Text> : children}
      </Stack>
    </Paper>
  );
}
