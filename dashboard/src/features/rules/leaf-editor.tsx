import { Checkbox, Group, NativeSelect, Stack, TextInput } from '@mantine/core';
import { type ComponentType, useId, useState } from 'react';
import { formatList, parseList } from '../../app/texts';
import { Failure } from '../../components/failure';
import { JsonInput } from '../../components/json';
import { useTypedText } from '../../components/typed';
import { t } from '../../text';
import { choices, useSegments } from '../segments/all-segments';
import { BehaviourEditor, type ConditionsProps } from './behaviour-editor';
import {
  type Behaviour,
  type Leaf,
  OPERATORS,
  type ValueType,
  kindOf,
  operatorsOf,
  parsed,
  shapeOf,
  typeOf,
  withOperator,
} from './rule';
import { asSegmentList, fitsForm } from './form-support';

const FIELDS = ['email', 'name', 'externalId', 'createdAt', 'lastSeenAt', 'push.platform', 'properties.'];

interface Props {
  leaf: Leaf;
  onChange: (leaf: Leaf) => void;
  error: unknown;
  path: string;
  /** Editor for the rules that filter events. */
  Conditions: ComponentType<ConditionsProps>;
}

export function LeafEditor({ leaf, onChange, error, path, Conditions }: Props) {
  const kind = kindOf(leaf);
  const fields = useId();
  // Decided once: the editor must not change while its fields are being filled in.
  const [inForm] = useState(() => fitsForm(leaf));
  if (!inForm) return <JsonEditor leaf={leaf} onChange={onChange} />;
  if (kind === 'event' || kind === 'message')
    return (
      <BehaviourEditor
        leaf={leaf as Leaf & { value?: Behaviour }}
        onChange={onChange}
        error={error}
        path={path}
        Conditions={Conditions}
      />
    );
  if (kind === 'segment') return <SegmentEditor leaf={asSegmentList(leaf)} onChange={onChange} />;
  return (
    <Group align="flex-end" gap="xs">
      <TextInput
        size="xs"
        label={t.rules.field}
        list={fields}
        value={leaf.field}
        onChange={(event) => onChange({ ...leaf, field: event.currentTarget.value })}
      />
      <datalist id={fields}>
        {FIELDS.map((field) => (
          <option key={field} value={field} />
        ))}
      </datalist>
      <NativeSelect
        size="xs"
        label={t.rules.operator}
        value={leaf.operator}
        onChange={(event) => {
          const chosen = operatorsOf(kind).find((each) => each === event.currentTarget.value);
          if (chosen) onChange(withOperator(leaf, chosen));
        }}
        data={operatorsOf(kind).map((each) => ({ value: each, label: t.rules.operators[each] ?? each }))}
      />
      <ValueEditor leaf={leaf} onChange={onChange} />
    </Group>
  );
}

function ValueEditor({ leaf, onChange }: { leaf: Leaf; onChange: (leaf: Leaf) => void }) {
  const shape = shapeOf(leaf.operator);
  const [type, setType] = useState<ValueType>(() => typeOf(leaf.value));
  const set = (value: unknown) => onChange({ ...leaf, value });
  if (shape === 'none') return null;
  if (shape === 'duration')
    return (
      <TextInput
        size="xs"
        label={t.rules.duration}
        value={String(leaf.value ?? '')}
        onChange={(event) => set(event.currentTarget.value)}
      />
    );
  if (shape === 'date')
    return (
      <TextInput
        size="xs"
        label={t.rules.date}
        value={String(leaf.value ?? '')}
        onChange={(event) => set(event.currentTarget.value)}
      />
    );
  const change = (chosen: ValueType) => {
    setType(chosen);
    const convert = (value: unknown) => parsed(String(value), chosen);
    set(Array.isArray(leaf.value) ? leaf.value.map(convert) : convert(leaf.value ?? ''));
  };
  return (
    <>
      <NativeSelect
        size="xs"
        label={t.rules.type}
        value={type}
        onChange={(event) => change(event.currentTarget.value as ValueType)}
        data={[
          { value: 'text', label: t.rules.types.text },
          { value: 'number', label: t.rules.types.number },
          { value: 'boolean', label: t.rules.types.boolean },
        ]}
      />
      <Scalars key={shape} shape={shape} type={type} value={leaf.value} onChange={set} />
    </>
  );
}

