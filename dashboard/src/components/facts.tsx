import { Table } from '@mantine/core';
import type { ReactNode } from 'react';

export type Fact = [name: string, value: ReactNode];

/** Table of a record's properties, one per row. */
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
