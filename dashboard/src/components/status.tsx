import { Badge } from '@mantine/core';
import { t } from '../text';

const COLOURS = {
  good: 'teal.7',
  bad: 'red.7',
  busy: 'blue.7',
  warn: 'yellow.7',
  idle: 'gray.6',
};

const TONES: Record<string, keyof typeof COLOURS> = {
  queued: 'busy',
  sent: 'good',
  delivered: 'good',
  opened: 'good',
  clicked: 'good',
  failed: 'bad',
  bounced: 'bad',
  complained: 'bad',
  suppressed: 'warn',
  cancelled: 'idle',
  waiting: 'busy',
  frozen: 'warn',
  completed: 'good',
  exited: 'idle',
  DRAFT: 'idle',
  SCHEDULED: 'busy',
  SENDING: 'busy',
  PAUSED: 'warn',
  COMPLETED: 'good',
  CANCELLED: 'idle',
  FAILED: 'bad',
  active: 'good',
  inactive: 'idle',
  pending: 'busy',
  PENDING: 'busy',
  ACCEPTED: 'good',
  REVOKED: 'idle',
  EXPIRED: 'warn',
  published: 'good',
  draft: 'idle',
  on: 'good',
  off: 'idle',
};

/** A status with its name and a coloured dot. The colour alone never carries the meaning. */
export function Status({ of, label }: { of: string; label?: string }) {
  const colour = COLOURS[TONES[of] ?? 'idle'];
  const dot = (
    <span
      aria-hidden
      style={{ width: 8, height: 8, borderRadius: 4, background: `var(--mantine-color-${colour.replace('.', '-')})` }}
    />
  );
  return (
    <Badge variant="default" leftSection={dot} tt="none" fw={500}>
      {label ?? t.statuses[of] ?? of}
    </Badge>
  );
}
