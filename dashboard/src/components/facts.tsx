import { Table } from '@mantine/core';
import type { ReactNode } from 'react';

export type Fact = [name: string, value: ReactNode];

/** What is known of one thing, a fact in each row. */
export function Facts({ label, facts }: { label: string; facts: readonly Fact[] }) {
  return (
    <Table variant="vertical" withTableBorder aria-label={label} style={{ overflowWrap: 'anywhere' }}>
      <Table.Tbody>
        {facts.map(([name, value]) => (
          <Table.Tr key={name}>
            <Table.Th scope="row" w={150}>
              {name}
            </Table.Th>
            <Table.Td>{value}</Table.Td>
          </Table.Tr>
        ))}
      </Table.Tbody>
    </Table>
  );
}
