import { Paper, Table } from '@mantine/core';
import type { ReactNode } from 'react';

export interface Column<T> {
  title: string;
  cell: (row: T) => ReactNode;
  /** Aligns the column to the right, for numbers. */
  end?: boolean;
}

interface Props<T> {
  /** Accessible name of the table. */
  label: string;
  columns: Array<Column<T>>;
  rows: readonly T[];
  id: (row: T) => string;
  /** Shown if there are no rows. */
  empty?: ReactNode;
}

/** A table that scrolls horizontally on narrow screens. */
export function Listing<T>({ label, columns, rows, id, empty }: Props<T>) {
  if (rows.length === 0 && empty) return <>{empty}</>;
  return (
    <Paper withBorder style={{ overflowX: 'auto' }} tabIndex={0} role="region" aria-label={label}>
      <Table verticalSpacing="xs" horizontalSpacing="md" aria-label={label}>
        <Table.Thead>
          <Table.Tr>
            {columns.map((column) => (
              <Table.Th key={column.title} ta={column.end ? 'right' : 'left'} style={{ whiteSpace: 'nowrap' }}>
                {column.title}
              </Table.Th>
            ))}
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {rows.map((row) => (
            <Table.Tr key={id(row)}>
              {columns.map((column) => (
                <Table.Td key={column.title} ta={column.end ? 'right' : 'left'}>
                  {column.cell(row)}
                </Table.Td>
              ))}
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </Paper>
  );
}
