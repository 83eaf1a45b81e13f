import { Group, NativeSelect, Stack, Text, TextInput } from '@mantine/core';
import { useProject } from '../../app/project';
import type { Channel } from '../../app/values';
import { Failure } from '../../components/failure';
import { JsonInput } from '../../components/json';
import { ScreenLink } from '../../components/links';
import { PagedSelect } from '../../components/paged-select';
import { t } from '../../text';
import { useGroups } from '../campaigns/wizard-audience';
import type { Leaf } from '../rules/rule';
import { RuleList } from '../rules/rule-list';
import { choices } from '../segments/all-segments';
import { useTemplateChoices } from '../templates/template-choices';
import { useAutomationChoices } from './automation-choices';
import { type Step, parseDuration, formatDuration } from './step';
import { CHANNEL_OF_STEP } from './step-detail';

interface Props {
  step: Step;
  onChange: (step: Step) => void;
  error: unknown;
  path: string;
}

/** Fields of a step, without its branches. */
export function StepFields({ step, onChange, error, path }: Props) {
  const set = (change: Partial<Step>) => onChange({ ...step, ...change } as Step);
  const text = (field: string) => (typeof step[field] === 'string' ? step[field] : '');
  const line = (field: string, label: string) => (
    <TextInput
      size="xs"
      label={label}
      value={text(field)}
      onChange={(event) => set({ [field]: event.currentTarget.value })}
    />
  );
  const time = (field: string, label: string) => (
    <TextInput
      size="xs"
      label={label}
      value={formatDuration(step[field])}
      onChange={(event) => set({ [field]: event.currentTarget.value })}
      onBlur={(event) => set({ [field]: parseDuration(event.currentTarget.value) })}
    />
  );
  const channel = CHANNEL_OF_STEP[step.type];
  if (channel) return <Send channel={channel} step={step} set={set} />;
  switch (step.type) {
    case 'WAIT':
      return time('delay', t.steps.delay);
    case 'WAIT_UNTIL':
      return (
        <Group align="flex-end" gap="xs">
          {line('time', t.steps.time)}
          {line('property', t.steps.property)}
          {time('offset', t.steps.offset)}
        </Group>
      );
    case 'WAIT_FOR_EVENT':
      return (
        <>
          <Group align="flex-end" gap="xs">
            {line('event', t.steps.event)}
            {time('timeout', t.steps.timeout)}
          </Group>
          <details>
            <summary>
              <Text span size="sm">
                {t.steps.where}
              </Text>
            </summary>
            <RuleList
              rules={(step.where ?? []) as Leaf[]}
              onChange={(where) => set({ where })}
              error={error}
              path={`${path}.where`}
              kinds={['property']}
            />
          </details>
        </>
      );
    case 'UPDATE_USER':
      return (
        <JsonInput
          label={t.steps.properties}
          value={step.properties}
          rows={2}
          emptyValue={{}}
          onChange={(properties) => set({ properties })}
        />
      );
    case 'TRACK_EVENT':
      return (
        <>
          {line('event', t.steps.event)}
          <JsonInput
            label={t.steps.properties}
            value={step.properties ?? undefined}
            rows={2}
            onChange={(properties) => set({ properties })}
          />
        </>
      );
    case 'WEBHOOK':
      return (
        <>
          <TextInput
            size="xs"
            label={t.steps.name}
            description={t.steps.nameHint}
            value={text('name')}
            onChange={(event) => set({ name: event.currentTarget.value })}
          />
          {line('url', t.steps.url)}
          <JsonInput label={t.steps.body} value={step.body} rows={2} onChange={(body) => set({ body })} />
        </>
      );
    case 'START_AUTOMATION':
      return <Start step={step} set={set} />;
    default:
      return null;
  }
}

interface PartProps {
  step: Step;
  set: (change: Partial<Step>) => void;
}

function Send({ channel, step, set }: PartProps & { channel: Channel }) {
  const { projectId } = useProject();
  const [templateId, groupId] = [String(step.templateId ?? ''), String(step.subscriptionGroupId ?? '')];
  const { pages, rows, options } = useTemplateChoices(channel, [templateId]);
  const groups = useGroups();
  const groupChoices = choices(groups.data?.groups, [groupId]);
  return (
    <Stack gap="xs">
      <Group align="flex-end" gap="xs">
        <PagedSelect
          size="xs"
          label={t.steps.template}
          pages={pages}
          value={templateId}
          onChange={(event) => set({ templateId: event.currentTarget.value })}
          data={[{ value: '', label: t.steps.choose }, ...options]}
        />
        {groupChoices.length > 0 && (
          <NativeSelect
            size="xs"
            label={t.steps.group}
            value={groupId}
            onChange={(event) => set({ subscriptionGroupId: event.currentTarget.value })}
            data={[{ value: '', label: t.none }, ...groupChoices]}
          />
        )}
        {pages.isSuccess && rows.length === 0 && (
          <Text size="sm">
            {t.steps.noTemplates}{' '}
            <ScreenLink
              to="/p/$projectId/templates/$templateId"
              params={{ projectId, templateId: 'new' }}
              underline="always"
              target="_blank"
            >
              {t.templates.create}
            </ScreenLink>
          </Text>
        )}
      </Group>
      <Failure error={pages.error ?? groups.error} onRetry={() => void (pages.isError ? pages : groups).refetch()} />
    </Stack>
  );
}

function Start({ step, set }: PartProps) {
  const automationId = String(step.automationId ?? '');
  const { pages, options } = useAutomationChoices([automationId]);
  return (
    <Stack gap="xs">
      <PagedSelect
        size="xs"
        label={t.steps.automation}
        pages={pages}
        value={automationId}
        onChange={(event) => set({ automationId: event.currentTarget.value })}
        data={[{ value: '', label: t.steps.choose }, ...options]}
      />
      <Failure error={pages.error} onRetry={() => void pages.refetch()} />
    </Stack>
  );
}
