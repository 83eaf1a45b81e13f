import { Button, Group, NativeSelect, Paper, Stack, Text } from '@mantine/core';
import { problemsWithin } from '../../api/failure';
import { rulePartName } from '../../app/field-labels';
import { identityOf, withEntry } from '../../app/identity';
import { t } from '../../text';
import type { ConditionsProps } from './behaviour-editor';
import { LeafEditor } from './leaf-editor';
import { type Kind, type Leaf, type Rule, newRule, kindOf } from './rule';

const KINDS: Kind[] = ['property', 'event', 'message', 'segment', 'any', 'all', 'not'];
/** The API's limit for nested groups. */
const MAX_DEPTH = 5;

interface Props {
  rules: Rule[];
  onChange: (rules: Rule[]) => void;
  error: unknown;
  /** Path of the list in the request body. */
  path: string;
  depth?: number;
  /** Text between two rules. */
  joint?: string;
  kinds?: Kind[];
}

/** Editor for a list of rules; groups contain nested lists. */
export function RuleList({ rules, onChange, error, path, depth = 0, joint = t.rules.and, kinds = KINDS }: Props) {
  const replace = (index: number, rule: Rule) => onChange(withEntry(rules, index, rule));
  const remove = (index: number) => onChange(rules.filter((_, at) => at !== index));
  return (
    <Stack gap="xs">
      {rules.map((rule, index) => (
        <Stack key={identityOf(rule)} gap={4}>
          {index > 0 && (
            <Text size="xs" fw={600} c="dimmed">
              {joint}
            </Text>
          )}
          <RuleItem
            rule={rule}
            number={index + 1}
            onChange={(next) => replace(index, next)}
            onRemove={() => remove(index)}
            error={error}
            path={`${path}[${index}]`}
            depth={depth}
            kinds={kinds}
          />
        </Stack>
      ))}
      <Group>
        <Button size="xs" variant="default" onClick={() => onChange([...rules, newRule(kinds[0] ?? 'property')])}>
          {t.rules.add}
        </Button>
      </Group>
    </Stack>
  );
}

function PropertyRules(props: ConditionsProps) {
  return <RuleList {...props} kinds={['property']} />;
}

interface RuleItemProps {
  rule: Rule;
  number: number;
  onChange: (rule: Rule) => void;
  onRemove: () => void;
  error: unknown;
  path: string;
  depth: number;
  kinds: Kind[];
}

function RuleItem({ rule, number, onChange, onRemove, error, path, depth, kinds }: RuleItemProps) {
  const kind = kindOf(rule);
  const offered =
    depth + 1 >= MAX_DEPTH ? kinds.filter((each) => each !== 'any' && each !== 'all' && each !== 'not') : kinds;
  const problems = kind === 'any' || kind === 'all' || kind === 'not' ? [] : problemsWithin(error, path);
  const nested = { error, depth: depth + 1, kinds };
  return (
    <Paper withBorder p="sm" role="group" aria-label={t.rules.rule(number)}>
      <Stack gap="xs">
        <Group align="flex-end" justify="space-between" gap="xs">
          {kinds.length > 1 ? (
            <NativeSelect
              size="xs"
              label={t.rules.kind}
              value={kind}
              onChange={(event) => {
                const chosen = offered.find((each) => each === event.currentTarget.value);
                if (chosen) onChange(newRule(chosen));
              }}
              data={offered.map((each) => ({ value: each, label: t.rules.kinds[each] }))}
            />
          ) : (
            <span />
          )}
          <Button size="xs" variant="default" onClick={onRemove} aria-label={t.rules.removeNumber(number)}>
            {t.rules.remove}
          </Button>
        </Group>
        {'any' in rule && (
          <RuleList
            rules={rule.any}
            joint={t.rules.or}
            onChange={(any) => onChange({ any })}
            path={`${path}.any`}
            {...nested}
          />
        )}
        {'all' in rule && (
          <RuleList rules={rule.all} onChange={(all) => onChange({ all })} path={`${path}.all`} {...nested} />
        )}
        {'not' in rule && (
          <RuleItem
            rule={rule.not}
            number={1}
            onChange={(not) => onChange({ not })}
            onRemove={onRemove}
            path={`${path}.not`}
            {...nested}
          />
        )}
        {'field' in rule && (
          <LeafEditor
            key={kind}
            leaf={rule as Leaf}
            onChange={onChange}
            error={error}
            path={path}
            Conditions={PropertyRules}
          />
        )}
        {problems.map(({ field, message }) => (
          <Text key={field + message} size="sm" c="var(--mantine-color-error)" role="alert">
            {rulePartName(field.slice(path.length + 1))} {message}
          </Text>
        ))}
      </Stack>
    </Paper>
  );
}
