import { Box, Code, Stack, Text } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { api, read } from '../../api/client';
import { useProject } from '../../app/project';
import { Loaded } from '../../components/failure';
import { Status } from '../../components/status';
import { t } from '../../text';

/** A rule as the API explains it: groups hold others, the rest say what was found. */
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

/** Why a person is in a segment, or is not. */
export function Explained({ segmentId, person, idType }: { segmentId: string; person: string; idType?: 'internal' }) {
  const { projectId } = useProject();
  const explained = useQuery({
    queryKey: [projectId, 'explain', segmentId, person, idType],
    queryFn: ({ signal }) =>
      read(
        api.GET('/segments/{id}/explain', {
          params: { path: { id: segmentId }, query: { user_id: person, idType } },
          signal,
        }),
      ),
  });
  return (
    <Loaded query={explained} rows={2}>
      {(told) => (
        <Stack gap={4}>
          <Status of={told.matches ? 'on' : 'off'} label={told.matches ? t.segments.in : t.segments.out} />
          {(told.rules as ExplainedRule[]).map((rule, index) => (
            <Part key={index} rule={rule} />
          ))}
        </Stack>
      )}
    </Loaded>
  );
}

function Part({ rule }: { rule: ExplainedRule }) {
  const verdict = rule.matches ? t.segments.holds : t.segments.fails;
  const group = rule.any ?? rule.all ?? (rule.not && [rule.not]);
  if (group) {
    return (
      <Box pl="sm" style={{ borderLeft: '2px solid var(--mantine-color-default-border)' }}>
        <Text size="sm">
          {rule.any ? t.rules.kinds.any : rule.all ? t.rules.kinds.all : t.rules.kinds.not} <b>{verdict}</b>
        </Text>
        {group.map((inner, index) => (
          <Part key={index} rule={inner} />
        ))}
      </Box>
    );
  }
  return (
    <Text size="sm">
      {rule.field} {t.rules.operators[rule.operator ?? ''] ?? rule.operator}{' '}
      {rule.value !== undefined && <Code>{JSON.stringify(rule.value)}</Code>} <b>{verdict}</b>. {t.segments.found}:{' '}
      {rule.actual === undefined || rule.actual === null ? (
        t.segments.nothing
      ) : (
        <Code>{JSON.stringify(rule.actual)}</Code>
      )}
    </Text>
  );
}
