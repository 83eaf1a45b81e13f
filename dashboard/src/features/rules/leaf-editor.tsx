import { Checkbox, Group, NativeSelect, TextInput } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useId, useState } from 'react';
import { api, read } from '../../api/client';
import { useProject } from '../../app/project';
import { t } from '../../text';
import { BehaviourEditor } from './behaviour-editor';
import { type Behaviour, type Leaf, type ValueType, kindOf, operatorsOf, parsed, shapeOf, typeOf, withOperator } from './rule';

const FIELDS = ['email', 'name', 'externalId', 'createdAt', 'lastSeenAt', 'push.platform', 'properties.'];

interface Props {
  leaf: Leaf;
  onChange: (leaf: Leaf) => void;
  error: unknown;
  place: string;
}

export function LeafEditor({ leaf, onChange, error, place }: Props) {
  const kind = kindOf(leaf);
  const fields = useId();
  if (kind === 'event' || kind === 'message') return <BehaviourEditor leaf={leaf as Leaf & { value?: Behaviour }} onChange={onChange} error={error} place={place} />;
  if (kind === 'segment') return <SegmentEditor leaf={leaf} onChange={onChange} />;
  return (
    <Group align="flex-end" gap="xs">
      <TextInput size="xs" label={t.rules.field} list={fields} value={leaf.field} onChange={(event) => onChange({ ...leaf, field: event.currentTarget.value })} />
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
  if (shape === 'duration') return <TextInput size="xs" label={t.rules.duration} value={String(leaf.value ?? '')} onChange={(event) => set(event.currentTarget.value)} />;
  if (shape === 'moment') return <TextInput size="xs" label={t.rules.moment} value={String(leaf.value ?? '')} onChange={(event) => set(event.currentTarget.value)} />;
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
  shape: 'scalar' | 'list' | 'two' | 'behaviour';
  type: ValueType;
  value: unknown;
  onChange: (value: unknown) => void;
}

function Scalars({ shape, type, value, onChange }: ScalarsProps) {
  // As it is typed: a number on its way, such as `1.`, is none yet.
  const [text, setText] = useState(() => (Array.isArray(value) ? value.join(', ') : String(value ?? '')));
  if (shape === 'two') {
    const [from, to] = Array.isArray(value) ? (value as unknown[]) : ['', ''];
    return (
      <>
        <TextInput size="xs" w={110} label={t.rules.from} defaultValue={String(from ?? '')} onChange={(event) => onChange([parsed(event.currentTarget.value, type), to])} />
        <TextInput size="xs" w={110} label={t.rules.to} defaultValue={String(to ?? '')} onChange={(event) => onChange([from, parsed(event.currentTarget.value, type)])} />
      </>
    );
  }
  if (type === 'boolean') {
    return (
      <NativeSelect
        size="xs"
        label={t.rules.value}
        value={String(Array.isArray(value) ? value[0] : value)}
        onChange={(event) => onChange(shape === 'list' ? [event.currentTarget.value === 'true'] : event.currentTarget.value === 'true')}
        data={[{ value: 'true', label: t.yes }, { value: 'false', label: t.no }]}
      />
    );
  }
  const change = (next: string) => {
    setText(next);
    const parts = next.split(',').map((part) => part.trim()).filter(Boolean);
    onChange(shape === 'list' ? parts.map((part) => parsed(part, type)) : parsed(next, type));
  };
  return <TextInput size="xs" label={shape === 'list' ? t.rules.list : t.rules.value} value={text} onChange={(event) => change(event.currentTarget.value)} />;
}

function SegmentEditor({ leaf, onChange }: { leaf: Leaf; onChange: (leaf: Leaf) => void }) {
  const { projectId } = useProject();
  const segments = useQuery({ queryKey: [projectId, 'segments'], queryFn: ({ signal }) => read(api.GET('/segments', { signal })) });
  const chosen = Array.isArray(leaf.value) ? (leaf.value as string[]) : [];
  return (
    <Group align="flex-start" gap="md">
      <NativeSelect
        size="xs"
        label={t.rules.operator}
        value={leaf.operator}
        onChange={(event) => onChange({ ...leaf, operator: event.currentTarget.value === 'not_in' ? 'not_in' : 'in' })}
        data={[{ value: 'in', label: t.rules.inAny }, { value: 'not_in', label: t.rules.inNone }]}
      />
      <Checkbox.Group label={t.nav.segments} value={chosen} onChange={(value) => onChange({ ...leaf, value })}>
        {segments.data?.segments.map((segment) => <Checkbox key={segment.id} size="xs" mt={4} value={segment.id} label={segment.name} />)}
      </Checkbox.Group>
    </Group>
  );
}
