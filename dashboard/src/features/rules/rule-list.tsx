import { Button, Group, NativeSelect, Paper, Stack, Text } from '@mantine/core';
import { problemsWithin } from '../../api/failure';
import { identityOf, withEntry } from '../../app/identity';
import { t } from '../../text';
import type { ConditionsProps } from './behaviour-editor';
import { LeafEditor } from './leaf-editor';
import { type Kind, type Leaf, type Rule, fresh, kindOf } from './rule';

const KINDS: Kind[] = ['property', 'event', 'message', 'segment', 'any', 'all', 'not'];
/** As deep as the API takes groups. */
const DEEPEST = 5;

interface Props {
  rules: Rule[];
  onChange: (rules: Rule[]) => void;
  /** What the API said, and where these rules are in what it was sent. */
  error: unknown;
  place: string;
  depth?: number;
  /** Between them. */
  joint?: string;
  kinds?: Kind[];
}

/** Rules under each other; groups hold lists of their own. */
export function RuleList({ rules, onChange, error, place, depth = 0, joint = t.rules.and, kinds = KINDS }: Props) {
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
          <One
            rule={rule}
            number={index + 1}
            onChange={(next) => replace(index, next)}
            onRemove={() => remove(index)}
            error={error}
            place={`${place}[${index}]`}
            depth={depth}
            kinds={kinds}
          />
        </Stack>
      ))}
      <Group>
        <Button size="xs" variant="default" onClick={() => onChange([...rules, fresh(kinds[0] ?? 'property')])}>
          {t.rules.add}
        </Button>
      </Group>
    </Stack>
  );
}

function PropertyRules(props: ConditionsProps) {
  return <RuleList {...props} kinds={['property']} />;
}

interface OneProps {
  rule: Rule;
  number: number;
  onChange: (rule: Rule) => void;
  onRemove: () => void;
  error: unknown;
  place: string;
  depth: number;
  kinds: Kind[];
}

function One({ rule, number, onChange, onRemove, error, place, depth, kinds }: OneProps) {
  const kind = kindOf(rule);
  const offered =
    depth + 1 >= DEEPEST ? kinds.filter((each) => each !== 'any' && each !== 'all' && each !== 'not') : kinds;
  const problems = kind === 'any' || kind === 'all' || kind === 'not' ? [] : problemsWithin(error, place);
  const deeper = { error, depth: depth + 1, kinds };
  return (
    <Paper withBorder p="sm" role="group" aria-label={t.rules.rule(number)}>
      <Stack gap="xs">
        <Group align="flex-end" justify="space-between" gap="xs">
          {kinds.length > 1 ? (
            <NativeSelect
              size="xs"
              label={t.rules.about}
              value={kind}
              onChange={(event) => {
                const chosen = offered.find((each) => each === event.currentTarget.value);
                if (chosen) onChange(fresh(chosen));
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
            place={`${place}.any`}
            {...deeper}
          />
        )}
        {'all' in rule && (
          <RuleList rules={rule.all} onChange={(all) => onChange({ all })} place={`${place}.all`} {...deeper} />
        )}
        {'not' in rule && (
          <One
            rule={rule.not}
            number={1}
            onChange={(not) => onChange({ not })}
            onRemove={onRemove}
            place={`${place}.not`}
            {...deeper}
          />
        )}
        {'field' in rule && (
          <LeafEditor
            key={kind}
            leaf={rule as Leaf}
            onChange={onChange}
            error={error}
            place={place}
            Conditions={PropertyRules}
          />
        )}
        {problems.map(({ field, message }) => (
          <Text key={field + message} size="sm" c="var(--mantine-color-error)" role="alert">
            {field.slice(place.length + 1)} {message}
          </Text>
        ))}
      </Stack>
    </Paper>
  );
}
