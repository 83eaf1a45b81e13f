import { Text } from '@mantine/core';
import type { ReasonInWords } from '../app/reasons';
import { CodeName } from './code-name';

interface Props {
  reason: string | null | undefined;
  /** Null if the code is unknown: then the reason is shown as it is. */
  words: (reason: string) => ReasonInWords | null;
  /** Shows the code too, for screens that filter by it or that people quote from. */
  withCode?: boolean;
  maw?: number;
  /** Limits the lines of the details, or of an unknown reason. */
  lineClamp?: number;
}

/** A reason in words: its title and details, and what to do. */
export function Reason({ reason, words, withCode, maw, lineClamp }: Props) {
  if (!reason) return '–';
  const known = words(reason);
  if (!known)
    return (
      <Text size="sm" maw={maw} lineClamp={lineClamp} style={{ overflowWrap: 'anywhere' }}>
        {reason}
      </Text>
    );
  return (
    <div style={{ maxWidth: maw, overflowWrap: 'anywhere' }}>
      <Text size="sm">
        {known.title}
        {withCode && <CodeName code={known.code} />}
      </Text>
      {known.details && (
        <Text size="sm" lineClamp={lineClamp}>
          {known.details}
        </Text>
      )}
      <Text size="xs" c="dimmed">
        {known.advice}
      </Text>
    </div>
  );
}
