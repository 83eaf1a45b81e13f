import { Alert, Button, Code, List, Skeleton, Stack, Text } from '@mantine/core';
import type { ReactNode } from 'react';
import { ApiFailure } from '../api/failure';
import type { NameField } from '../app/field-labels';
import { t } from '../text';

/** Shows an error with the API's message and the affected fields. */
export function Failure({
  error,
  onRetry,
  hide,
  nameField,
}: {
  error: unknown;
  onRetry?: () => void;
  hide?: (field: string) => boolean;
  /** Names the fields of the form; other fields are shown by their API names. */
  nameField?: NameField;
}) {
  if (!error) return null;
  const failure = error instanceof ApiFailure ? error : null;
  const details = failure?.details.filter(({ field }) => !hide?.(field)) ?? [];
  return (
    <Alert color="red" variant="outline" title={t.failure.title(failure?.status ?? 0)} role="alert">
      <Stack gap="xs" align="flex-start">
        {details.length === 0 ? (
          <Text size="sm">{error instanceof Error ? error.message : String(error)}</Text>
        ) : (
          <List size="sm">
            {details.map(({ field, message }) => (
              <List.Item key={`${field}:${message}`}>
                <FieldName field={field} name={nameField?.(field)} /> {message}
              </List.Item>
            ))}
          </List>
        )}
        {failure?.requestId && (
          <Text size="xs" c="dimmed">
            {t.failure.request(failure.requestId)}
          </Text>
        )}
        {onRetry && (
          <Button size="xs" variant="default" onClick={onRetry}>
            {t.failure.retry}
          </Button>
        )}
      </Stack>
    </Alert>
  );
}

function FieldName({ field, name }: { field: string; name: string | undefined }) {
  if (name === undefined) return <Code>{field}</Code>;
  return (
    <Text span size="sm" fw={600}>
      {name}
    </Text>
  );
}

/** The parts of a query result that {@link Loaded} uses; paged queries have them too. */
interface QueryState<T> {
  data: T | undefined;
  isError: boolean;
  error: unknown;
  refetch: () => Promise<unknown>;
}

/** Renders the data of a query, a placeholder while it loads, and its error. Data stays visible while it is refetched. */
export function Loaded<T>({
  query,
  rows = 4,
  children,
}: {
  query: QueryState<T>;
  rows?: number;
  children: (data: T) => ReactNode;
}) {
  if (query.data !== undefined) {
    return (
      <>
        {query.isError && <Failure error={query.error} onRetry={() => void query.refetch()} />}
        {children(query.data)}
      </>
    );
  }
  if (query.isError) return <Failure error={query.error} onRetry={() => void query.refetch()} />;
  return (
    <Stack gap="xs" aria-busy="true" aria-label={t.failure.loading} role="status">
      {Array.from({ length: rows }, (_, row) => (
        <Skeleton key={row} height={28} />
      ))}
    </Stack>
  );
}
