import { Paper, Stack, Text } from '@mantine/core';
import { useDebouncedValue } from '@mantine/hooks';
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { type Schemas, api, read } from '../../api/client';
import { ApiFailure } from '../../api/failure';
import { useProject } from '../../app/project';
import { Failure } from '../../components/failure';
import { ScreenLink } from '../../components/links';
import { t } from '../../text';
import type { Rule } from '../rules/rule';
import { displayName } from '../users/user-list';
import { userPage } from '../users/user-ref';

const DEBOUNCE_MS = 600;
const SAMPLE_SIZE = 5;

/** Incomplete rules are not an error. */
function isUnfinished(error: unknown): boolean {
  return error instanceof ApiFailure && error.status === 422;
}

/** Estimated number of users who match the rules in the editor, and a sample of them. */
export function Estimate({ rules }: { rules: Rule[] }) {
  const { projectId } = useProject();
  const [debounced] = useDebouncedValue(rules, DEBOUNCE_MS);
  const estimate = useQuery({
    queryKey: [projectId, 'estimate', debounced],
    queryFn: ({ signal }) =>
      read(
        api.POST('/segments/estimate', { body: { rules: debounced as Schemas['Rules'], sample: SAMPLE_SIZE }, signal }),
      ),
    placeholderData: keepPreviousData,
    retry: false,
  });
  return (
    <Paper withBorder p="md" aria-live="polite">
      <Text size="sm" c="dimmed">
        {t.segments.estimate}
      </Text>
      {estimate.isError ? (
        isUnfinished(estimate.error) ? (
          <Text size="sm">{t.segments.unfinished}</Text>
        ) : (
          <Failure error={estimate.error} onRetry={() => void estimate.refetch()} />
        )
      ) : (
        <Stack gap="xs">
          <Text size="xl" fw={600} data-testid="estimate">
            {estimate.data === undefined || estimate.isPlaceholderData
              ? t.segments.counting
              : t.number(estimate.data.estimatedCount)}
          </Text>
          {estimate.data?.users && estimate.data.users.length > 0 && (
            <div>
              <Text size="sm" c="dimmed">
                {t.segments.sample}
              </Text>
              {estimate.data.users.map((user) => {
                const { userId, search } = userPage(user);
                return (
                  <ScreenLink
                    key={user.id}
                    size="sm"
                    display="block"
                    to="/p/$projectId/users/$userId"
                    params={{ projectId, userId }}
                    search={search}
                  >
                    {displayName(user)}
                  </ScreenLink>
                );
              })}
            </div>
          )}
        </Stack>
      )}
    </Paper>
  );
}
