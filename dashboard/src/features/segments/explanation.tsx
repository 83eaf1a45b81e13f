import { Box, Code, Stack, Text } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { api, read } from '../../api/client';
import { useProject } from '../../app/project';
import { Loaded } from '../../components/failure';
import { Status } from '../../components/status';
import { t } from '../../text';

/** A rule as the API explains it. Groups contain rules; other rules have the actual value. */
interface ExplainedRule {
  matches?: boolean;
  field?: string;
  operator?: string;
  value?: unknown;
  actual?: unknown;
  any?: ExplainedRule[];
  all?: ExplainedRule[];
  not?: ExplainedRule;
}

/** Explains why a user is in a segment or not. */
export function Explanation({ segmentId, userId, idType }: { segmentId: string; userId: string; idType?: 'internal' }) {
  const { projectId } = useProject();
  const explained = useQuery({
    queryKey: [projectId, 'explain', segmentId, userId, idType],
    queryFn: ({ signal }) =>
      read(
        api.GET('/segments/{id}/explain', {
          params: { path: { id: segmentId }, query: { user_id: userId, idType } },
          signal,
        }),
      ),
  });
  return (
    <Loaded query={explained} rows={2}>
      {(explanation) => (
        <Stack gap={4}>
          <Status
            of={explanation.matches ? 'on' : 'off'}
            label={explanation.matches ? t.segments.in : t.segments.out}
          />
          {(explanation.rules as ExplainedRule[]).map((rule, index) => (
            <RuleResult key={index} rule={rule} />
          ))}
        </Stack>
      )}
    </Loaded>
  );
}

function RuleResult({ rule }: { rule: ExplainedRule }) {
  const result = rule.matches ? t.segments.matches : t.segments.doesNotMatch;
  const group = rule.any ?? rule.all ?? (rule.not && [rule.not]);
  if (group) {
    return (
      <Box pl="sm" style={{ borderLeft: '2px solid var(--mantine-color-default-border)' }}>
        <Text size="sm">
          {rule.any ? t.rules.kinds.any : rule.all ? t.rules.kinds.all : t.rules.kinds.not} <b>{result}</b>
        </Text>
        {group.map((inner, index) => (
          <RuleResult key={index} rule={inner} />
        ))}
      </Box>
    );
  }
  return (
    <Text size="sm">
      {rule.field} {t.rules.operators[rule.operator ?? ''] ?? rule.operator}{' '}
      {rule.value !== undefined && <Code>{JSON.stringify(rule.value)}</Code>} <b>{result}</b>. {t.segments.found}:{' '}
      {rule.actual === undefined || rule.actual === null ? (
        t.segments.nothing
      ) : (
        <Code>{JSON.stringify(rule.actual)}</Code>
      )}
    </Text>
  );
}