interface ScalarsProps {
  shape: 'scalar' | 'list' | 'range' | 'behaviour';
  type: ValueType;
  value: unknown;
  onChange: (value: unknown) => void;
}

function formatValue(value: unknown): string {
  return Array.isArray(value) ? formatList(value.map(String)) : String(value ?? '');
}

function Scalars({ shape, type, value, onChange }: ScalarsProps) {
  const [text, setText] = useTypedText(value, formatValue);
  if (shape === 'range') {
    const [from, to] = Array.isArray(value) ? (value as unknown[]) : ['', ''];
    return (
      <>
        <TextInput
          size="xs"
          w={110}
          label={t.rules.from}
          defaultValue={String(from ?? '')}
          onChange={(event) => onChange([parsed(event.currentTarget.value, type), to])}
        />
        <TextInput
          size="xs"
          w={110}
          label={t.rules.to}
          defaultValue={String(to ?? '')}
          onChange={(event) => onChange([from, parsed(event.currentTarget.value, type)])}
        />
      </>
    );
  }
  if (type === 'boolean') {
    return (
      <NativeSelect
        size="xs"
        label={t.rules.value}
        value={String(Array.isArray(value) ? value[0] : value)}
        onChange={(event) =>
          onChange(shape === 'list' ? [event.currentTarget.value === 'true'] : event.currentTarget.value === 'true')
        }
        data={[
          { value: 'true', label: t.yes },
          { value: 'false', label: t.no },
        ]}
      />
    );
  }
  const change = (next: string) => {
    const read = shape === 'list' ? parseList(next).map((part) => parsed(part, type)) : parsed(next, type);
    setText(next, read);
    onChange(read);
  };
  return (
    <TextInput
      size="xs"
      label={shape === 'list' ? t.rules.list : t.rules.value}
      value={text}
      onChange={(event) => change(event.currentTarget.value)}
    />
  );
}

function SegmentEditor({ leaf, onChange }: { leaf: Leaf; onChange: (leaf: Leaf) => void }) {
  const segments = useSegments();
  const chosen = Array.isArray(leaf.value) ? (leaf.value as string[]) : [];
  return (
    <Stack gap="xs">
      <Group align="flex-end">
        <NativeSelect
          size="xs"
          label={t.rules.operator}
          value={leaf.operator}
          onChange={(event) =>
            onChange({ ...leaf, operator: event.currentTarget.value === 'not_in' ? 'not_in' : 'in' })
          }
          data={[
            { value: 'in', label: t.rules.inAny },
            { value: 'not_in', label: t.rules.inNone },
          ]}
        />
        <Checkbox.Group label={t.nav.segments} value={chosen} onChange={(value) => onChange({ ...leaf, value })}>
          {choices(segments.data?.segments, chosen).map(({ value, label }) => (
            <Checkbox key={value} size="xs" mt={4} value={value} label={label} />
          ))}
        </Checkbox.Group>
      </Group>
      <Failure error={segments.error} onRetry={() => void segments.refetch()} />
    </Stack>
  );
}

/** JSON editor for a rule that the form cannot represent. */
function JsonEditor({ leaf, onChange }: { leaf: Leaf; onChange: (leaf: Leaf) => void }) {
  return (
    <Stack gap="xs">
      <Group align="flex-end" gap="xs">
        <TextInput
          size="xs"
          label={t.rules.field}
          value={leaf.field}
          onChange={(event) => onChange({ ...leaf, field: event.currentTarget.value })}
        />
        <NativeSelect
          size="xs"
          label={t.rules.operator}
          value={leaf.operator}
          onChange={(event) => {
            const chosen = OPERATORS.find((each) => each === event.currentTarget.value);
            if (chosen) onChange({ ...leaf, operator: chosen });
          }}
          data={OPERATORS.map((each) => ({ value: each, label: t.rules.operators[each] ?? each }))}
        />
      </Group>
      <JsonInput
        label={t.rules.asJson}
        description={t.rules.asJsonHint}
        rows={2}
        value={leaf.value}
        onChange={(value) => onChange({ ...leaf, value })}
      />
    </Stack>
  );
}
